"""The words of releases: which events are warnings, and the messages that users of Kruise Rollouts know."""

import pytest

from kohort.rollouts import messages
from kohort.rollouts.messages import EventReason, ReleaseEvent, ReleaseOutcome

NORMAL = {
    "AnalysisPassed",
    "CanaryCreated",
    "CanaryDeleted",
    "CanaryScaled",
    "GroupsDraining",
    "PodsDraining",
    "Progressing",
    "PromotedWithoutSurge",
    "ResizedInPlace",
    "RollbackInBatchIgnored",
    "RolledBack",
    "StablePromoted",
    "StepPausedForApproval",
    "StepStarted",
    "StepWaiting",
    "Superseded",
    "TakenUp",
    "TrafficChanged",
    "TrafficShifted",
    "WorkloadGone",
}


@pytest.mark.parametrize("reason", list(EventReason))
def test_what_a_person_should_look_at_is_a_warning(reason: EventReason) -> None:
    assert ReleaseEvent(reason, "x").warning is (reason.value not in NORMAL)


def test_reasons_are_written_as_kubernetes_writes_them() -> None:
    assert all(reason.value.isalnum() and reason.value[0].isupper() for reason in EventReason)


def test_outcomes_are_values_of_a_metric() -> None:
    assert {one.value for one in ReleaseOutcome} == {"succeeded", "rolled_back", "superseded", "disabled", "deleted"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (messages.in_step(1, 3), "Rollout is in step(1/3)"),
        (messages.upgrading(1, 3, ""), "Rollout is in step(1/3), and upgrade workload to new version"),
        (
            messages.upgrading(1, 3, "0/1 ready"),
            "Rollout is in step(1/3), and upgrade workload to new version: 0/1 ready",
        ),
        (messages.routing(2, 3, "x"), "Rollout is in step(2/3), and route traffic: x"),
        (
            messages.needs_approval(2, 3),
            "Rollout is in step(2/3), and you need manually confirm to enter the next step",
        ),
        (
            messages.pausing(2, 3, 60),
            "Rollout is in step(2/3), and wait duration(60 seconds) to enter the next step",
        ),
        (messages.not_ready_in_time(1, 3, 60, ""), "step(1/3) not ready after 60s: no batch yet"),
        (messages.not_ready_in_time(1, 3, 60, "0/1"), "step(1/3) not ready after 60s: 0/1"),
        (messages.growing_to_full_size("1/4"), "new version grows to full size: 1/4"),
    ],
)
def test_messages_of_a_step(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize(
    ("message", "remark", "expected"),
    [
        ("", "", "BatchRelease is at state Ready, rollout-id 7, step 2"),
        ("1/2 ready", "", "BatchRelease is at state Ready, rollout-id 7, step 2, 1/2 ready"),
        ("", "scaled to 0", "BatchRelease is at state Ready, rollout-id 7, step 2, scaled to 0"),
        ("1/2 ready", "scaled", "BatchRelease is at state Ready, rollout-id 7, step 2, 1/2 ready, scaled"),
    ],
)
def test_the_message_of_a_sub_status(message: str, remark: str, expected: str) -> None:
    assert messages.batch_progress("Ready", "7", 2, message, remark) == expected


@pytest.mark.parametrize(
    ("event", "reason", "text"),
    [
        (messages.step_started(2, 3), "StepStarted", "step(2/3)"),
        (messages.jumped(2, 3), "StepStarted", "jumped to step(2/3)"),
        (messages.jump_refused(9, 3), "JumpRefused", "nextStepIndex 9 is not a step: there are 1 to 3"),
        (messages.plan_changed(2, 3), "Progressing", "the plan has changed, going on at step(2/3)"),
        (messages.step_upgraded(2), "Progressing", "upgrade step(2) canary pods with new versions done"),
        (messages.step_waiting(1, 3, "0/1 ready"), "StepWaiting", "step(1/3): 0/1 ready"),
        (messages.traffic_shifted(1, "20%", "svc"), "TrafficShifted", "step(1): routed 20% to svc-canary"),
        (messages.canary_created("llm-x", "groups"), "CanaryCreated", "created llm-x, 0 groups"),
        (messages.canary_scaled("llm-x", 1, 2, "group"), "CanaryScaled", "llm-x: 1 to 2 groups"),
        (
            messages.unsupported_workload("v1", "Pod"),
            "UnsupportedWorkload",
            "the workload type 'v1, Kind=Pod' is not supported",
        ),
    ],
)
def test_events_name_what_they_are_about(event: ReleaseEvent, reason: str, text: str) -> None:
    assert (event.reason, event.message) == (reason, text)


def test_a_version_that_was_withdrawn_says_what_to_do() -> None:
    for remedy in ("put the old template back", "release another one", "raise the annotation"):
        assert remedy in messages.not_ready_in_time_event(messages.Withdrawal.CANARY_SCALED_DOWN).message
