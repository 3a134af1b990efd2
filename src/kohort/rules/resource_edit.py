"""Can an edit of pod templates be carried out on running pods, because it changes nothing but cpu and memory?

| the templates differ in | answer |
|---|---|
| cpu and memory of containers, sidecars or the pod as a whole | `InPlaceEdit` with the amounts before and after |
| anything else | `RecreateEdit(OTHER_FIELDS)` |
| a request or limit that is taken away | `RecreateEdit(AMOUNT_REMOVED)`: Kubernetes refuses that on a running pod |
| cpu or memory of an ordinary init container | `RecreateEdit(INIT_CONTAINER)`: it has ended |
| the quality of service that the amounts add up to | `RecreateEdit(QOS_CHANGED)`: it never changes on a running pod |

Amounts are compared by value as pods have them, so that `1000m` and `1` are equal, and so are `0.3333` and `334m`: the
API server rounds amounts of pods up to thousandths, and leaves those of a template as they are. A limit without a
request counts as both, as the API server stores it. Amounts that a template does not state are left to the API server
and never compared: defaults of a LimitRange, and what is filled in for a pod as a whole. The latter are stored with the
pod, and follow the amounts that the template states (`change_of_pod`).
"""

import copy
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod, PodSpec, is_sidecar
from kohort.objects.quantity import Quantity
from kohort.resources import (
    CPU,
    GUARANTEED,
    MEMORY,
    QosClass,
    qos_class,
    with_pod_level_defaults,
)
from kohort.rules.group_template import canonical_network, leader_template

Side = Literal["requests", "limits"]
Role = Literal["leader", "worker"]

RESIZABLE: Final = (CPU, MEMORY)
SIDES: Final[tuple[Side, ...]] = ("requests", "limits")
POD: Final = ""
"""The `container` of an amount that the pod states for itself as a whole."""


class AmountField(NamedTuple):
    """Where in a pod spec an amount stands."""

    container: str
    side: Side
    resource: str

    @property
    def path(self) -> str:
        owner = f"containers[{self.container}]" if self.container != POD else "spec"
        return f"{owner}.resources.{self.side}.{self.resource}"

    @property
    def path_of_init_container(self) -> str:
        return f"initContainers[{self.container}].resources.{self.side}.{self.resource}"


StatedAmounts = Mapping[AmountField, Quantity]


class AmountChange(msgspec.Struct, frozen=True):
    """The amounts that a template states for a pod, before and after an edit."""

    before: dict[AmountField, Quantity]
    after: dict[AmountField, Quantity]

    @property
    def changed_fields(self) -> list[AmountField]:
        return [field for field, amount in self.after.items() if self.before.get(field) != amount]

    @property
    def touches_pod_level(self) -> bool:
        return any(field.container == POD for field in self.changed_fields)

    @property
    def reversed(self) -> "AmountChange":
        return AmountChange(self.after, self.before)


class RecreateReason(StrEnum):
    OTHER_FIELDS = "OtherFields"
    AMOUNT_REMOVED = "AmountRemoved"
    INIT_CONTAINER = "InitContainer"
    QOS_CHANGED = "QosChanged"


class InPlaceEdit(msgspec.Struct, frozen=True):
    """Only cpu and memory change, in a way that running pods can follow."""

    leader: AmountChange
    worker: AmountChange

    def of(self, role: Role) -> AmountChange:
        return self.leader if role == "leader" else self.worker


class RecreateEdit(msgspec.Struct, frozen=True):
    """Pods must be made anew."""

    reason: RecreateReason
    role: Role = "worker"
    field: AmountField | None = None
    """The amount that stands in the way, if it is one."""
    qos_classes: tuple[QosClass, QosClass] | None = None
    """Before and after, if they differ."""
    changes_amounts: bool = True
    """Cpu or memory change, too."""


TemplateEdit = InPlaceEdit | RecreateEdit


def classify_revision_edit(before: JsonObject, after: JsonObject) -> TemplateEdit:
    """What leads from the `spec` that a revision stores to that of another one: the template and the network."""
    networks = [canonical_network(one.get("networkConfig")) for one in (before, after)]
    if _without_directive(networks[0]) != _without_directive(networks[1]):
        templates = (one["leaderWorkerTemplate"] for one in (before, after))
        return RecreateEdit(RecreateReason.OTHER_FIELDS, changes_amounts=_changes_amounts(*templates))
    return classify_template_edit(*(_without_directive(one["leaderWorkerTemplate"]) for one in (before, after)))


