"""Which pods lack a node, and for which a scheduler has found none."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.rules.pod_scheduling import UNSCHEDULABLE, unschedulable, without_node

REASONS = ("", UNSCHEDULABLE, "SchedulingGated", "SchedulerError", "Undetermined")


def pod(*conditions: JsonObject) -> Pod:
    return msgspec.convert({"status": {"conditions": conditions}}, Pod)


def scheduled(status: str, reason: str = "") -> JsonObject:
    return {"type": "PodScheduled", "status": status, "reason": reason, "message": f"because of {reason}"}


@pytest.mark.parametrize(
    ("conditions", "lacks_node", "found_none"),
    [
        ((), False, False),
        (({"type": "Ready", "status": "False", "reason": UNSCHEDULABLE},), False, False),
        ((scheduled("True"),), False, False),
        ((scheduled("Unknown"),), False, False),
        ((scheduled("False"),), True, False),
        ((scheduled("False", "SchedulingGated"),), True, False),
        ((scheduled("False", "SchedulerError"),), True, False),
        ((scheduled("False", UNSCHEDULABLE),), True, True),
        (({"type": "Ready", "status": "True"}, scheduled("False", UNSCHEDULABLE)), True, True),
    ],
)
def test_what_the_condition_says(conditions: tuple[JsonObject, ...], lacks_node: bool, found_none: bool) -> None:
    subject = pod(*conditions)
    assert (without_node(subject) is not None, unschedulable(subject) is not None) == (lacks_node, found_none)


def test_the_condition_itself_is_found() -> None:
    found = unschedulable(pod({"type": "Ready"}, scheduled("False", UNSCHEDULABLE)))
    assert found is not None
    assert (found.type, found.message) == ("PodScheduled", "because of Unschedulable")


@given(st.sampled_from(("True", "False", "Unknown")), st.sampled_from(REASONS))
def test_a_pod_for_which_no_node_was_found_lacks_one(status: str, reason: str) -> None:
    subject = pod(scheduled(status, reason))
    assert unschedulable(subject) in (None, without_node(subject))
    assert (without_node(subject) is None) == (status != "False")
