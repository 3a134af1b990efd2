"""What the containers of a set have of each resource, in four places, and where these differ, container by container.

Whether a pod differs from its template is decided by `inspection.pod_resources`, which knows resizes under way; here
are accelerators and other resources as well, and pods that have the same share a line.

| column | from |
|---|---|
| template | the revision of the pod's group, or the one that the group is being resized to |
| desired | the pod's spec: differs from the template after a resize in place by hand |
| allocated | the pod's status, as the node has accepted it: differs while a resize waits |
| actual | the pod's status, as the runtime has applied it: differs while a resize is carried out |

So a set of hundreds of pods has a table of a few lines.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerTemplate
from kohort.inspection.pod_resources import drift_of_group, revision_of_group
from kohort.inspection.snapshot import Snapshot, group_of, worker_of
from kohort.objects.core import ContainerStatus, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Container, ResourceRequirements
from kohort.objects.quantity import Quantity

DRIFT_WORDS: Final = {
    "desired": "not as the template says",
    "allocated": "not accepted by the node yet",
    "actual": "not applied yet",
}


class Amount(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    side: str
    """request or limit"""
    template: str
    desired: str
    allocated: str
    """Empty where the node reports none: nodes report requests only."""
    actual: str
    drift: tuple[str, ...] = ()
    """desired, allocated or actual: the places that differ from the one before."""


class ContainerAmounts(msgspec.Struct, frozen=True, rename="camel"):
    container: str
    leaders: tuple[str, ...]
    """Names of the leader pods with these amounts; so are the next."""
    workers: tuple[str, ...]
    amounts: Sequence[Amount]

    @property
    def drifts(self) -> bool:
        return any(one.drift for one in self.amounts)


def container_amounts(snapshot: Snapshot) -> list[ContainerAmounts]:
    """Containers in the order of their specs, those of leaders first."""
    templates = {one.key: LeaderWorkerTemplate(one.template) for one in snapshot.revisions}
    found: dict[tuple[str, tuple[Amount, ...]], tuple[list[str], list[str]]] = {}
    drift = {name: fields for index in snapshot.leaders for name, fields in drift_of_group(snapshot, index).items()}
    pods = sorted(snapshot.pods, key=lambda one: (worker_of(one) > 0, one.metadata.name))
    for pod in pods:
        if pod.metadata.deleting:
            continue
        works = worker_of(pod) > 0
        template = templates.get(revision_of_group(snapshot, group_of(pod) or 0), snapshot.group_set.template)
        foreign = drift.get(pod.metadata.name, ())
        for container, amounts in _of_pod(pod, template.worker if works else template.leader, foreign):
            found.setdefault((container, amounts), ([], []))[works].append(pod.metadata.name)
    return [
        ContainerAmounts(container, tuple(leaders), tuple(workers), amounts)
        for (container, amounts), (leaders, workers) in found.items()
    ]


def _of_pod(pod: Pod, template: JsonObject, foreign: Sequence[str]) -> Iterator[tuple[str, tuple[Amount, ...]]]:
    listed = (template.get("spec") or {}).get("containers") or ()
    written = {one.get("name"): msgspec.convert(one.get("resources") or {}, ResourceRequirements) for one in listed}
    statuses = {one.name: one for one in pod.status.container_statuses}
    for container in pod.spec.main_containers:
        own = written.get(container.name)
        yield container.name, tuple(_amounts(container, own, statuses.get(container.name), foreign))


def _amounts(
    container: Container,
    template: ResourceRequirements | None,
    status: ContainerStatus | None,
    foreign: Sequence[str],
) -> Iterator[Amount]:
    desired, actual = container.resources, status.resources if status is not None else None
    accepted = (status.allocated_resources if status is not None else None) or {}
    allocated = {name: str(amount) for name, amount in accepted.items()}
    wanted = _with_requests(template) if template is not None else None
    for side in ("request", "limit"):
        spec = _side(desired, side)
        for resource in spec:
            yield _amount(
                resource,
                side,
                _side(wanted, side).get(resource, ""),
                spec[resource],
                allocated.get(resource, "") if side == "request" else "",
                _side(actual, side).get(resource, ""),
                f"containers[{container.name}].resources.{side}s.{resource}" in foreign,
            )


def _with_requests(written: ResourceRequirements) -> ResourceRequirements:
    """As a pod is stored: a limit without a request is its request, too."""
    return msgspec.structs.replace(written, requests={**written.limits, **written.requests})


def _side(requirements: ResourceRequirements | None, side: str) -> Mapping[str, str]:
    if requirements is None:
        return {}
    found = requirements.requests if side == "request" else requirements.limits
    return {name: str(amount) for name, amount in found.items()}


def _amount(
    resource: str, side: str, template: str, desired: str, allocated: str, actual: str, is_foreign: bool
) -> Amount:
    drift = []
    if is_foreign:
        drift.append("desired")
    if allocated and _differ(desired, allocated):
        drift.append("allocated")
    if actual and _differ(allocated or desired, actual):
        drift.append("actual")
    return Amount(resource, side, template, desired, allocated, actual, tuple(drift))


def _differ(one: str, other: str) -> bool:
    try:
        return Quantity.parse(one) != Quantity.parse(other)
    except ValueError:
        return one != other
