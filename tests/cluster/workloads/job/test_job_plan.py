from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.workloads.job.plan import (
    End,
    JobFacts,
    PodResult,
    Work,
    backoff,
    format_indexes,
    parse_indexes,
    plan,
)


def pod(name: str, phase: str = "Running", **more: object) -> PodResult:
    return PodResult(name, f"uid-{name}", phase, **more)  # type: ignore[arg-type]


def test_as_many_pods_as_are_left_to_do() -> None:
    assert plan(JobFacts(1, 2), []) == Work(create=1)
    assert plan(JobFacts(5, 2), []) == Work(create=2)
    assert plan(JobFacts(5, 3, succeeded=2), [pod("a")]) == Work()
    assert plan(JobFacts(2, None), []) == Work(create=2)


def test_a_job_ends_by_the_table() -> None:
    ends = {
        "CompletionsReached": plan(JobFacts(1, 2, succeeded=2), []),
        "BackoffLimitExceeded": plan(JobFacts(1, 2, backoff_limit=1, failed=2), []),
        "DeadlineExceeded": plan(JobFacts(1, 2, overdue=True), [pod("a")]),
    }
    for reason, found in ends.items():
        assert isinstance(found, End)
        assert found.reason == reason
    assert isinstance(plan(JobFacts(2, None, succeeded=1), []), End)
    assert plan(JobFacts(2, None, succeeded=1), [pod("a")]) == Work()


def test_a_suspended_job_has_no_pods() -> None:
    assert plan(JobFacts(2, 2, suspended=True), [pod("a"), pod("b", "Succeeded")]) == Work(delete=("a",))


def test_less_parallelism_removes_pods_that_have_not_started_first() -> None:
    assert plan(JobFacts(1, 3), [pod("run"), pod("wait", "Pending")]) == Work(delete=("wait",))


def test_every_open_index_gets_one_pod() -> None:
    facts = JobFacts(3, 4, indexed=True, completed=frozenset({0}), succeeded=1)
    assert plan(facts, [pod("b", index=1)]) == Work(create=2, indexes=(2, 3))


def test_failures_slow_the_job_down() -> None:
    assert [backoff(failures) for failures in (0, 1, 2, 3, 20)] == [0, 10, 20, 40, 600]


@given(st.sets(st.integers(0, 60)))
def test_indexes_survive_being_written_down(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes)) == indexes
