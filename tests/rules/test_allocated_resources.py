"""What a pod asks for, what its node has accepted, and whether the two agree."""

import msgspec
import pytest
from msgspec import UNSET
from tests.node.resizing import sized

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod, ResourceRequirements
from kohort.rules.allocated_resources import Allocated, Desired, Requirements, agrees, same_requirements


def block(**resources: JsonObject) -> ResourceRequirements:
    return msgspec.convert(resources, ResourceRequirements)


def desired(pod: Pod) -> Desired:
    return Desired.of(pod.spec)


def allocated(pod: Pod) -> Allocated:
    return Allocated.accepting(desired(pod))


def test_requirements_are_those_of_every_container_and_of_the_pod() -> None:
    found = Requirements.of(sized(pod="1", c1="100m", side1="200m", init1="300m").spec)
    assert {name: each.requests for name, each in found.containers.items()} == {
        "c1": {"cpu": "100m"},
        "side1": {"cpu": "200m"},
        "init1": {"cpu": "300m"},
    }
    assert found.pod == block(requests={"cpu": "1"})
    assert Requirements.of(sized(c1="1").spec).pod is None


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        pytest.param(block(requests={"cpu": "1"}), block(requests={"cpu": "1000m"}), True, id="spelling"),
        pytest.param(block(requests={"cpu": "1"}), block(requests={"cpu": 1}), True, id="number"),
        pytest.param(block(limits={"memory": "1Gi"}), block(limits={"memory": "1024Mi"}), True, id="unit"),
        pytest.param(None, None, True, id="none"),
        pytest.param(None, block(), True, id="an empty block is none"),
        pytest.param(block(requests={"cpu": "1"}), block(requests={"cpu": "2"}), False, id="amount"),
        pytest.param(block(requests={"cpu": "1"}), block(limits={"cpu": "1"}), False, id="request and limit"),
        pytest.param(block(requests={"cpu": "0"}), block(), False, id="zero is an amount"),
        pytest.param(block(requests={"cpu": "1"}), None, False, id="taken away"),
    ],
)
def test_blocks_are_compared_by_amounts(
    left: ResourceRequirements | None, right: ResourceRequirements | None, same: bool
) -> None:
    assert same_requirements(left, right) == same
    assert same_requirements(right, left) == same


@pytest.mark.parametrize(
    ("wanted", "held", "agree"),
    [
        ({"c1": "1"}, {"c1": "1000m"}, True),
        ({"c1": "1", "c2": "2"}, {"c1": "1", "c2": "2"}, True),
        ({"c1": "1", "c2": "2"}, {"c1": "2", "c2": "1"}, False),
        ({"c1": "1", "c2": "2"}, {"c1": "1"}, False),
        ({"pod": "1", "c1": ""}, {"pod": "1000m", "c1": ""}, True),
        ({"pod": "1", "c1": ""}, {"pod": "2", "c1": ""}, False),
        ({"pod": "1", "c1": ""}, {"c1": ""}, False),
    ],
)
def test_a_pod_agrees_with_its_node_when_all_amounts_are_equal(
    wanted: dict[str, str], held: dict[str, str], agree: bool
) -> None:
    assert agrees(desired(sized(**wanted)), allocated(sized(**held))) == agree  # type: ignore[arg-type]


def test_what_was_accepted_is_what_was_asked_for() -> None:
    pod = sized(pod="2", c1="1/1Gi", c2="500m")
    assert agrees(desired(pod), allocated(pod))


def test_an_allocation_is_applied_to_the_pod_and_leaves_the_original_alone() -> None:
    asks, has = sized(pod="4", c1="2", c2="2"), sized(pod="2", c1="1", c2="1")
    applied = allocated(has).applied_to(asks)
    assert Requirements.of(applied.spec) == Requirements.of(has.spec)
    assert Requirements.of(asks.spec) == Requirements.of(sized(pod="4", c1="2", c2="2").spec)


def test_a_record_from_before_pods_had_resources_says_nothing_about_them() -> None:
    old = Allocated({"c1": block(requests={"cpu": "1"})})
    assert old.pod is UNSET
    assert agrees(desired(sized(pod="4", c1="1")), old)
    assert not agrees(desired(sized(pod="4", c1="2")), old)
    assert old.applied_to(sized(pod="4", c1="2")).spec.resources == block(requests={"cpu": "4"})


def test_such_a_record_is_completed_once_from_the_pod() -> None:
    pod = sized(pod="4", c1="1")
    completed = Allocated({"c1": block(requests={"cpu": "1"})}).completed(pod.spec)
    assert completed == allocated(pod)
    later = sized(pod="8", c1="1")
    assert completed.completed(later.spec) == completed
    assert not agrees(desired(later), completed)


def test_a_pod_that_gets_resources_of_its_own_asks_for_a_resize() -> None:
    without = allocated(sized(c1="1"))
    assert without.pod is None
    assert not agrees(desired(sized(pod="2", c1="1")), without)
