"""Which set, which group and which place in it does a pod belong to?

Names carry the identity, and the webhook copies it to labels:

| object | name | label group-index | label worker-index |
|---|---|---|---|
| leader of group 1 of set `llm`, also the StatefulSet of its workers | `llm-1` | 1 | 0 |
| its workers | `llm-1-1`, `llm-1-2` | 1 | 1, 2 |

>>> parse_pod_name("llm-1-3")
PodName(parent='llm-1', ordinal=3)
>>> group_key("default", "test-sample")
'95e88034e460983f51a9952fe128729fbc0663b5'
"""

import hashlib
import re
from collections.abc import Mapping

import msgspec

from kohort.rules import group_labels

_NAME = re.compile(r"(.*)-([0-9]+)")
_DIGITS = 18


class PodName(msgspec.Struct, frozen=True):
    parent: str
    ordinal: int


def parse_pod_name(name: str) -> PodName | None:
    """The StatefulSet of a pod and its number there; None when the name has no number."""
    match = _NAME.fullmatch(name)
    if match is None or int(match[2]) >= 2**31:
        return None
    return PodName(match[1], int(match[2]))


def leader_name(set_name: str, index: int) -> str:
    """Of the leader pod of a group, of the StatefulSet of its workers, and of its own Service."""
    return f"{set_name}-{index}"


def group_key(namespace: str, leader: str) -> str:
    """Stays the same when the group is restarted or rolled, because the leader's name does."""
    return hashlib.sha1(f"{namespace}/{leader}".encode()).hexdigest()


def subgroup_key(leader: str, subgroup: int | str) -> str:
    return hashlib.sha1(f"{leader}/{subgroup}".encode()).hexdigest()


def pod_group_name(set_name: str, index: int | str, revision: str) -> str:
    """Of the PodGroup that gang schedulers use for a group."""
    return f"{set_name}-{index}-{revision}"


def parse_index(text: str | None) -> int | None:
    """A label or annotation that must hold decimal digits and nothing else. No object has a number of more than 18."""
    if text is None or len(text) > _DIGITS:
        return None
    return int(text) if text.isascii() and text.isdigit() else None


def group_index(labels: Mapping[str, str]) -> int | None:
    """The index of a pod's group in its set; None for pods that have not passed the webhook."""
    return parse_index(labels.get(group_labels.GROUP_INDEX))


def worker_index(labels: Mapping[str, str]) -> int | None:
    """The place of a pod in its group: 0 for the leader. None for pods that have not passed the webhook."""
    return parse_index(labels.get(group_labels.WORKER_INDEX))


def subgroup_index(labels: Mapping[str, str]) -> int | None:
    """The place of a pod's subgroup in its group; None for pods that are in none."""
    return parse_index(labels.get(group_labels.SUBGROUP_INDEX))


def is_leader(labels: Mapping[str, str]) -> bool:
    return labels.get(group_labels.WORKER_INDEX) == group_labels.LEADER


def leader_labels(set_name: str) -> dict[str, str]:
    """The labels that select the leaders of a set.

    >>> leader_labels("llm")
    {'leaderworkerset.sigs.k8s.io/name': 'llm', 'leaderworkerset.sigs.k8s.io/worker-index': '0'}
    """
    return {group_labels.NAME: set_name, group_labels.WORKER_INDEX: group_labels.LEADER}


def is_worker(labels: Mapping[str, str]) -> bool:
    return labels.get(group_labels.WORKER_INDEX, group_labels.LEADER) != group_labels.LEADER


def leads_group(set_name: str, pod_name: str, labels: Mapping[str, str]) -> int | None:
    """The index of the group that a pod leads in this set. A pod whose name and index disagree leads none."""
    index = group_index(labels) if is_leader(labels) else None
    return index if index is not None and pod_name == leader_name(set_name, index) else None


def has_place_in_group(pod_name: str, labels: Mapping[str, str]) -> bool:
    """Whether the name of a pod fits what its labels say. A user who may create pods can give them any label, but each
    name only once."""
    index = group_index(labels)
    if index is None:
        return False
    leader = leader_name(labels.get(group_labels.NAME, ""), index)
    if is_leader(labels):
        return pod_name == leader
    parsed = parse_pod_name(pod_name)
    return parsed is not None and parsed.parent == leader
