"""Steps that are not ready in time: reported once, and withdrawn where the user asks for it."""

import msgspec
import pytest
from tests.rollouts.observations import observation, progress, release, rollout

from kohort.objects.json_types import JsonObject
from kohort.rollouts import messages, release_state_machine, step_state_machine
from kohort.rollouts.action_result import DONE
from kohort.rollouts.messages import EventReason
from kohort.rollouts.release_actions import RestoreCanary, WithdrawCanary
from kohort.rollouts.release_state import Observation, ReleaseDecision, with_reason
from kohort.rollouts.rollout_types import BatchRelease, Rollout
from kohort.rollouts.traffic.actions import RouteAllToStable
from kohort.rules import rollout_labels

TIMEOUT = 60
CANARY_WITHDRAWN = (
    "withdrawn: requests go to the stable version, the canary is scaled to 0; put the old template back, release "
    "another one, or raise the annotation rollouts.kruise.io/step-ready-timeout-seconds"
)


def impatient(seconds: int = TIMEOUT, **more: str) -> Rollout:
    annotations = {rollout_labels.STEP_TIMEOUT: str(seconds), **more}
    plain = rollout()
    return msgspec.structs.replace(plain, metadata=msgspec.structs.replace(plain.metadata, annotations=annotations))


def withdrawing(seconds: int = TIMEOUT) -> Rollout:
    return impatient(seconds, **{rollout_labels.STEP_TIMEOUT_ACTION: "rollback"})


def starting(message: str = "0/1 groups ready", **annotations: str) -> BatchRelease:
    plain = release(0, rollout_labels.VERIFYING)
    return msgspec.structs.replace(
        plain,
        metadata=msgspec.structs.replace(plain.metadata, annotations=annotations),
        status=msgspec.structs.replace(plain.status, message=message),
    )


def at(after: float, subject: Rollout, found: BatchRelease, **more: int) -> Observation:
    return observation(subject, progress(1, rollout_labels.UPGRADE, **more), release=found, after=after)


def reasons(decision: ReleaseDecision) -> list[EventReason]:
    return [event.reason for event in decision.events]


@pytest.mark.parametrize(
    ("after", "text", "requeue", "events"),
    [
        (0, "Rollout is in step(1/3), and upgrade workload to new version: 0/1 groups ready", 30, []),
        (29, "Rollout is in step(1/3), and upgrade workload to new version: 0/1 groups ready", 1, []),
        (
            30,
            "Rollout is in step(1/3), and upgrade workload to new version: 0/1 groups ready",
            30,
            [EventReason.STEP_WAITING],
        ),
        (60, "step(1/3) not ready after 60s: 0/1 groups ready", None, [EventReason.STEP_TIMEOUT]),
        (9999, "step(1/3) not ready after 60s: 0/1 groups ready", None, [EventReason.STEP_TIMEOUT]),
    ],
)
def test_what_a_step_reports_while_it_waits(
    after: float, text: str, requeue: float | None, events: list[EventReason]
) -> None:
    decision = step_state_machine.decide(at(after, impatient(), starting()))
    assert (decision.state.message, decision.requeue, reasons(decision)) == (text, requeue, events)


def test_a_timeout_is_reported_once_although_its_message_follows_the_pods() -> None:
    first = step_state_machine.decide(at(60, impatient(), starting()))
    assert reasons(first) == [EventReason.STEP_TIMEOUT]
    later = at(70, impatient(), starting("0/1 groups ready, llm-x-0 is Pending"))
    second = step_state_machine.decide(later.with_state(first.state))
    assert reasons(second) == []
    assert second.state.message == "step(1/3) not ready after 60s: 0/1 groups ready, llm-x-0 is Pending"


def test_a_timeout_that_was_raised_and_passes_again_is_reported_again() -> None:
    reported = step_state_machine.decide(at(60, impatient(), starting())).state
    patient = step_state_machine.decide(at(70, impatient(120), starting()).with_state(reported))
    assert patient.state.progress is not None
    assert (patient.state.progress.timed_out_step, patient.requeue) == (0, 50)
    again = step_state_machine.decide(at(120, impatient(120), starting()).with_state(patient.state))
    assert reasons(again) == [EventReason.STEP_TIMEOUT]


def test_what_was_reported_is_forgotten_with_the_step() -> None:
    ready = at(60, impatient(), release(0), timed_out_step=1)
    decision = step_state_machine.decide(ready)
    assert decision.state.progress is not None
    assert (decision.state.progress.current_step_state, decision.state.progress.timed_out_step) == (
        rollout_labels.ROUTING,
        0,
    )


@pytest.mark.parametrize("text", ["", "0", "-5", "soon", "1.5"])
def test_an_annotation_that_is_no_number_of_seconds_sets_no_limit(text: str) -> None:
    subject = impatient()
    metadata = msgspec.structs.replace(subject.metadata, annotations={rollout_labels.STEP_TIMEOUT: text})
    decision = step_state_machine.decide(at(9999, msgspec.structs.replace(subject, metadata=metadata), starting()))
    assert EventReason.STEP_TIMEOUT not in reasons(decision)


def test_a_version_that_is_not_ready_in_time_is_withdrawn_after_its_traffic() -> None:
    here = at(60, withdrawing(), starting())
    first = step_state_machine.decide(here)
    assert first.action == RouteAllToStable()
    second = step_state_machine.decide_after(here.with_state(first.state), RouteAllToStable(), DONE)
    assert second.action == WithdrawCanary()
    assert reasons(second) == [EventReason.WITHDRAWN]
    third = step_state_machine.decide_after(here.with_state(second.state), WithdrawCanary(), DONE)
    assert third.state.message == f"step(1/3) not ready after 60s: 0/1 groups ready; {CANARY_WITHDRAWN}"


WITHDRAWN: JsonObject = {rollout_labels.WITHDRAWN: "true"}


def test_the_message_of_a_withdrawn_version_keeps_what_was_wrong_with_its_pods() -> None:
    here = at(90, withdrawing(), starting("0/0 groups ready", **WITHDRAWN))
    said = msgspec.structs.replace(here.state, message="llm-x-0 is CrashLoopBackOff; withdrawn")
    decision = step_state_machine.decide(here.with_state(said))
    assert (decision.state.message, decision.action, decision.events) == (said.message, None, ())


def test_a_withdrawn_version_says_so_again_after_a_pause() -> None:
    here = at(90, withdrawing(), starting("0/0 groups ready", **WITHDRAWN))
    paused = with_reason(here.state, rollout_labels.REASON_PAUSED, messages.PAUSED_BY_USER, here.now)
    resumed = release_state_machine.decide(here.with_state(paused))
    assert resumed.state.reason == rollout_labels.IN_ROLLING
    assert resumed.state.message == f"the new version was not ready in time, {CANARY_WITHDRAWN}"
    assert release_state_machine.decide(here.with_state(resumed.state)).state.message == resumed.state.message


def test_more_time_brings_a_withdrawn_version_back() -> None:
    decision = step_state_machine.decide(at(90, withdrawing(600), starting("0/0 groups ready", **WITHDRAWN)))
    assert decision.action == RestoreCanary()


def test_a_version_is_not_withdrawn_unless_the_user_asks_for_it() -> None:
    assert step_state_machine.decide(at(9999, impatient(), starting())).action is None
