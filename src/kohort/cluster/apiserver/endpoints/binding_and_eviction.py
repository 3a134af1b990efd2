"""Binding a pod to a node, and evicting it with respect for its disruption budget."""

from typing import Final

import msgspec

from kohort.cluster.apiserver.apply.managed import own_status
from kohort.cluster.apiserver.endpoints import object_responses, request_bodies, unstored_admission
from kohort.cluster.apiserver.endpoints.deletion import Deleter, check_preconditions
from kohort.cluster.apiserver.endpoints.preserved_fields import storage_problem
from kohort.cluster.apiserver.endpoints.query_options import DeleteOptions, WriteOptions, delete_options, write_options
from kohort.cluster.apiserver.endpoints.reading import missing
from kohort.cluster.apiserver.endpoints.request_context import ResourceRequest, ServerParts
from kohort.cluster.apiserver.endpoints.writing import Writer
from kohort.cluster.apiserver.schema import builtin
from kohort.cluster.apiserver.storage.model import StaleRevision, Stored
from kohort.kube import clock, errors
from kohort.kube.errors import StatusCause
from kohort.kube.http import Response
from kohort.objects import field_errors
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import FINISHED_PHASES
from kohort.objects.selectors import LabelSelector
from kohort.rules import pod_disruption

SUCCESS: Final[JsonObject] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
BUDGETS: Final = "poddisruptionbudgets.policy"
EVICTION_RETRY: Final = 10
MAX_DISRUPTED_PODS: Final = 2000


