"""LimitRanger: defaults and bounds for what containers, pods and claims ask for.

Defaults are put into containers that lack a value, on create and on resize. One exception to what Kubernetes does: a
default that does not fit under the pod's own limit is left out, since a pod that says what it may use as a whole
should not be refused because of a figure that its author did not write.

Bounds are checked after validation. A minimum needs a request, a maximum needs a limit: who says nothing at all
violates both. All bounds of one LimitRange are reported together.
"""

from collections.abc import Iterator
from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import WRITES, AdmissionStep, aggregated, is_core, refusal, written
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import ZERO, Quantity
from kohort.resources.amounts import Amounts, amounts_of
from kohort.resources.effective import SANDBOX, limits, requests, view_of

ANNOTATION: Final = well_known_names.LIMIT_RANGER


class LimitRanger(AdmissionStep):
    name = "LimitRanger"
    about = ("pods", "pods/resize", "persistentvolumeclaims")

    def handles(self, attributes: Attributes) -> bool:
        if attributes.operation not in WRITES:
            return False
        if is_core(attributes, "pods"):
            return attributes.operation == "CREATE"
        if not is_core(attributes, "pods", "resize") and not is_core(attributes, "persistentvolumeclaims"):
            return False
        before = attributes.old_object
        return before is None or not before["metadata"].get("deletionTimestamp")

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.resource.plural == "pods":
            for limit_range in attributes.reader.list("limitranges", attributes.namespace):
                add_defaults(written(attributes), limit_range)

    async def validate(self, attributes: Attributes) -> None:
        for limit_range in attributes.reader.list("limitranges", attributes.namespace):
            items = (limit_range.get("spec") or {}).get("limits") or []
            if attributes.resource.plural == "pods":
                violated = pod_violations(written(attributes), items)
            else:
                violated = claim_violations(written(attributes), items)
            if violated:
                raise refusal(attributes, aggregated(violated))


# --- defaults


def add_defaults(pod: JsonObject, limit_range: JsonObject) -> None:
    default_requests: JsonObject = {}
    default_limits: JsonObject = {}
    for item in (limit_range.get("spec") or {}).get("limits") or []:
        if item.get("type") == "Container":
            default_requests |= item.get("defaultRequest") or {}
            default_limits |= item.get("default") or {}
    if not default_requests and not default_limits:
        return
    spec = pod["spec"]
    ceiling = amounts_of((spec.get("resources") or {}).get("limits"))
    notes: list[str] = []
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or []:
            resources = container.setdefault("resources", {})
            for side, values, word in (("requests", default_requests, "request"), ("limits", default_limits, "limit")):
                added = _added(resources, side, values, ceiling)
                if added:
                    notes.append(f"{', '.join(added)} {word} for {what} {container.get('name') or ''}")
    if notes:
        metadata = pod["metadata"]
        note = f"LimitRanger plugin set: {'; '.join(notes)}"
        metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: note}


def _added(resources: JsonObject, side: str, values: JsonObject, ceiling: Amounts) -> list[str]:
    """Fill one side of a container's resources; returns what was missing."""
    present = resources.get(side) or {}
    missing = sorted(name for name in values if name not in present and _fits(name, values[name], ceiling))
    if missing:
        resources[side] = {**present, **{name: values[name] for name in missing}}
    return missing


def _fits(name: str, written_amount: str, ceiling: Amounts) -> bool:
    return name not in ceiling or Quantity.parse(written_amount) <= ceiling[name]


# --- bounds


def pod_violations(pod: JsonObject, items: list[JsonObject]) -> list[str]:
    found: list[str] = []
    spec = pod["spec"]
    for item in items:
        if item.get("type") == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                resources = container.get("resources") or {}
                found += _outside(item, amounts_of(resources.get("requests")), amounts_of(resources.get("limits")))
        elif item.get("type") == "Pod":
            view = view_of(pod)
            found += _outside(item, requests(view, SANDBOX), limits(view, SANDBOX))
    return found


def claim_violations(claim: JsonObject, items: list[JsonObject]) -> list[str]:
    found: list[str] = []
    asked = amounts_of((claim["spec"].get("resources") or {}).get("requests"))
    for item in items:
        if item.get("type") == "PersistentVolumeClaim":
            for name, bound, amount in _bounds(item, "min", asked):
                found += _below(_minimum(item, name, bound), bound, amount, None)
            for name, bound, amount in _bounds(item, "max", asked):
                found += _above_request(_maximum(item, name, bound), bound, amount)
    return found


def _outside(item: JsonObject, asked: Amounts, limited: Amounts) -> list[str]:
    found: list[str] = []
    for name, bound, request in _bounds(item, "min", asked):
        found += _below(_minimum(item, name, bound), bound, request, limited.get(name))
    for name, bound, request in _bounds(item, "max", asked):
        found += _above(_maximum(item, name, bound), bound, request, limited.get(name))
    for name, ratio, request in _bounds(item, "maxLimitRequestRatio", asked):
        found += _too_far_apart(item, name, ratio, request, limited.get(name))
    return found


def _bounds(item: JsonObject, field: str, asked: Amounts) -> Iterator[tuple[str, Quantity, Quantity | None]]:
    for name, text in sorted((item.get(field) or {}).items()):
        yield name, Quantity.parse(text), asked.get(name)


def _minimum(item: JsonObject, name: str, bound: Quantity) -> str:
    return f"minimum {name} usage per {item['type']} is {bound}"


def _maximum(item: JsonObject, name: str, bound: Quantity) -> str:
    return f"maximum {name} usage per {item['type']} is {bound}"


def _below(rule: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> list[str]:
    if request is None:
        return [f"{rule}.  No request is specified"]
    if request < bound:
        return [f"{rule}, but request is {request}"]
    if limit is not None and limit < bound:
        return [f"{rule}, but limit is {limit}"]
    return []


def _above(rule: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> list[str]:
    if limit is None:
        return [f"{rule}.  No limit is specified"]
    if limit > bound:
        return [f"{rule}, but limit is {limit}"]
    if request is not None and request > bound:
        return [f"{rule}, but request is {request}"]
    return []


def _above_request(rule: str, bound: Quantity, request: Quantity | None) -> list[str]:
    if request is None:
        return [f"{rule}.  No request is specified"]
    return [f"{rule}, but request is {request}"] if request > bound else []


def _too_far_apart(
    item: JsonObject, name: str, ratio: Quantity, request: Quantity | None, limit: Quantity | None
) -> list[str]:
    rule = f"{name} max limit to request ratio per {item['type']} is {ratio}"
    if request is None or request == ZERO:
        return [f"{rule}, but no request is specified or request is 0"]
    if limit is None or limit == ZERO:
        return [f"{rule}, but no limit is specified or limit is 0"]
    observed = limit.nano / request.nano
    return [f"{rule}, but provided ratio is {observed:f}"] if observed > ratio.nano / 10**9 else []
