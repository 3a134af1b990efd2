"""Cpu and memory of a pod in three versions, and where the desired one differs from the template.

| version | says | read from |
|---|---|---|
| desired | what the spec asks for | the spec |
| allocated | what the node has accepted | `allocatedResources` in the status |
| actual | what containers have at the moment | `resources` in the status |

While a resize is deferred, desired is ahead of the others; while it is carried out, actual is behind. Drift is another
matter: an amount that is neither that of the template which the pod was made of, nor that of a resize under way,
because someone changed the pod and not the template.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kohort.groups import revisions
from kohort.groups.resize.pod_progress import foreign_fields
from kohort.groups.resize.record import read_record
from kohort.inspection.snapshot import Snapshot, worker_of
from kohort.objects.pods import Pod, ResourceRequirements
from kohort.objects.quantity import Quantity
from kohort.resources import CPU, MEMORY, SANDBOX, binding_limits, requests
from kohort.rules import group_labels
from kohort.rules.resource_edit import (
    AmountChange,
    Role,
    StatedAmounts,
    desired_amounts,
    pod_spec_of,
    stated_amounts,
)

RESOURCE_COLUMNS: Final = "cpu/memory of pods as request or request-limit: desired, allocated by the node, actual"


class PodAmounts(msgspec.Struct, frozen=True, rename="camel"):
    cpu: str = ""
    memory: str = ""
    cpu_limit: str = ""
    memory_limit: str = ""


class PodResources(msgspec.Struct, frozen=True, rename="camel"):
    desired: PodAmounts = PodAmounts()
    allocated: PodAmounts | None = None
    """None while the node has reported nothing; limits are not part of it."""
    actual: PodAmounts | None = None
    drift: tuple[str, ...] = ()
    """Fields that differ from the template."""


def resources_of(pod: Pod, drift: Sequence[str] = ()) -> PodResources:
    return PodResources(_amounts(pod), _allocated(pod), _actual(pod), tuple(drift))


def _amounts(pod: Pod) -> PodAmounts:
    wanted, bounds = requests(pod, SANDBOX), binding_limits(pod, SANDBOX)
    return PodAmounts(_text(wanted, CPU), _text(wanted, MEMORY), _text(bounds, CPU), _text(bounds, MEMORY))


def _text(amounts: Mapping[str, Quantity], name: str) -> str:
    return str(amounts[name]) if name in amounts else ""


def _allocated(pod: Pod) -> PodAmounts | None:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    known = {one.name: one.allocated_resources for one in statuses if one.allocated_resources is not None}
    if not known and pod.status.allocated_resources is None:
        return None
    blocks = {name: ResourceRequirements(requests=amounts) for name, amounts in known.items()}
    whole = pod.spec.resources
    if whole is not None and pod.status.allocated_resources is not None:
        whole = ResourceRequirements(requests=pod.status.allocated_resources)
    found = _amounts(pod.with_resources(blocks, whole))
    return PodAmounts(found.cpu, found.memory)


def _actual(pod: Pod) -> PodAmounts | None:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    known = {one.name: one.resources for one in statuses if one.resources is not None}
    if not known and pod.status.resources is None:
        return None
    whole = pod.spec.resources if pod.status.resources is None or pod.spec.resources is None else pod.status.resources
    return _amounts(pod.with_resources(known, whole))


def resource_cells(found: PodResources) -> list[str]:
    """
    >>> resource_cells(PodResources(PodAmounts("200m", "1Gi", "400m", "1Gi"), PodAmounts("100m", "1Gi")))
    ['desired 200m-400m/1Gi', 'allocated 100m/1Gi', 'actual -']
    """
    named = (("desired", found.desired), ("allocated", found.allocated), ("actual", found.actual))
    return [f"{name} {_both(amounts)}" for name, amounts in named]


def _both(amounts: PodAmounts | None) -> str:
    if amounts is None or amounts == PodAmounts():
        return "-"
    return f"{_range(amounts.cpu, amounts.cpu_limit)}/{_range(amounts.memory, amounts.memory_limit)}"


def _range(request: str, limit: str) -> str:
    return f"{request or '-'}-{limit}" if limit and limit != request else request or "-"


def drift_of_group(snapshot: Snapshot, index: int) -> dict[str, tuple[str, ...]]:
    """By pod: fields that differ from the template of the group. Empty where that template is not kept any more."""
    changes = _changes(snapshot, index)
    found: dict[str, tuple[str, ...]] = {}
    for pod in snapshot.members(index):
        role: Role = "worker" if worker_of(pod) else "leader"
        if pod.active and role in changes and (foreign := foreign_fields(desired_amounts(pod.spec), changes[role])):
            found[pod.metadata.name] = tuple(field.path for field in foreign)
    return found


def revision_of_group(snapshot: Snapshot, index: int) -> str:
    """The key of the revision whose amounts the group is to have: that it is being resized to, or carries."""
    leader = snapshot.leaders.get(index)
    if leader is None:
        return ""
    record = read_record(leader.metadata.annotations)
    if record is not None and record.under_way:
        return record.revision
    return leader.metadata.labels.get(group_labels.REVISION, "")


def _changes(snapshot: Snapshot, index: int) -> dict[Role, AmountChange]:
    """From the amounts that the group is made with to those that it is being resized to."""
    leader = snapshot.leaders.get(index)
    if leader is None:
        return {}
    before = _stated(snapshot, leader.metadata.labels.get(group_labels.REVISION, ""))
    after = _stated(snapshot, revision_of_group(snapshot, index))
    if before is None or after is None:
        return {}
    return {role: AmountChange(dict(before[role]), dict(after[role])) for role in before}


def _stated(snapshot: Snapshot, key: str) -> Mapping[Role, StatedAmounts] | None:
    revision = revisions.by_key(snapshot.revisions, key)
    if revision is None:
        return None
    roles: tuple[Role, ...] = ("leader", "worker")
    return {role: stated_amounts(pod_spec_of(revision.template, role)) for role in roles}
