"""What an object costs, and which quotas it concerns.

Four kinds of objects cost more than their number: pods (compute), services (ports and balancers), claims (storage) and
device claims (devices). Everything else counts as one of `count/<resource>`, some under an older name too.

A pod is charged for what it holds of its node, so while a resize is under way for the greatest of desired, allocated
and actual; one that has finished, or is past its grace period, costs nothing but its place in the store.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Final

from kohort.kube import clock
from kohort.kube.resources import Resource
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import FINISHED_PHASES
from kohort.objects.quantity import Quantity
from kohort.resources.amounts import Amounts, amounts_of
from kohort.resources.effective import Options, limits, pod_level_set, requests, view_of
from kohort.resources.qos import BEST_EFFORT, stored_qos_class
from kohort.rules.extended_resources import is_extended, is_native

ONE: Final = Quantity.parse(1)
NONE: Final = Quantity.parse(0)

IGNORED: Final = frozenset(
    (
        "bindings",
        "componentstatuses",
        "events",
        "events.events.k8s.io",
        "tokenreviews.authentication.k8s.io",
        "selfsubjectreviews.authentication.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "localsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
    )
)
"""Not stored, or never counted."""

_ALIASED: Final = frozenset(("configmaps", "resourcequotas", "replicationcontrollers", "secrets"))
_BY_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
_BY_DEVICE_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
_CLAIM: Final = ("persistentvolumeclaims", "requests.storage")
_SERVICE: Final = ("services", "services.nodeports", "services.loadbalancers")
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_POD: Final = frozenset(
    (*_COMPUTE, *(f"requests.{name}" for name in _COMPUTE), *(f"limits.{name}" for name in _COMPUTE), "pods")
)
_MUST_BE_SET: Final = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"),
)
"""If a quota bounds one of these, each container must say how much of it it wants."""
_ALL_DEVICES: Final = 32
"""The most devices that one request for all of a class can get."""


def count_name(resource: Resource) -> str:
    return f"count/{resource.qualified}"


def usage_of(resource: Resource, obj: JsonObject, options: Options) -> dict[str, Quantity]:
    measure = _MEASURES.get(resource.qualified)
    used = {} if measure is None else measure(obj, options)
    used[count_name(resource)] = ONE
    if resource.qualified in _ALIASED:
        used[resource.plural] = ONE
    return used


def concerned(resource: Resource, names: Iterable[str]) -> list[str]:
    """Of the names that a quota bounds, those that this kind of object can cost."""
    own = count_name(resource)
    belongs = _NAMES.get(resource.qualified)
    if belongs is None:
        alias = resource.plural if resource.qualified in _ALIASED else own
        return sorted(name for name in names if name in (own, alias))
    return sorted(name for name in names if name == own or belongs(name))


def in_scope(quota: JsonObject, resource: Resource, obj: JsonObject) -> bool:
    """Whether an object is of the sort that a quota is limited to."""
    spec = quota.get("spec") or {}
    wanted = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or []]
    wanted += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not wanted:
        return True
    fits = _SCOPES.get(resource.qualified)
    return fits is not None and all(fits(one, obj) for one in wanted)


def unset_values(pod: JsonObject, names: Iterable[str]) -> str:
    """Which containers leave out a value that a quota needs, as a message; pods with resources at pod level may."""
    if pod_level_set(view_of(pod).spec):
        return ""
    wanted = sorted(_MUST_BE_SET.intersection(names))
    missing: dict[str, set[str]] = {}
    for container in (*(pod["spec"].get("containers") or ()), *(pod["spec"].get("initContainers") or ())):
        resources = container.get("resources") or {}
        present = _compute(amounts_of(resources.get("requests")), amounts_of(resources.get("limits")))
        for name in wanted:
            if name not in present:
                missing.setdefault(name, set()).add(container.get("name") or "")
    if not missing:
        return ""
    return "must specify " + "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


# --- pods


def _pod_usage(pod: JsonObject, options: Options) -> dict[str, Quantity]:
    if not _charged(pod):
        return {}
    view = view_of(pod)
    return {"pods": ONE, **_compute(requests(view, options), limits(view, options))}


def _charged(pod: JsonObject) -> bool:
    if (pod.get("status") or {}).get("phase") in FINISHED_PHASES:
        return False
    metadata = pod["metadata"]
    deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if not deleted or grace is None:
        return True
    return clock.now() <= clock.parse_time(deleted) + timedelta(seconds=grace)


def _compute(asked: Amounts, limited: Amounts) -> dict[str, Quantity]:
    used: dict[str, Quantity] = {}
    for name, amount in asked.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = amount
        elif is_extended(name):
            used[f"requests.{name}"] = amount
    used.update((f"limits.{name}", limited[name]) for name in _COMPUTE if name in limited)
    return used


def _pod_name(name: str) -> bool:
    if name in _POD or name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    return name.startswith("requests.") and not is_native(name)


def _pod_scope(wanted: JsonObject, pod: JsonObject) -> bool:
    scope, spec = wanted.get("scopeName"), pod["spec"]
    if scope in ("Terminating", "NotTerminating"):
        ends: bool = spec.get("activeDeadlineSeconds") is not None
        return ends == bool(scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        best_effort = stored_qos_class(view_of(pod)) == BEST_EFFORT
        return best_effort == bool(scope == "BestEffort")
    if scope == "PriorityClass":
        return _named(wanted, [spec["priorityClassName"]] if spec.get("priorityClassName") else [])
    if scope == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec.get("affinity") or {})
    return False


def _named(wanted: JsonObject, names: list[str]) -> bool:
    """Whether a requirement on the name of a class holds for any of the classes that an object names."""
    operator, values = wanted.get("operator"), wanted.get("values") or ()
    if not names:
        return bool(operator in ("NotIn", "DoesNotExist"))
    if operator in ("Exists", "DoesNotExist"):
        return bool(operator == "Exists")
    return any((name in values) == (operator == "In") for name in names)


def _crosses_namespaces(affinity: JsonObject) -> bool:
    for field in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(field) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [one.get("podAffinityTerm") or {} for one in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


# --- services


def _service_usage(service: JsonObject, options: Options) -> dict[str, Quantity]:
    spec = service.get("spec") or {}
    kind, ports = spec.get("type"), spec.get("ports") or []
    node_ports = 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        node_ports = sum(1 for port in ports if port.get("nodePort"))
    elif kind in ("NodePort", "LoadBalancer"):
        node_ports = len(ports)
    return {
        "services": ONE,
        "services.nodeports": Quantity.parse(node_ports),
        "services.loadbalancers": ONE if kind == "LoadBalancer" else NONE,
    }


# --- claims


def _claim_usage(claim: JsonObject, options: Options) -> dict[str, Quantity]:
    used = {"persistentvolumeclaims": ONE}
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    asked = amounts_of((spec.get("resources") or {}).get("requests")).get("storage")
    if asked is not None:
        allocated = amounts_of(status.get("allocatedResources")).get("storage")
        used["requests.storage"] = _whole(asked if allocated is None else max(asked, allocated))
    annotated = (claim["metadata"].get("annotations") or {}).get(well_known_names.BETA_STORAGE_CLASS)
    storage_class = annotated if annotated is not None else spec.get("storageClassName")
    if storage_class:
        used |= {f"{storage_class}{_BY_STORAGE_CLASS}{name}": amount for name, amount in used.items()}
    return used


def _whole(amount: Quantity) -> Quantity:
    """Storage is counted in whole bytes."""
    return amount if amount.nano % 10**9 == 0 else Quantity.parse(amount.value)


def _claim_name(name: str) -> bool:
    return name in _CLAIM or name.endswith(tuple(f"{_BY_STORAGE_CLASS}{one}" for one in _CLAIM))


def _claim_scope(wanted: JsonObject, claim: JsonObject) -> bool:
    if wanted.get("scopeName") != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    names = (
        (claim.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return _named(wanted, [name for name in names if name])


def _device_usage(claim: JsonObject, options: Options) -> dict[str, Quantity]:
    devices: dict[str, int] = {}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or []:
        most: dict[str, int] = {}
        for choice in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if choice is not None:
                count = _ALL_DEVICES if choice.get("allocationMode") == "All" else choice.get("count") or 1
                name = choice.get("deviceClassName") or ""
                most[name] = max(most.get(name, 0), count)
        for name, count in most.items():
            devices[name] = devices.get(name, 0) + count
    return {f"{name}{_BY_DEVICE_CLASS}": Quantity.parse(count) for name, count in devices.items()}


_MEASURES: Final[Mapping[str, Callable[[JsonObject, Options], dict[str, Quantity]]]] = {
    "pods": _pod_usage,
    "services": _service_usage,
    "persistentvolumeclaims": _claim_usage,
    "resourceclaims.resource.k8s.io": _device_usage,
}
_NAMES: Final[Mapping[str, Callable[[str], bool]]] = {
    "pods": _pod_name,
    "services": lambda name: name in _SERVICE,
    "persistentvolumeclaims": _claim_name,
    "resourceclaims.resource.k8s.io": lambda name: name.endswith(_BY_DEVICE_CLASS),
}
_SCOPES: Final[Mapping[str, Callable[[JsonObject, JsonObject], bool]]] = {
    "pods": _pod_scope,
    "persistentvolumeclaims": _claim_scope,
}