class PodActions:
    def __init__(self, parts: ServerParts, writer: Writer, deleter: Deleter) -> None:
        self.parts = parts
        self.writer = writer
        self.deleter = deleter

    # --- binding ------------------------------------------------------------------------------------------------------

    async def bind(self, call: ResourceRequest) -> Response:
        """POST pods/{name}/binding, and the older POST bindings, which names the pod only in the body."""
        options = write_options(call.request, "CreateOptions")
        binding = await self._read(call, "Binding", "v1", options)
        metadata = binding.setdefault("metadata", {})
        name = call.name or metadata.get("name") or ""
        if metadata.get("name") != name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        target = binding.get("target") or {}
        problems = _target_problems(target)
        if problems:
            raise errors.failure(500, "", _aggregated(problems))
        await unstored_admission.admit(self.parts, call, options, binding, name)
        pod_call = self._pod_call(call, name)
        while True:
            stored = self._pod(pod_call)
            live = pod_call.view.document(stored)
            _check_identity(pod_call, live, binding["metadata"])
            pod = _bound(live, binding, target["name"])
            if options.dry_run:
                break
            try:
                await self.writer.store(pod_call, pod, expected=stored.revision)
                break
            except StaleRevision:
                continue
        return object_responses.of_document(201, dict(SUCCESS), call.media)

    # --- eviction -----------------------------------------------------------------------------------------------------

    async def evict(self, call: ResourceRequest) -> Response:
        options = write_options(call.request, "CreateOptions")
        eviction = await self._read(call, "Eviction", "policy/v1", options)
        if (eviction.get("metadata") or {}).get("name") != call.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        deletion = _deletion(eviction, options)
        await unstored_admission.admit(self.parts, call, options, eviction, call.name)
        pod_call = self._pod_call(call, call.name)
        await self._evict(pod_call, deletion)
        return object_responses.of_document(201, dict(SUCCESS), call.media)

    async def _evict(self, call: ResourceRequest, deletion: DeleteOptions) -> None:
        stored = self._pod(call)
        pod = call.view.document(stored)
        pinned = deletion
        if not _ignores_budgets(pod):
            budget = self._budget(pod)
            if budget is not None and _unhealthy_may_go(pod, budget):
                pinned = msgspec.structs.replace(deletion, resource_version=str(stored.revision))
            elif budget is not None:
                await self._spend(budget["metadata"]["namespace"], budget["metadata"]["name"], call.name, deletion)
        await self._mark_and_delete(call, pinned)

    def _budget(self, pod: JsonObject) -> JsonObject | None:
        """The one budget that covers a pod."""
        labels = pod["metadata"].get("labels") or {}
        found = []
        for budget in self.parts.reader.list(BUDGETS, pod["metadata"]["namespace"]):
            selector = (budget.get("spec") or {}).get("selector")
            if selector is not None and LabelSelector.from_object(selector).matches(labels):
                found.append(budget)
        if len(found) > 1:
            message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise errors.failure(500, "", message)
        return found[0] if found else None

    async def _spend(self, namespace: str, name: str, pod: str, deletion: DeleteOptions) -> None:
        """Take one allowed disruption off the budget."""
        view = self.parts.catalog.by_kind("policy", "PodDisruptionBudget")
        assert view is not None
        while True:
            stored = self.parts.store.get(BUDGETS, namespace, name)
            if stored is None:
                return
            budget = spent(view.document(stored), pod)
            own_status(view.document(stored), budget, view.kind.schema())
            if deletion.dry_run:
                return
            try:
                await self.parts.store.write(
                    BUDGETS,
                    namespace,
                    name,
                    budget,
                    expected=stored.revision,
                    labels=stored.labels,
                    fields=stored.fields,
                )
                return
            except StaleRevision:
                continue

    async def _mark_and_delete(self, call: ResourceRequest, deletion: DeleteOptions) -> None:
        if not deletion.dry_run:
            deletion = await self._mark(call, deletion)
        await self.deleter.delete_one(call, deletion, admitted=True)

    async def _mark(self, call: ResourceRequest, deletion: DeleteOptions) -> DeleteOptions:
        condition = {
            "type": pod_disruption.DISRUPTION_TARGET,
            "status": "True",
            "reason": pod_disruption.EVICTION_API,
            "message": "Eviction API: evicting",
        }
        while True:
            stored = self._pod(call)
            pod = call.view.document(stored)
            check_preconditions(call, deletion, pod)
            if not set_condition(pod, condition):
                return deletion
            try:
                stored = await self.writer.store(call, pod, expected=stored.revision)
            except StaleRevision:
                continue
            if deletion.resource_version is None:
                return deletion
            return msgspec.structs.replace(deletion, resource_version=str(stored.revision))

    # --- shared -------------------------------------------------------------------------------------------------------

    async def _read(self, call: ResourceRequest, kind: str, api_version: str, options: WriteOptions) -> JsonObject:
        document, duplicates = await self.parts.large.run(
            call.user.name, call.size, lambda: request_bodies.decode_request(call, kind)
        )
        if kind == "Eviction" and document.get("apiVersion") == "policy/v1beta1":
            document["apiVersion"] = api_version
        request_bodies.check_type(self.parts, call, document, kind, api_version)
        document["kind"], document["apiVersion"] = kind, api_version
        group, _, version = api_version.rpartition("/")
        node = builtin.kind_node(group, version, kind)
        request_bodies.shape(call, document, node, duplicates, options.field_validation or "Warn")
        found = (document.get("metadata") or {}).get("namespace")
        if found and found != call.path.namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        return document

    def _pod_call(self, call: ResourceRequest, name: str) -> ResourceRequest:
        view = self.parts.catalog.find("", "v1", "pods")
        assert view is not None
        path = msgspec.structs.replace(call.path, group="", version="v1", plural="pods", name=name, subresource="")
        return ResourceRequest(call.request, call.user, view, path, call.verb, call.media, call.warnings)

    def _pod(self, call: ResourceRequest) -> Stored:
        stored = self.parts.store.get("pods", call.namespace, call.name)
        if stored is None:
            raise missing(call)
        return stored


