"""Problems that the pod controller reports to the set controller."""

from kohort.groups.group_problems import GroupProblems, RecreationDelayed, WorkersRefused
from kohort.groups.messages import recreation_delayed, workers_refused
from kohort.kube.resources import Key

LEADER = Key("default", "llm-0")


def test_a_delay_is_cleared_by_the_pod_that_caused_it_and_by_a_recreation() -> None:
    problems = GroupProblems()
    delayed = RecreationDelayed("llm-0-1", 2, "main", 3)
    problems.set_recreation_delayed(LEADER, delayed)
    problems.clear_recreation_delayed(LEADER, "llm-0-2")
    assert problems.recreation_delayed(LEADER) == delayed
    problems.clear_recreation_delayed(LEADER, "llm-0-1")
    assert problems.recreation_delayed(LEADER) is None
    problems.set_recreation_delayed(LEADER, delayed)
    problems.clear_recreation_delayed(LEADER)
    assert problems.recreation_delayed(LEADER) is None


def test_problems_are_kept_by_leader_and_go_with_it() -> None:
    problems = GroupProblems()
    problems.set_workers_refused(LEADER, WorkersRefused("no"))
    problems.set_recreation_delayed(LEADER, RecreationDelayed("llm-0-1", 1))
    assert problems.workers_refused(Key("default", "llm-1")) is None
    assert problems.workers_refused(LEADER) == WorkersRefused("no")
    problems.forget(LEADER)
    assert problems.workers_refused(LEADER) is None
    assert problems.recreation_delayed(LEADER) is None


def test_the_texts_name_group_pod_and_cause() -> None:
    assert recreation_delayed(0, RecreationDelayed("llm-0-1", 2, "main", 3)) == (
        "group 0: pod llm-0-1 restarted: container main ended with code 3; the group was recreated 2 times for such "
        "reasons, and waits longer each time"
    )
    assert "restarted; the group was recreated once for" in recreation_delayed(0, RecreationDelayed("llm-0-1", 1))
    refused = workers_refused(1, WorkersRefused("too large"))
    assert refused == "group 1: the StatefulSet of its workers is refused: too large"
