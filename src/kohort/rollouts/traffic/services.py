"""The two Services of a release: the stable one, pinned to its revision, and the canary's, a copy for the other one.

The stable Service belongs to the user. All that is done to it is one more selector key, and an annotation that says so;
from the annotation alone it can be undone, even when the workload and the Rollout are gone.
"""

import copy
from collections.abc import Iterable, Mapping

import msgspec

from kohort.kube.merge_patch import locked, merge_patch
from kohort.kube.resources import SERVICES
from kohort.objects.json_types import JsonObject
from kohort.rollouts import messages
from kohort.rollouts.action_result import ProblemReason
from kohort.rollouts.messages import EventReason, ReleaseEvent
from kohort.rollouts.reference_problems import (
    HeadlessService,
    NoSelector,
    ObjectMissing,
    OwnedByGroupSet,
    Reference,
    RefField,
    SelectsNoPod,
    ServiceNotNamed,
)
from kohort.rollouts.traffic.annotations import NOT_COPIED
from kohort.rollouts.traffic.model import RouteRef, Selectors, ServingPods, TrafficRequest
from kohort.rollouts.traffic.pending_writes import (
    NOTHING_TO_DO,
    TrafficNotReady,
    TrafficPlan,
    TrafficProblem,
    Write,
    belongs_to,
    is_going,
    labels_of_copy,
    refuse_foreign,
    unusable,
)
from kohort.rules import group_labels
from kohort.rules.group_identity import is_leader
from kohort.rules.rollout_labels import ADDED_SELECTOR, SERVES

_PER_SERVICE = ("clusterIP", "clusterIPs", "externalIPs", "ipFamilyPolicy", "ipFamilies", "loadBalancerIP")
_OF_LOAD_BALANCERS = (
    "allocateLoadBalancerNodePorts",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "loadBalancerClass",
    "loadBalancerSourceRanges",
)


# The canary's Service


def canary_selector(stable: Mapping[str, str], selectors: Selectors) -> dict[str, str]:
    """Which pods are the canary's.

    | key of                     | value                                                   |
    |----------------------------|---------------------------------------------------------|
    | the stable selector        | as there                                                |
    | patchPodTemplateMetadata   | as patched, if the stable selector has the key, or with AppendPodSelector |
    | the revision               | the canary's                                            |
    | pinned (groups: set, leader) | as pinned, always; nothing may widen this to workers  |
    """
    patched = {key: value for key, value in selectors.patched.items() if key in stable or selectors.appends}
    return {**stable, **patched, selectors.revision_key: selectors.canary_revision, **selectors.pinned}


def canary_service(stable: JsonObject, name: str, request: TrafficRequest) -> JsonObject:
    """A copy of the stable Service that selects the canary. Never a second load balancer: that costs money and takes
    minutes; a NodePort stays one, with ports of its own."""
    metadata = stable["metadata"]
    spec = copy.deepcopy(stable["spec"])
    kept = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in NOT_COPIED}
    for field in _PER_SERVICE:
        spec.pop(field, None)
    if spec.get("type") != "NodePort":
        spec["type"] = "ClusterIP"
        for field in _OF_LOAD_BALANCERS:
            spec.pop(field, None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)
    spec["selector"] = canary_selector(unpinned_selector(stable), request.selectors)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "ownerReferences": [dict(request.owner)],
            "labels": labels_of_copy(metadata.get("labels"), request.owner),
            **({"annotations": kept} if kept else {}),
        },
        "spec": spec,
    }


def plan_canary(stable: JsonObject, existing: JsonObject | None, ref: RouteRef, request: TrafficRequest) -> TrafficPlan:
    name = request.canary_service(ref)
    desired = canary_service(stable, name, request)
    if existing is None:
        text = f"create Service {name} for the canary"
        return TrafficPlan((Write("create", SERVICES, request.namespace, name, text, desired),))
    if is_going(existing):
        raise TrafficNotReady(f"Service {name} of an earlier release is still being deleted")
    refuse_foreign(existing, "Service", request.owner)
    before = {"spec": {"selector": existing["spec"].get("selector") or {}}}
    patch = merge_patch(before, {"spec": {"selector": desired["spec"]["selector"]}})
    if patch is None:
        return NOTHING_TO_DO
    text = f"point Service {name} at revision {request.selectors.canary_revision}"
    return TrafficPlan((Write("patch", SERVICES, request.namespace, name, text, patch),))


def check_stable_revision(selectors: Selectors) -> None:
    """Without it no Service can be pinned. Raises TrafficNotReady."""
    if not selectors.stable_revision:
        raise TrafficNotReady("waiting for the stable revision to be known")


def check_revisions(selectors: Selectors) -> None:
    """Without both no Service can select one version. Raises TrafficNotReady."""
    check_stable_revision(selectors)
    if not selectors.canary_revision:
        raise TrafficNotReady("waiting for the new revision to be known")