def _target_problems(target: JsonObject) -> list[field_errors.FieldError]:
    problems = []
    if target.get("kind") not in (None, "", "Node"):
        problems.append(field_errors.not_supported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        problems.append(field_errors.required("target.name"))
    return problems


def _aggregated(problems: list[field_errors.FieldError]) -> str:
    texts = [str(problem) for problem in problems]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _check_identity(call: ResourceRequest, pod: JsonObject, wanted: JsonObject) -> None:
    """The uid and the resourceVersion of a binding are conditions."""
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        found = pod["metadata"].get(field) or ""
        if wanted.get(field) and wanted[field] != found:
            detail = f"Precondition failed: {label} in precondition: {wanted[field]}, {label} in object meta: {found}"
            raise errors.conflict("pods", call.name, storage_problem(call, detail))


def _bound(pod: JsonObject, binding: JsonObject, node: str) -> JsonObject:
    """The pod on its node; a pod that cannot be bound is a conflict."""
    metadata, spec = pod["metadata"], pod["spec"]
    name = metadata["name"]
    wanted = binding["metadata"]
    problem = ""
    if metadata.get("deletionTimestamp"):
        problem = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        problem = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        problem = f"pod {name} has non-empty .spec.schedulingGates"
    if problem:
        raise errors.conflict("pods/binding", name, problem)
    spec["nodeName"] = node
    (pod.get("status") or {}).pop("nominatedNodeName", None)
    for field in ("annotations", "labels"):
        if wanted.get(field):
            metadata[field] = {**(metadata.get(field) or {}), **wanted[field]}
    set_condition(pod, {"type": "PodScheduled", "status": "True"})
    return pod


def set_condition(pod: JsonObject, condition: JsonObject) -> bool:
    """Add or replace a condition; False when it was there already."""
    status = pod.setdefault("status", {})
    conditions = status.get("conditions") or []
    moment = clock.timestamp()
    kept = []
    known: JsonObject | None = None
    for one in conditions:
        if one["type"] == condition["type"]:
            known = one
        else:
            kept.append(one)
    if known is None:
        status["conditions"] = [*conditions, _timed(condition, moment)]
        return True
    since = known.get("lastTransitionTime") if known["status"] == condition["status"] else moment
    fresh = _timed(condition, since)
    if fresh == known:
        return False
    status["conditions"] = [fresh if one is known else one for one in conditions]
    return True


def _timed(condition: JsonObject, moment: str | None) -> JsonObject:
    return {**condition, "lastProbeTime": None, "lastTransitionTime": moment}


def _deletion(eviction: JsonObject, options: WriteOptions) -> DeleteOptions:
    document = eviction.get("deleteOptions") or {}
    deletion = delete_options(document)
    if options.dry_run:
        deletion.dry_run = True
    return deletion


def _ignores_budgets(pod: JsonObject) -> bool:
    """Pods that have ended, have not started or are being deleted are evicted without a look at budgets."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in (*FINISHED_PHASES, "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _unhealthy_may_go(pod: JsonObject, budget: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy") or 0
    return (status.get("currentHealthy") or 0) >= desired > 0


def spent(budget: JsonObject, pod: str) -> JsonObject:
    """The budget after one more disruption; refused when it has none left."""
    metadata, status = budget["metadata"], budget.setdefault("status", {})
    name = metadata["name"]
    allowed = status.get("disruptionsAllowed") or 0
    if (status.get("observedGeneration") or 0) < (metadata.get("generation") or 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", EVICTION_RETRY)
    if allowed < 0:
        raise errors.forbidden("poddisruptionbudget", name, "pdb disruptions allowed is negative", "policy")
    if len(status.get("disruptedPods") or {}) > MAX_DISRUPTED_PODS:
        detail = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise errors.forbidden("poddisruptionbudget", name, detail, "policy")
    if allowed == 0:
        raise _refused(_why_not(name, status), 0)
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        _close(status, metadata.get("generation") or 0)
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: clock.timestamp()}
    return budget


def _why_not(name: str, status: JsonObject) -> str:
    """What keeps a budget closed, in the words of its condition if it has any."""
    found = (one for one in status.get("conditions") or [] if one["type"] == "DisruptionAllowed")
    condition = next((one for one in found if one.get("status") == "False" and one.get("message")), None)
    current, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    closed = f"The disruption budget {name} does not allow evicting pods currently"
    if condition and condition.get("reason") == "SyncFailed":
        return f"{closed} because it failed sync: {condition['message']}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if condition:
        return f"{closed} ({condition.get('reason')}): {condition['message']}"
    return closed


def _close(status: JsonObject, generation: int) -> None:
    """Say in the condition that no disruption is left."""
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": generation,
        "lastTransitionTime": clock.timestamp(),
        "reason": "InsufficientPods",
        "message": "",
    }
    others = [one for one in status.get("conditions") or [] if one["type"] != "DisruptionAllowed"]
    status["conditions"] = [*others, condition]


def _refused(why: str, retry_after: int) -> errors.ApiError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return errors.too_many_requests(message, retry_after, [StatusCause(reason="DisruptionBudget", message=why)])