def _without_directive(part: JsonObject) -> JsonObject:
    return {key: value for key, value in part.items() if key != "$patch"}


def classify_template_edit(before: JsonObject, after: JsonObject) -> TemplateEdit:
    """What an edit of `spec.leaderWorkerTemplate` needs. Both sides in the canonical form of a revision."""
    if without_amounts(before) != without_amounts(after):
        return RecreateEdit(RecreateReason.OTHER_FIELDS, changes_amounts=_changes_amounts(before, after))
    changes: dict[Role, AmountChange] = {}
    for role in ("leader", "worker"):
        specs = pod_spec_of(before, role), pod_spec_of(after, role)
        obstacle = _obstacle(role, *specs)
        if obstacle is not None:
            return obstacle
        changes[role] = AmountChange(stated_amounts(specs[0]), stated_amounts(specs[1]))
    return InPlaceEdit(changes["leader"], changes["worker"])


def _changes_amounts(before: JsonObject, after: JsonObject) -> bool:
    roles: tuple[Role, ...] = ("leader", "worker")
    return any(stated_amounts(pod_spec_of(before, one)) != stated_amounts(pod_spec_of(after, one)) for one in roles)


def pod_spec_of(template: JsonObject, role: Role) -> JsonObject:
    """The pod spec of a role."""
    pod_template = leader_template(template) if role == "leader" else template.get("workerTemplate") or {}
    spec: JsonObject = pod_template.get("spec") or {}
    return spec


def stated_amounts(spec: JsonObject) -> dict[AmountField, Quantity]:
    """Cpu and memory that a pod spec states, for the pod and for every container that runs as long as the pod."""
    amounts = dict(_amounts(POD, spec.get("resources")))
    for container in (*_sidecars(spec), *(spec.get("containers") or ())):
        amounts.update(_amounts(container["name"], container.get("resources")))
        for resource in RESIZABLE:
            limit = amounts.get(AmountField(container["name"], "limits", resource))
            if limit is not None:
                amounts.setdefault(AmountField(container["name"], "requests", resource), limit)
    return amounts


def _amounts(container: str, resources: JsonObject | None) -> Iterator[tuple[AmountField, Quantity]]:
    for side in SIDES:
        for resource, written in ((resources or {}).get(side) or {}).items():
            if resource in RESIZABLE and (amount := _readable(written)) is not None:
                yield AmountField(container, side, resource), amount.rounded_up_to_milli()


def _readable(written: str | int) -> Quantity | None:
    """None for what only a set has that was created while no webhook looked: no pod can be created with it."""
    try:
        return Quantity.parse(written)
    except ValueError:
        return None


def _sidecars(spec: JsonObject) -> list[JsonObject]:
    return [one for one in spec.get("initContainers") or () if is_sidecar(one)]


def _ordinary_init_containers(spec: JsonObject) -> list[JsonObject]:
    return [one for one in spec.get("initContainers") or () if not is_sidecar(one)]


def _obstacle(role: Role, before: JsonObject, after: JsonObject) -> RecreateEdit | None:
    for old, new in zip(_ordinary_init_containers(before), _ordinary_init_containers(after), strict=True):
        stated = dict(_amounts(old["name"], old.get("resources"))), dict(_amounts(new["name"], new.get("resources")))
        if stated[0] != stated[1]:
            changed = next(field for field in (*stated[0], *stated[1]) if stated[0].get(field) != stated[1].get(field))
            return RecreateEdit(RecreateReason.INIT_CONTAINER, role, changed)
    kept = stated_amounts(after)
    removed = next((field for field in stated_amounts(before) if field not in kept), None)
    if removed is not None:
        return RecreateEdit(RecreateReason.AMOUNT_REMOVED, role, removed)
    was = _qos_class(before)
    filled_in = was != GUARANTEED or _states_pod_level(before) or not _states_pod_level(after)
    classes = was, _qos_class(after, limits_filled_in=filled_in)
    if classes[0] != classes[1]:
        return RecreateEdit(RecreateReason.QOS_CHANGED, role, qos_classes=classes)
    return None


