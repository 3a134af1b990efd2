"""The rules of Jobs; the expected ends, counters and messages are those of Kubernetes 1.36."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.workloads.job.indexes import format_indexes, parse_indexes
from kohort.cluster.workloads.job.plan import (
    End,
    JobFacts,
    PodResult,
    Work,
    end_of,
    notes,
    settled,
    tally,
    to_be_replaced,
    work,
)
from kohort.cluster.workloads.job.policies import Exit, FailureDecision, failure_decision, success_rule
from kohort.objects.json_types import JsonObject

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(name: str, phase: str = "Running", **more: object) -> PodResult:
    return PodResult(name, f"uid-{name}", phase, **more)  # type: ignore[arg-type]


def step(facts: JobFacts, *pods: PodResult) -> Work:
    return work(facts, tally(facts, pods), pods)


def end(facts: JobFacts, *pods: PodResult) -> End | None:
    return end_of(facts, tally(facts, pods), pods)


def test_as_many_pods_as_are_left_to_do() -> None:
    assert step(JobFacts(1, 2)) == Work(create=1)
    assert step(JobFacts(5, 2)) == Work(create=2)
    assert step(JobFacts(5, 3, succeeded=2), pod("a")) == Work()
    assert step(JobFacts(2, None)) == Work(create=2)


def test_a_job_ends_by_the_table() -> None:
    fatal = pod("f", "Failed", decision=FailureDecision("FailJob", "why"))
    indexed = JobFacts(3, 3, indexed=True, per_index_limit=0)
    ends = {
        "CompletionsReached": end(JobFacts(1, 2, succeeded=2)),
        "BackoffLimitExceeded": end(JobFacts(1, 2, backoff_limit=1, failed=2)),
        "DeadlineExceeded": end(JobFacts(1, 2, overdue=True), pod("a")),
        "PodFailurePolicy": end(JobFacts(1, 2), fatal),
        "MaxFailedIndexesExceeded": end(
            JobFacts(3, 3, indexed=True, per_index_limit=0, max_failed_indexes=0), pod("x", "Failed", index=1)
        ),
        "FailedIndexes": end(
            indexed, pod("x", "Failed", index=1), pod("y", "Succeeded", index=0), pod("z", "Succeeded", index=2)
        ),
        "SuccessPolicy": end(
            JobFacts(3, 3, indexed=True, success_policy={"rules": [{"succeededCount": 1}]}),
            pod("y", "Succeeded", index=2),
            pod("z", index=1),
        ),
    }
    for reason, found in ends.items():
        assert found is not None
        assert found.reason == reason
    assert end(JobFacts(2, None, succeeded=1)) is not None
    assert end(JobFacts(2, None, succeeded=1), pod("a")) is None


def test_what_was_announced_stays() -> None:
    announced = End(False, "DeadlineExceeded", "late")
    assert end(JobFacts(1, 1, succeeded=1, announced=announced)) == announced


def test_restarts_in_place_count_where_containers_restart() -> None:
    restarted = pod("a", restarts=1)
    assert end(JobFacts(1, 1, backoff_limit=1, restarts_in_place=True), restarted) is not None
    assert end(JobFacts(1, 1, backoff_limit=2, restarts_in_place=True), restarted) is None
    assert end(JobFacts(1, 1, backoff_limit=1), restarted) is None


def test_a_suspended_job_has_no_pods() -> None:
    assert step(JobFacts(2, 2, suspended=True), pod("a"), pod("b", "Succeeded")) == Work(delete=("a",))


def test_less_parallelism_removes_pods_that_have_not_started_first() -> None:
    assert step(JobFacts(1, 3), pod("run"), pod("wait", "Pending")) == Work(delete=("wait",))


def test_every_open_index_gets_one_pod() -> None:
    facts = JobFacts(3, 4, indexed=True, completed=frozenset({0}))
    assert step(facts, pod("b", index=1)) == Work(create=2, indexes=(2, 3))


def test_indexes_that_are_no_more_lose_their_pods() -> None:
    assert step(JobFacts(2, 2, indexed=True), pod("a", index=0), pod("c", index=2)) == Work(delete=("c",))
    assert step(JobFacts(2, 2, indexed=True), pod("a", index=0), pod("b", index=0)).delete == ("a",)


def test_a_terminating_pod_has_failed_unless_only_ended_ones_are_replaced() -> None:
    leaving = pod("a", terminating=True)
    assert tally(JobFacts(1, 1), [leaving]).failed == 1
    assert step(JobFacts(1, 1), leaving) == Work(create=1)
    patient = JobFacts(1, 1, replaces_only_failed=True)
    assert tally(patient, [leaving]).failed == 0
    assert step(patient, leaving) == Work()
    assert step(patient, pod("a", "Failed", terminating=True)) == Work(create=1)


def test_an_ignored_failure_does_not_count() -> None:
    ignored = pod("a", "Failed", decision=FailureDecision("Ignore"))
    assert end(JobFacts(1, 1, backoff_limit=0), ignored) is None
    found = notes(JobFacts(1, 1), [ignored], None)
    assert (found.bad, found.release) == (frozenset(), frozenset({"uid-a"}))


def test_pods_that_a_failure_cuts_short_count_as_failed_and_those_of_a_success_do_not() -> None:
    running = pod("a")
    assert notes(JobFacts(1, 1), [running], End(False, "x", "")).bad == {"uid-a"}
    success = notes(JobFacts(1, 1), [running], End(True, "x", ""))
    assert (success.bad, success.release) == (frozenset(), frozenset({"uid-a"}))


def test_a_noted_pod_is_added_up_once_its_finalizer_is_gone() -> None:
    facts = JobFacts(1, 3, succeeded=1, noted_good=frozenset({"uid-a", "uid-b"}))
    after = settled(facts, [pod("a", "Succeeded"), pod("b", "Succeeded", tracked=False)])
    assert (after.succeeded, after.noted_good) == (2, frozenset({"uid-a"}))
    assert tally(after, [pod("a", "Succeeded")]).succeeded == 3


def test_an_index_hands_its_failures_down_until_its_limit() -> None:
    facts = JobFacts(2, 2, indexed=True, per_index_limit=1)
    first = pod("a", "Failed", index=0)
    assert to_be_replaced(facts, tally(facts, [first]), [first]) == {0: first}
    again = pod("b", "Failed", index=0, failures=1)
    assert tally(facts, [again]).failed_indexes == {0}
    assert to_be_replaced(facts, tally(facts, [again]), [again]) == {}
    at_once = pod("c", "Failed", index=1, decision=FailureDecision("FailIndex"))
    assert tally(facts, [at_once]).failed_indexes == {1}


def test_the_first_matching_rule_decides() -> None:
    policy: JsonObject = {
        "rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [3]}},
            {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [5], "containerName": "c"}},
        ]
    }
    assert failure_decision(policy, "ns/p", [Exit("c", 3)], [("DisruptionTarget", "True")]).action == "Ignore"
    assert failure_decision(policy, "ns/p", [Exit("c", 3)], []).action == "Count"
    assert failure_decision(policy, "ns/p", [Exit("d", 4)], []) == FailureDecision()
    assert failure_decision(policy, "ns/p", [Exit("c", 0)], []) == FailureDecision()
    assert failure_decision(policy, "ns/p", [Exit("c", 4)], []) == FailureDecision(
        "FailJob", "Container c for pod ns/p failed with exit code 4 matching FailJob rule at index 2"
    )
    unhappy: JsonObject = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "X", "status": "False"}]}]}
    assert failure_decision(unhappy, "ns/p", [], [("X", "False")]).message == (
        "Pod ns/p has condition X matching FailJob rule at index 0"
    )


def test_a_success_policy_wants_indexes_or_a_number_of_them() -> None:
    policy: JsonObject = {
        "rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}, {"succeededIndexes": "1"}, {"succeededCount": 4}]
    }
    found = [success_rule(policy, frozenset(done)) for done in ([], [0], [0, 3], [1], [4, 5, 6, 7])]
    assert found == [None, None, 0, 1, 2]


@given(st.sets(st.integers(0, 60)))
def test_indexes_survive_being_written_down(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes)) == indexes
