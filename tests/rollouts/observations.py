"""Observations of a Rollout for tests of decisions: one builder per part, with a release of three steps in progress."""

from datetime import UTC, datetime, timedelta

import msgspec

from kohort.kube.clock import format_time
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import Condition, ObjectMeta
from kohort.rollouts import step_state_machine
from kohort.rollouts.release_state import Observation, State
from kohort.rollouts.rollout_types import (
    BatchRelease,
    ReleaseCanaryStatus,
    ReleaseProgress,
    ReleaseSpec,
    ReleaseStatus,
    Rollout,
)
from kohort.rollouts.workloads.model import ReleasedWorkload
from kohort.rules import group_labels, rollout_labels

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
ROUTED = [{"service": "svc", "ingress": {"name": "ing"}}]
THREE: list[JsonObject] = [
    {"replicas": 1, "traffic": "20%"},
    {"replicas": "50%", "traffic": "50%", "pause": {"duration": 60}},
    {"replicas": "100%", "traffic": "100%"},
]


def rollout(*, blue_green: bool = False, paused: bool = False, disabled: bool = False, **more: Json) -> Rollout:
    strategy = {"steps": THREE, "trafficRoutings": ROUTED, "enableExtraWorkloadForCanary": not blue_green, **more}
    document: JsonObject = {
        "metadata": {"name": "llm", "namespace": "default", "uid": "uid", "generation": 1},
        "spec": {
            "workloadRef": {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "llm"},
            "disabled": disabled,
            "strategy": {"paused": paused, "blueGreen" if blue_green else "canary": strategy},
        },
    }
    return msgspec.convert(document, Rollout)


WORKLOAD = ReleasedWorkload(
    name="llm",
    generation=2,
    revision_key=group_labels.REVISION,
    replicas=4,
    in_progress=True,
    stable_revision="aaa",
    canary_revision="v2",
    pod_template_hash="bbb",
    canary_name="llm-x",
)


def progress(step: int = 1, state: str = rollout_labels.PAUSED, **more: Json) -> ReleaseProgress:
    known: JsonObject = {
        "revision": "v2",
        "revision_key": group_labels.REVISION,
        "rollout_hash": "hash",
        "stable_revision": "aaa",
        "pod_template_hash": "bbb",
        "canary_name": "llm-x",
        "current_step_index": step,
        "next_step_index": step + 1 if step < 3 else -1,
        "current_step_state": state,
        "last_update_time": format_time(NOW),
        **more,
    }
    return ReleaseProgress(**known)


def observation(
    subject: Rollout | None = None,
    found: ReleaseProgress | None = None,
    *,
    reason: str = rollout_labels.IN_ROLLING,
    phase: str = rollout_labels.PROGRESSING,
    workload: ReleasedWorkload | None = WORKLOAD,
    release: BatchRelease | None = None,
    after: float = 0.0,
    **more: Json,
) -> Observation:
    condition = Condition(
        type=rollout_labels.PROGRESSING, status="True", reason=reason, last_update_time=format_time(NOW)
    )
    state = State(phase, "", (condition,) if reason else (), found or progress())
    return Observation(
        rollout=subject or rollout(),
        state=state,
        now=NOW + timedelta(seconds=after),
        workload=workload,
        release=release,
        release_hash="plan",
        plan_hash="hash",
        **more,
    )


def release(
    batch: int = 0, state: str = rollout_labels.BATCH_READY, *, phase: str = rollout_labels.PROGRESSING, **more: Json
) -> BatchRelease:
    base = observation()
    plan = msgspec.structs.replace(step_state_machine.wanted_plan(base, batch), **more)
    status = ReleaseStatus(
        phase=phase,
        observed_release_plan_hash="plan",
        canary_status=ReleaseCanaryStatus(batch_state=state, current_batch=batch, updated_replicas=1),
    )
    return BatchRelease(ObjectMeta(name="llm"), ReleaseSpec(release_plan=plan), status)
