"""What a release tells: in messages, by events, and on dashboards."""

import msgspec
from tests.rollouts.observations import NOW, observation, progress, release, rollout

from kohort.kube.clock import format_time
from kohort.kube.metrics import Metrics
from kohort.objects.meta import Condition, ObjectMeta
from kohort.rollouts import rollout_phases, step_state_machine
from kohort.rollouts.messages import ReleaseOutcome
from kohort.rollouts.metrics import RolloutMetrics
from kohort.rollouts.release_state import State
from kohort.rules import rollout_labels

LABELS = {"namespace": "default", "rollout": "llm", "workload_kind": "LeaderWorkerSet", "strategy": "Canary"}


def test_messages_of_steps() -> None:
    assert step_state_machine.decide(observation(found=progress(1, rollout_labels.UPGRADE))).state.message == (
        "Rollout is in step(1/3), and upgrade workload to new version"
    )
    waiting = step_state_machine.decide(
        observation(found=progress(2, rollout_labels.PAUSED), release=release(1), after=10)
    )
    assert waiting.state.message == "Rollout is in step(2/3), and wait duration(60 seconds) to enter the next step"
    assert waiting.requeue == 50


def test_a_step_that_waits_says_for_what_and_after_a_while_by_an_event() -> None:
    starting = release(0, "Verifying")
    starting = msgspec.structs.replace(
        starting, status=msgspec.structs.replace(starting.status, message="0/1 groups ready")
    )
    young = step_state_machine.decide(
        observation(found=progress(1, rollout_labels.UPGRADE), release=starting, after=10)
    )
    text = "Rollout is in step(1/3), and upgrade workload to new version: 0/1 groups ready"
    assert (young.state.message, young.requeue, young.events) == (text, 20, ())
    old = step_state_machine.decide(observation(found=progress(1, rollout_labels.UPGRADE), release=starting, after=30))
    assert (old.state.message, old.requeue) == (text, None)
    assert [(event.reason, event.message) for event in old.events] == [("StepWaiting", "step(1/3): 0/1 groups ready")]


def at(phase: str, step: int, state: str, reason: str = rollout_labels.IN_ROLLING) -> State:
    found = progress(step, state, replicas=1, ready_replicas=1)
    return State(phase, "", (Condition(type=rollout_labels.PROGRESSING, status="True", reason=reason),), found)


def test_steps_are_timed_from_their_beginning_and_a_finished_release_has_no_canary() -> None:
    metrics = Metrics()
    measured = RolloutMetrics(metrics)
    subject = rollout()
    for seconds, state in (
        (0, at(rollout_labels.HEALTHY, 3, rollout_labels.COMPLETED, rollout_labels.COMPLETED)),
        (10, at(rollout_labels.PROGRESSING, 3, rollout_labels.COMPLETED, rollout_labels.INITIALIZING)),
        (11, at(rollout_labels.PROGRESSING, 1, rollout_labels.BEFORE_UPGRADE, rollout_labels.INITIALIZING)),
        (14, at(rollout_labels.PROGRESSING, 1, rollout_labels.BEFORE_UPGRADE)),
        (44, at(rollout_labels.PROGRESSING, 2, rollout_labels.UPGRADE)),
        (50, at(rollout_labels.DISABLING, 2, rollout_labels.UPGRADE)),
    ):
        measured.observe(subject, state, 1, seconds)

    def value(name: str, **more: str) -> float | None:
        return metrics.registry.get_sample_value(name, {**LABELS, **more})

    assert value("rollout_step_duration_seconds_count") == 2
    assert value("rollout_step_duration_seconds_sum") == 30 + 6
    assert value("rollout_canary_groups", state="ready") == 1
    measured.observe(subject, at(rollout_labels.DISABLED, 2, rollout_labels.UPGRADE), 1, 51)
    assert [value("rollout_canary_groups", state=one) for one in ("desired", "updated", "ready")] == [0, 0, 0]


def test_only_a_release_that_was_under_way_ends_by_deletion() -> None:
    deleted = ObjectMeta(name="llm", namespace="default", deletion_timestamp=format_time(NOW))
    gone = msgspec.structs.replace(rollout(), metadata=deleted)
    for cursor, outcome in ((rollout_labels.END, None), (rollout_labels.RELEASE_CONTROL, ReleaseOutcome.DELETED)):
        ending = observation(gone, progress(1, finalising_step=cursor), phase=rollout_labels.TERMINATING)
        assert rollout_phases.decide(ending).outcome == outcome
