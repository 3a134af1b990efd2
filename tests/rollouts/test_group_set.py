"""LeaderWorkerSets as releases see them: defaults, and what the hold makes of them."""

import pytest

from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rollouts.group_set import HELD_GROUPS_PARTITION, GroupSet, GroupSetStatus, is_held, rolling_configuration
from kohort.rules import rollout_labels

SAVED = {rollout_labels.ORIGINAL_LWS_STRATEGY: "{}"}
IN_PROGRESS = {rollout_labels.IN_PROGRESSING: "{}", **SAVED}


def spec(**rolling: Json) -> JsonObject:
    return {"rolloutStrategy": {"rollingUpdateConfiguration": rolling}}


HELD = spec(partition=HELD_GROUPS_PARTITION, maxSurge=0)


@pytest.mark.parametrize(
    ("document", "replicas", "size"),
    [
        ({}, 1, 1),
        ({"replicas": 0}, 0, 1),
        ({"replicas": 3, "leaderWorkerTemplate": {"size": 4}}, 3, 4),
        ({"replicas": None, "leaderWorkerTemplate": {"size": None}}, 1, 1),
        ({"leaderWorkerTemplate": None}, 1, 1),
    ],
)
def test_sizes_that_are_absent_are_one(document: JsonObject, replicas: int, size: int) -> None:
    found = GroupSet(spec=document)
    assert (found.replicas, found.size) == (replicas, size)


@pytest.mark.parametrize(
    ("document", "held"),
    [
        ({}, False),
        ({"rolloutStrategy": None}, False),
        (HELD, True),
        (spec(partition=HELD_GROUPS_PARTITION, maxSurge=1), False),
        (spec(partition=HELD_GROUPS_PARTITION), False),
        (spec(partition=4, maxSurge=0), False),
        (spec(partition=HELD_GROUPS_PARTITION, maxSurge=0, maxUnavailable=3), True),
    ],
)
def test_when_a_set_is_held(document: JsonObject, held: bool) -> None:
    assert is_held(document) is held


@pytest.mark.parametrize(
    ("annotations", "document", "in_progress", "promoting", "left_held"),
    [
        ({}, {}, False, False, False),
        ({}, HELD, False, False, False),
        (IN_PROGRESS, HELD, True, False, False),
        (IN_PROGRESS, {}, True, False, False),
        (SAVED, {}, False, True, False),
        (SAVED, HELD, False, False, True),
    ],
)
def test_a_set_is_in_one_state_of_a_release(
    annotations: dict[str, str], document: JsonObject, in_progress: bool, promoting: bool, left_held: bool
) -> None:
    found = GroupSet(ObjectMeta(name="llm", annotations=annotations), document)
    assert (found.in_progress, found.promoting, found.left_held) == (in_progress, promoting, left_held)


@pytest.mark.parametrize(("generation", "observed", "seen"), [(1, 1, True), (2, 1, False), (1, 2, True), (1, 0, False)])
def test_a_status_counts_when_it_is_of_the_newest_generation(generation: int, observed: int, seen: bool) -> None:
    found = GroupSet(ObjectMeta(generation=generation), status=GroupSetStatus(observed_generation=observed))
    assert found.observed is seen


def test_a_canary_is_known_by_its_label() -> None:
    assert GroupSet(ObjectMeta(labels={rollout_labels.CANARY_SET: "llm"})).is_canary
    assert not GroupSet().is_canary


def test_a_set_without_a_strategy_has_an_empty_one() -> None:
    assert rolling_configuration({}) == rolling_configuration({"rolloutStrategy": {}}) == {}
    assert GroupSet(spec=spec(maxSurge=1)).rolling == {"maxSurge": 1}
