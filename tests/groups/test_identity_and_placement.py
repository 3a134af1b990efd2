"""What a pod of a group is told about itself, and where it may run."""

import pytest

from kohort.groups.placement import keep_exclusive, pin_to_own_nodes
from kohort.groups.subgroups import subgroup_of
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels


@pytest.mark.parametrize(
    ("size", "width", "policy", "expected"),
    [
        (4, 2, "LeaderWorker", [0, 0, 1, 1]),
        (5, 2, "LeaderWorker", [0, 0, 0, 1, 1]),
        (5, 2, "LeaderExcluded", [None, 0, 0, 1, 1]),
        (3, 1, "LeaderWorker", [0, 1, 2]),
        (3, 1, "LeaderExcluded", [None, 1, 2]),
    ],
)
def test_subgroups_by_the_table(size: int, width: int, policy: str, expected: list[int | None]) -> None:
    assert [subgroup_of(worker, size=size, subgroup_size=width, policy=policy) for worker in range(size)] == expected


def test_exclusive_terms_come_after_the_users_own_and_only_once() -> None:
    own = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    spec: JsonObject = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}}
    keep_exclusive(spec, group_labels.GROUP_KEY, "k", "rack")
    keep_exclusive(spec, group_labels.GROUP_KEY, "k", "rack")
    near = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    far = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert near == [
        own,
        {
            "labelSelector": {"matchExpressions": [{"key": group_labels.GROUP_KEY, "operator": "In", "values": ["k"]}]},
            "topologyKey": "rack",
        },
    ]
    assert [one["labelSelector"]["matchExpressions"] for one in far] == [
        [
            {"key": group_labels.GROUP_KEY, "operator": "Exists"},
            {"key": group_labels.GROUP_KEY, "operator": "NotIn", "values": ["k"]},
        ]
    ]


def test_a_replica_is_pinned_to_nodes_of_its_own() -> None:
    annotations = {
        group_labels.UNIQUE_NODE_SELECTOR: "pool",
        group_labels.UNIQUE_TOLERATION_KEY: "reserved",
        group_labels.UNIQUE_TOLERATION_EFFECT: "NoSchedule",
    }
    spec: JsonObject = {"nodeSelector": {"pool": "old", "os": "linux"}}
    pin_to_own_nodes(spec, annotations, "llm-1")
    pin_to_own_nodes(spec, annotations, "llm-1")
    assert spec["nodeSelector"] == {"pool": "llm-1", "os": "linux"}
    assert spec["tolerations"] == [{"key": "reserved", "operator": "Equal", "value": "llm-1", "effect": "NoSchedule"}]