def without_endpoint(plan: TrafficPlan, canary: str) -> TrafficPlan:
    """What is done of a plan that routes to a Service without a ready endpoint. Raises TrafficNotReady.

    | routes to be changed | then                                             |
    |----------------------|--------------------------------------------------|
    | some                 | wait: requests would fail                        |
    | none                 | an event: requests are routed there already      |
    """
    if plan.writes:
        raise TrafficNotReady(f"Service {canary} has no ready endpoint yet; traffic is not moved before it has one")
    text = f"Service {canary} has no ready endpoint, and requests are routed to it"
    return TrafficPlan(plan.writes, (*plan.events, messages.canary_unavailable(text)))


def plan_removal(existing: JsonObject | None, request: TrafficRequest) -> TrafficPlan:
    """Only what is ours and still there."""
    if existing is None or is_going(existing) or not belongs_to(existing, request.owner):
        return NOTHING_TO_DO
    metadata = existing["metadata"]
    text = f"delete Service {metadata['name']}"
    return TrafficPlan((Write("delete", SERVICES, request.namespace, metadata["name"], text, uid=metadata["uid"]),))


# The pin of the stable Service


class _Pin(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str
    value: str
    before: str | None = None


def pin_of(service: JsonObject) -> _Pin | None:
    text = (service["metadata"].get("annotations") or {}).get(ADDED_SELECTOR)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=_Pin)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def selector_without_withdrawal(service: JsonObject) -> dict[str, str]:
    """The selector as if no pod had left the Service (`withdrawal`); a pin stays."""
    return {key: value for key, value in (service["spec"].get("selector") or {}).items() if key != SERVES}


def unpinned_selector(service: JsonObject) -> dict[str, str]:
    """The selector as the user wrote it."""
    selector = selector_without_withdrawal(service)
    pin = pin_of(service)
    if pin is None or selector.get(pin.key) != pin.value:
        return selector
    if pin.before is None:
        del selector[pin.key]
    else:
        selector[pin.key] = pin.before
    return selector


def plan_pin(service: JsonObject, request: TrafficRequest) -> TrafficPlan:
    """The Service selects the stable revision only, and says so in an annotation."""
    _check_keys(request.selectors)
    key, value = request.selectors.revision_key, request.selectors.stable_revision
    known = pin_of(service)
    before = unpinned_selector(service).get(key)
    pin = _Pin(key, value, before if known is not None or before != value else None)
    metadata, selector = service["metadata"], service["spec"].get("selector") or {}
    pinned = {
        "metadata": {"annotations": {ADDED_SELECTOR: msgspec.json.encode(pin).decode()}},
        "spec": {"selector": {key: value}},
    }
    current = {
        "metadata": {"annotations": _only(metadata.get("annotations"), ADDED_SELECTOR)},
        "spec": {"selector": _only(selector, key)},
    }
    patch = merge_patch(current, pinned)
    if patch is None:
        return NOTHING_TO_DO
    text = f"pin Service {metadata['name']} to revision {value}"
    return TrafficPlan((_patch(service, patch, text),))


def plan_unpin(service: JsonObject | None, selectors: Selectors) -> TrafficPlan:
    """The selector as it was. Where the annotation was lost, the key is known from the workload and must hold the
    revision that we would have written; anything else is the user's."""
    if service is None:
        return NOTHING_TO_DO
    metadata, selector = service["metadata"], service["spec"].get("selector") or {}
    original = unpinned_selector(service) | _only(selector, SERVES)
    key = selectors.revision_key
    annotated = ADDED_SELECTOR in (metadata.get("annotations") or {})
    if not annotated and key and selectors.stable_revision and selector.get(key) == selectors.stable_revision:
        original = {name: value for name, value in selector.items() if name != key}
    before = {"metadata": {"annotations": _only(metadata.get("annotations"), ADDED_SELECTOR)}, "spec": dict(selector)}
    patch = merge_patch(before, {"metadata": {"annotations": {}}, "spec": original})
    if patch is None:
        return NOTHING_TO_DO
    if "spec" in patch:
        patch["spec"] = {"selector": patch["spec"]}
    return TrafficPlan(
        (_patch(service, patch, f"remove the revision from the selector of Service {metadata['name']}"),)
    )


def _only(values: Mapping[str, str] | None, key: str) -> dict[str, str]:
    return {key: values[key]} if values and key in values else {}


def _patch(service: JsonObject, patch: JsonObject, text: str) -> Write:
    metadata = service["metadata"]
    body = locked(patch, metadata["resourceVersion"])
    return Write("patch", SERVICES, metadata["namespace"], metadata["name"], text, body)