def _states_pod_level(spec: JsonObject) -> bool:
    return any(field.container == POD for field in stated_amounts(spec))


def _qos_class(spec: JsonObject, *, limits_filled_in: bool = True) -> QosClass:
    """The class of the pods that this spec makes, with amounts filled in as the API server does it.

    For a running pod of class Guaranteed that gets amounts as a whole for the first time, the API server fills in no
    limits of the pod: what is written there must be of that class by itself."""
    completed = copy.deepcopy({key: spec[key] for key in ("containers", "initContainers", "resources") if key in spec})
    holders = (*(completed.get("containers") or ()), *(completed.get("initContainers") or ()))
    for holder in (*holders, completed):
        resources = holder.get("resources") or {}
        for side in SIDES:
            if resources.get(side):
                resources[side] = {name: each for name, each in resources[side].items() if _readable(each) is not None}
    for holder in holders:
        resources = holder.get("resources") or {}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return qos_class(with_pod_level_defaults(msgspec.convert(completed, PodSpec), limits=limits_filled_in))


def without_amounts(template: JsonObject) -> JsonObject:
    """The template without the amounts that can change on running pods."""
    rest = copy.deepcopy(template)
    for name in ("leaderTemplate", "workerTemplate"):
        spec = (rest.get(name) or {}).get("spec") or {}
        for holder in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            _remove_amounts(holder)
    return rest


def _remove_amounts(holder: JsonObject) -> None:
    resources = holder.pop("resources", None) or {}
    kept: JsonObject = {key: value for key, value in resources.items() if key not in SIDES}
    for side in SIDES:
        others = {name: value for name, value in (resources.get(side) or {}).items() if name not in RESIZABLE}
        if others:
            kept[side] = others
    if kept:
        holder["resources"] = kept


def with_amounts(pod: Pod, amounts: StatedAmounts) -> Pod:
    """The pod with these amounts in its spec. Containers that it does not have are left out."""
    return msgspec.structs.replace(pod, spec=_spec_with(msgspec.to_builtins(pod.spec), amounts))


def _spec_with(document: JsonObject, amounts: StatedAmounts) -> PodSpec:
    blocks = {one["name"]: one for kind in ("containers", "initContainers") for one in document.get(kind) or ()}
    for field, amount in amounts.items():
        owner = blocks.get(field.container) if field.container else document
        if owner is None:
            continue
        resources = owner.get("resources") or {}
        owner["resources"] = resources
        resources.setdefault(field.side, {})[field.resource] = str(amount)
    return msgspec.convert(document, PodSpec)


def change_of_pod(spec: PodSpec, change: AmountChange) -> AmountChange:
    """The change with the amounts of this pod as a whole that follow from it: those that the API server filled in when
    the pod was created. A pod that is created after the edit gets others, and the API server refuses amounts that these
    do not allow. An amount that is neither the former nor the future one was set by someone else, and is left out."""
    if spec.resources is None or not any(field.container == POD for field in change.after):
        return change
    present = desired_amounts(spec)
    old, new = (_filled_in(spec, amounts) for amounts in (change.before, change.after))
    following = [
        field
        for field in old
        if field not in change.before and field in new and present.get(field) in (old[field], new[field])
    ]
    if not following:
        return change
    before, after = ({field: amounts[field] for field in following} for amounts in (old, new))
    return AmountChange({**change.before, **before}, {**change.after, **after})


def _filled_in(spec: PodSpec, amounts: StatedAmounts) -> dict[AmountField, Quantity]:
    """Amounts of the pod as a whole, if a pod with the other fields of this one stated these."""
    document = msgspec.to_builtins(spec)
    _remove_amounts(document)
    completed = with_pod_level_defaults(_spec_with(document, amounts))
    return {field: amount for field, amount in desired_amounts(completed).items() if field.container == POD}


def desired_amounts(spec: PodSpec) -> dict[AmountField, Quantity]:
    """Cpu and memory in the spec of a running pod."""
    blocks = [(POD, spec.resources)] if spec.resources is not None else []
    blocks += [(one.name, one.resources) for one in spec.all_containers]
    return {
        AmountField(container, side, resource): Quantity.parse(getattr(block, side)[resource])
        for container, block in blocks
        for side in SIDES
        for resource in RESIZABLE
        if resource in getattr(block, side)
    }
