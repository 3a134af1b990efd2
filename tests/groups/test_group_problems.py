"""Problems that the pod controller reports to the set controller."""

from kohort.groups.group_problems import GroupProblems, WorkersRefused
from kohort.groups.messages import recreation_delayed, workers_refused
from kohort.kube.resources import Key
from kohort.rules.recorded_restarts import DueRestart, FailedContainer

LEADER = Key("default", "llm-0")
DUE = DueRestart("uid", "2026-01-01T00:00:40Z", 2, FailedContainer("llm-0-1", "main", 3))
ONCE = DueRestart("uid", "2026-01-01T00:00:40Z", 1, FailedContainer("llm-0-1"))


def test_a_delay_is_cleared_by_the_pod_that_caused_it_and_by_a_recreation() -> None:
    problems = GroupProblems()
    problems.set_recreation_delayed(LEADER, DUE)
    problems.clear_recreation_delayed(LEADER, "llm-0-2")
    assert problems.recreation_delayed(LEADER) == DUE
    problems.clear_recreation_delayed(LEADER, "llm-0-1")
    assert problems.recreation_delayed(LEADER) is None
    problems.set_recreation_delayed(LEADER, DUE)
    problems.clear_recreation_delayed(LEADER)
    assert problems.recreation_delayed(LEADER) is None


def test_problems_are_kept_by_leader_and_go_with_it() -> None:
    problems = GroupProblems()
    problems.set_workers_refused(LEADER, WorkersRefused("no"))
    problems.set_recreation_delayed(LEADER, ONCE)
    assert problems.workers_refused(Key("default", "llm-1")) is None
    assert problems.workers_refused(LEADER) == WorkersRefused("no")
    problems.forget(LEADER)
    assert problems.workers_refused(LEADER) is None
    assert problems.recreation_delayed(LEADER) is None


def test_the_texts_name_group_pod_and_cause() -> None:
    assert recreation_delayed(0, DUE) == (
        "group 0: pod llm-0-1 restarted: container main ended with code 3; the group was recreated 2 times for such "
        "reasons, waits longer each time, and is recreated again at 2026-01-01T00:00:40Z"
    )
    assert "restarted; the group was recreated once for" in recreation_delayed(0, ONCE)
    refused = workers_refused(1, WorkersRefused("too large"))
    assert refused == "group 1: the StatefulSet of its workers is refused: too large"
