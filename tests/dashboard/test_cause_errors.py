"""Which causes pages show as errors."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.builders import lws, pod

from kohort.dashboard.cause_errors import STARTING, shown_causes
from kohort.dashboard.fleet import row_of
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.advice import Advice
from kohort.inspection.cause import Cause, CauseKind
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Pod
from kohort.rules import group_labels

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def running(name: str, since: timedelta, restarts: int = 0) -> Pod:
    """A pod that runs and is not ready."""
    began = (NOW - since).isoformat().replace("+00:00", "Z")
    status = {"name": "a", "restartCount": restarts, "state": {"running": {"startedAt": began}}}
    labels = {group_labels.NAME: "llm", group_labels.GROUP_INDEX: "0", group_labels.WORKER_INDEX: "0"}
    made = pod(name).labels(labels).on("sim-0").but("status.phase", "Running").but("status.containerStatuses", [status])
    return made.as_view(Pod)


def is_error(kind: CauseKind, *pods: Pod) -> bool:
    found = Snapshot(lws("llm").as_view(LeaderWorkerSet), pods=list(pods))
    cause = Cause(kind, tuple(one.metadata.name for one in pods) or ("llm",), "found", Advice("wait"))
    (shown,) = shown_causes([cause], found, NOW)
    return shown.error


@pytest.mark.parametrize("kind", CauseKind)
def test_only_what_time_or_a_decision_ends_is_no_error(kind: CauseKind) -> None:
    assert is_error(kind, running("llm-0", 2 * STARTING)) is (kind not in (CauseKind.ROLLOUT, CauseKind.WAITING))


@pytest.mark.parametrize(
    ("since", "restarts", "error"),
    [(MINUTE, 0, False), (STARTING - MINUTE, 0, False), (STARTING + MINUTE, 0, True), (MINUTE, 1, True)],
)
def test_a_pod_that_is_not_ready_yet_starts_for_a_while(since: timedelta, restarts: int, error: bool) -> None:
    assert is_error(CauseKind.PROBE, running("llm-0", since, restarts)) is error


def test_one_pod_that_takes_too_long_is_enough() -> None:
    assert is_error(CauseKind.PROBE, running("llm-0", MINUTE), running("llm-0-1", 2 * STARTING))


def test_a_row_of_a_set_that_starts_is_not_kept() -> None:
    """It becomes an error although no object changes."""
    group_set = lws("llm").replicas(1).size(1).as_view(LeaderWorkerSet)
    young = row_of(Snapshot(group_set, pods=[running("llm-0", MINUTE)]), NOW)
    assert young.cause is not None and (young.cause.kind, young.cause.error) == ("probe", False)
    assert young.passes_with_time
    old = row_of(Snapshot(group_set, pods=[running("llm-0", 2 * STARTING)]), NOW)
    assert old.cause is not None and old.cause.error and not old.passes_with_time
