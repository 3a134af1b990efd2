"""How long a Job waits after a failed pod."""

from datetime import UTC, datetime, timedelta

from tests.cluster.workloads.puppet import puppet, template

from kohort.cluster.workloads.job.backoff import FailureRecord, after, duration, seconds_left
from kohort.cluster.workloads.job.plan import PodResult
from kohort.kube.resources import JOBS, PODS

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ended(seconds_ago: float) -> PodResult:
    return PodResult("p", "p", "Failed", ended=NOW - timedelta(seconds=seconds_ago))


def test_each_failure_in_a_row_doubles_the_rest() -> None:
    assert [duration(failures) for failures in (0, 1, 2, 3, 20)] == [0, 10, 20, 40, 600]
    rest = after(FailureRecord(), [], [ended(4)])
    assert seconds_left(rest, NOW) == 6
    assert seconds_left(after(rest, [], [ended(1)]), NOW) == 19, "the first one is remembered"


def test_a_success_makes_earlier_failures_forgotten() -> None:
    rest = FailureRecord(3, NOW)
    assert after(rest, [ended(2)], []) == FailureRecord()
    assert after(rest, [ended(2)], [ended(3), ended(1)]) == FailureRecord(1, NOW - timedelta(seconds=1))


async def test_a_pod_deleted_by_a_user_is_replaced_after_ten_seconds() -> None:
    async with puppet() as scene:
        await scene.create(JOBS, "job", spec={"template": template({"j": "x"}, restartPolicy="Never")})
        await scene.settle()
        (name,) = scene.names(PODS)
        await scene.run(name)
        await scene.delete(PODS, name, grace=0)
        assert scene.names(PODS) == []
        assert scene.status(JOBS, "job")["failed"] == 1
        await scene.cluster.until(lambda: bool(scene.names(PODS)))
