"""What a pod of a group is told about itself, and where it may run."""

import pytest

from kohort.groups.group_names import group_key, index_of, parse_pod_name, subgroup_key
from kohort.groups.placement import keep_exclusive, pin_to_own_nodes
from kohort.groups.subgroups import subgroup_of
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels


def test_group_keys_are_those_that_other_software_computes() -> None:
    assert group_key("default", "test-sample") == "95e88034e460983f51a9952fe128729fbc0663b5"
    assert group_key("default", "podName") == "390b34ab671d29e9997d7d4252b8bbf8da02f5b7"
    assert group_key("leaderworkerset", "test-sample") == "39f5d7e9122b9d94d3932e3720b43fd3b56347e8"
    assert subgroup_key("podName", 0) != subgroup_key("podName", 1)


@pytest.mark.parametrize(
    ("name", "parent", "ordinal"), [("llm-0", "llm", 0), ("llm-1-3", "llm-1", 3), ("a-b-12", "a-b", 12)]
)
def test_pod_names_are_read_back(name: str, parent: str, ordinal: int) -> None:
    found = parse_pod_name(name)
    assert found is not None
    assert (found.parent, found.ordinal) == (parent, ordinal)


def test_names_without_a_number_are_not_pods_of_a_set() -> None:
    assert parse_pod_name("llm") is None
    assert parse_pod_name("llm-x") is None
    assert parse_pod_name("llm-99999999999") is None
    assert [index_of(text) for text in ("3", "", None, "x", "-1", "٣")] == [3, None, None, None, None, None]


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