def left_pods_selector(
    stable: JsonObject, canary: JsonObject | None, selectors: Selectors, *, new: bool
) -> dict[str, str]:
    """The pods that requests do not reach any more, once everything goes to the other version; empty if versions are
    not known.

    The canary Service selects the pods of the new version; without one they are known by their revision.
    """
    if new and canary is not None and canary["metadata"]["name"] != stable["metadata"]["name"]:
        return dict(canary["spec"].get("selector") or {})
    revision = selectors.canary_revision if new else selectors.stable_revision
    if not revision or not selectors.revision_key or selectors.stable_revision == selectors.canary_revision:
        return {}
    own = selectors.pinned if new else {}
    return {**unpinned_selector(stable), **own, selectors.revision_key: revision}


# Whether the stable Service can be used


def check_service(service: JsonObject | None, ref: RouteRef, request: TrafficRequest) -> JsonObject:
    if not ref.service:
        raise unusable(ServiceNotNamed(request.ref_list))
    named = service_reference(ref.service, request)
    if service is None:
        raise unusable(ObjectMissing(named))
    spec = service["spec"]
    if spec.get("clusterIP") == "None":
        raise unusable(HeadlessService(named))
    if spec.get("type") == "ExternalName" or not spec.get("selector"):
        raise unusable(NoSelector(named))
    for owner in service["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == "LeaderWorkerSet":
            raise unusable(OwnedByGroupSet(named, owner["name"]))
    return service


def service_reference(name: str, request: TrafficRequest) -> Reference:
    return request.reference(SERVICES.kind, name, RefField.SERVICE)


def _check_keys(selectors: Selectors) -> None:
    """A Service that is pinned to a key which both versions carry would send requests to both."""
    if selectors.stable_revision and selectors.stable_revision == selectors.canary_revision:
        raise TrafficProblem(messages.same_revision_keys(selectors.stable_revision))


def check_leaders(service: JsonObject, selected: Iterable[JsonObject]) -> tuple[ReleaseEvent, ...]:
    """What the pods that a Service selects say about it, where they are members of groups."""
    members = [pod for pod in selected if group_labels.WORKER_INDEX in (pod["metadata"].get("labels") or {})]
    leaders = [pod for pod in members if is_leader(pod["metadata"]["labels"])]
    name = service["metadata"]["name"]
    if members and not leaders:
        group_set = members[0]["metadata"]["labels"].get(group_labels.NAME, "")
        raise TrafficProblem(
            f"service {name} selects no leader pod of LeaderWorkerSet {group_set}; spec.selector must name labels of "
            f'leaders, for example {group_labels.WORKER_INDEX}: "{group_labels.LEADER}"',
            ProblemReason.SERVICE_SELECTS_NO_PODS,
        )
    events = []
    if len(members) > len(leaders):
        missing = f'{group_labels.WORKER_INDEX}: "{group_labels.LEADER}"'
        text = f"Service {name} also selects workers; add {missing} to spec.selector"
        events.append(ReleaseEvent(EventReason.SERVICE_SELECTS_WORKERS, text))
    events += [
        ReleaseEvent(EventReason.LEADER_PORT_MISSING, f"Service {name}: no leader container has port {port}")
        for port in _missing_ports(service, leaders)
    ]
    return tuple(events)


def check_selection(
    service: JsonObject, selected: Iterable[JsonObject], serving: ServingPods, named: Reference
) -> tuple[ReleaseEvent, ...]:
    """Whether requests to the Service can reach the workload. Pods that are there decide; before there are any, the
    labels of its template do. Webhooks of others may add labels, so that a template alone says only what to expect."""
    reaches = any(
        serving.identity.items() <= (pod["metadata"].get("labels") or {}).items()
        for pod in selected
        if serving.identity
    )
    unmatched = {
        key: value
        for key, value in unpinned_selector(service).items()
        if serving.labels.get(key, value if key in serving.other_keys else None) != value
    }
    if not unmatched:
        return ()
    name = service["metadata"]["name"]
    wrong = ", ".join(f"{key}={value}" for key, value in sorted(unmatched.items()))
    if reaches:
        text = f"Service {name} selects by {wrong}, which the template of {serving.workload} does not have any more"
        return (ReleaseEvent(EventReason.SERVICE_MISSES_NEW_PODS, text),)
    found = ", ".join(f"{key}={value}" for key, value in sorted(serving.labels.items()))
    raise unusable(SelectsNoPod(named, serving.workload, wrong, found))


def _missing_ports(service: JsonObject, leaders: list[JsonObject]) -> list[str]:
    """Targets that no leader declares. A number may be open undeclared; it is only doubted if others are declared."""
    declared = [
        port
        for leader in leaders[:1]
        for container in leader["spec"].get("containers") or ()
        for port in container.get("ports") or ()
    ]
    names = {port.get("name") for port in declared}
    numbers = {port["containerPort"] for port in declared}
    missing = []
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort", port["port"])
        if isinstance(target, str):
            if leaders and target not in names:
                missing.append(target)
        elif numbers and target not in numbers:
            missing.append(str(target))
    return missing
