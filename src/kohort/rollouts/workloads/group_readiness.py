"""Counting groups by their pods.

The status of a set may be a moment old. Before a batch counts as ready, its pods are counted too: a group is ready when
its leader is Running and Ready and all of its `size` pods are. Whichever of the two counts is lower is believed.
"""

from collections import defaultdict
from collections.abc import Iterable

from kohort.objects.core import Pod
from kohort.objects.meta import find_condition
from kohort.objects.unready_reason import why_not_ready
from kohort.rules import rollout_labels


def groups_of(pods: Iterable[Pod]) -> dict[int, list[Pod]]:
    found: dict[int, list[Pod]] = defaultdict(list)
    for pod in pods:
        index = pod.metadata.labels.get(rollout_labels.GROUP_INDEX, "")
        if index.isdigit() and not pod.metadata.deleting:
            found[int(index)].append(pod)
    return found


def ready_groups(pods: Iterable[Pod], size: int) -> int:
    return sum(_whole(members, size) for members in groups_of(pods).values())


def _whole(members: list[Pod], size: int) -> bool:
    led = any(pod.metadata.labels.get(rollout_labels.WORKER_INDEX) == rollout_labels.LEADER for pod in members)
    return led and len(members) >= size and all(pod.status.phase == "Running" and pod.ready for pod in members)


def readiness_text(ready: int, wanted: int, pods: Iterable[Pod], unit: str = "groups") -> str:
    """How far a batch is, and the first pod that it waits for."""
    members = [pod for pod in pods if not pod.metadata.deleting]
    text = f"{ready}/{wanted} {unit} ready"
    if unit == "groups":
        text += f" ({len(members)} pods)"
    obstacle = first_obstacle(members)
    return f"{text}, {obstacle}" if obstacle and ready < wanted else text


def first_obstacle(pods: Iterable[Pod]) -> str:
    for pod in sorted(pods, key=_order):
        if not (pod.status.phase == "Running" and pod.ready):
            return f"{pod.metadata.name} is {why_not_ready(pod)}"
    return ""


def _order(pod: Pod) -> tuple[int, int, str]:
    labels = pod.metadata.labels
    numbers = (labels.get(rollout_labels.GROUP_INDEX, ""), labels.get(rollout_labels.WORKER_INDEX, ""))
    group, worker = (int(text) if text.isdigit() else 0 for text in numbers)
    return group, worker, pod.metadata.name


def unschedulable(pods: Iterable[Pod]) -> int:
    """Groups of which some pod finds no place."""
    return sum(
        any(
            (found := find_condition(pod.status.conditions, "PodScheduled")) is not None and found.status == "False"
            for pod in members
        )
        for members in groups_of(pods).values()
    )
