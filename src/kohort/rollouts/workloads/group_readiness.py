"""Counting groups by their pods.

The status of a set may be a moment old. Before a batch counts as ready, its pods are counted too, by
`rules.group_state`. The lower of the two counts is used.
"""

from collections import defaultdict
from collections.abc import Iterable

from kohort.objects.core import Pod
from kohort.objects.counted_nouns import counted
from kohort.rules.group_identity import group_index, has_place_in_group, worker_index
from kohort.rules.group_state import pod_is_ready, pods_are_ready
from kohort.rules.pod_scheduling import without_node
from kohort.rules.unready_reason import why_not_ready


def groups_of(pods: Iterable[Pod]) -> dict[int, list[Pod]]:
    """By index. Pods that only carry the labels of a group are in none."""
    found: dict[int, list[Pod]] = defaultdict(list)
    for pod in pods:
        metadata, index = pod.metadata, group_index(pod.metadata.labels)
        if index is not None and not metadata.deleting and has_place_in_group(metadata.name, metadata.labels):
            found[index].append(pod)
    return found


def ready_groups(pods: Iterable[Pod], size: int) -> int:
    return sum(pods_are_ready(members, size) for members in groups_of(pods).values())


def readiness_text(ready: int, wanted: int, pods: Iterable[Pod], unit: str = "groups") -> str:
    """How far a batch is, and the first pod that it waits for."""
    members = [pod for pod in pods if not pod.metadata.deleting]
    text = f"{ready}/{wanted} {unit} ready"
    if unit == "groups":
        text += f" ({counted(len(members), 'pod')})"
    obstacle = first_obstacle(members)
    return f"{text}, {obstacle}" if obstacle and ready < wanted else text


def first_obstacle(pods: Iterable[Pod]) -> str:
    for pod in sorted(pods, key=_order):
        if not pod_is_ready(pod):
            return f"{pod.metadata.name} is {why_not_ready(pod)}"
    return ""


def _order(pod: Pod) -> tuple[int, int, str]:
    labels = pod.metadata.labels
    return group_index(labels) or 0, worker_index(labels) or 0, pod.metadata.name


def count_without_node(pods: Iterable[Pod]) -> int:
    """Groups of which some pod has no node: it finds none, or a quota holds it back."""
    return sum(any(map(without_node, members)) for members in groups_of(pods).values())
