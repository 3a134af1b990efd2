"""CronJobs on a cluster in this process: minutes pass on virtual time."""

import asyncio

from tests.cluster.workloads.test_controllers import at_work

from kohort.kube.resources import CRON_JOBS, EVENTS, JOBS
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

NS = "default"


def cron_job(runs_for: str, *, exit_code: int = 0, **spec: Json) -> JsonObject:
    orders = {"simulation.kohort.dev/exit-after": runs_for, "simulation.kohort.dev/exit-code": str(exit_code)}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "img"}]}
    template = {"metadata": {"annotations": orders}, "spec": pod}
    job = {"metadata": {"labels": {"made": "by-cron"}}, "spec": {"template": template, "backoffLimit": 0}}
    return {
        "metadata": {"name": "tick", "namespace": NS},
        "spec": {"schedule": "* * * * *", "jobTemplate": job, **spec},
    }


def status(cluster: Cluster) -> JsonObject:
    return (cluster.find(CRON_JOBS, "tick", NS) or {}).get("status") or {}


def jobs(cluster: Cluster) -> list[str]:
    return sorted(one["metadata"]["name"] for one in cluster.objects(JOBS, NS))


def active(cluster: Cluster) -> list[str]:
    return sorted(one["name"] for one in status(cluster).get("active") or ())


async def test_a_job_starts_every_minute_and_history_is_limited() -> None:
    async with at_work() as cluster:
        await cluster.client.create(CRON_JOBS, cron_job("5s"))
        await cluster.until(lambda: bool(active(cluster)), timeout=120)
        (job,) = cluster.objects(JOBS, NS)
        assert (
            job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
            == (status(cluster)["lastScheduleTime"])
        )
        assert job["metadata"]["labels"]["made"] == "by-cron"
        (owner,) = job["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["controller"], owner["apiVersion"]) == ("CronJob", True, "batch/v1")
        await cluster.until(lambda: "lastSuccessfulTime" in status(cluster))
        assert active(cluster) == []
        seen: set[str] = set()
        for _ in range(6):
            await asyncio.sleep(60)
            seen |= set(jobs(cluster))
        assert len(seen) == 7 and len(jobs(cluster)) <= 4
        await cluster.until(lambda: len(jobs(cluster)) == 3 and not active(cluster))


async def test_forbid_skips_times_while_a_job_runs() -> None:
    async with at_work() as cluster:
        await cluster.client.create(CRON_JOBS, cron_job("10m", concurrencyPolicy="Forbid"))
        await asyncio.sleep(200)
        assert len(jobs(cluster)) == 1 == len(active(cluster))
        assert "JobAlreadyActive" in {event["reason"] for event in cluster.objects(EVENTS, NS)}


async def test_replace_ends_the_running_job() -> None:
    async with at_work() as cluster:
        await cluster.client.create(CRON_JOBS, cron_job("10m", concurrencyPolicy="Replace"))
        await cluster.until(lambda: bool(active(cluster)), timeout=120)
        first = active(cluster)
        await cluster.until(lambda: active(cluster) not in ([], first), timeout=120)
        await cluster.until(lambda: jobs(cluster) == active(cluster))
        assert len(jobs(cluster)) == 1


async def test_allow_lets_jobs_overlap() -> None:
    async with at_work() as cluster:
        await cluster.client.create(CRON_JOBS, cron_job("10m"))
        await cluster.until(lambda: len(active(cluster)) == 3, timeout=300)


async def test_a_suspended_one_starts_nothing_until_it_is_resumed() -> None:
    async with at_work() as cluster:
        await cluster.client.create(CRON_JOBS, cron_job("5s", suspend=True))
        await asyncio.sleep(200)
        assert jobs(cluster) == []
        await cluster.client.patch(CRON_JOBS, "tick", NS, {"spec": {"suspend": False}})
        await cluster.until(lambda: bool(jobs(cluster)), timeout=61)


async def test_failed_jobs_have_a_limit_of_their_own() -> None:
    async with at_work() as cluster:
        await cluster.client.create(CRON_JOBS, cron_job("1s", exit_code=1))
        await asyncio.sleep(330)
        await cluster.until(lambda: len(jobs(cluster)) == 1)
        assert "lastSuccessfulTime" not in status(cluster)


async def test_a_job_that_is_deleted_is_not_active_any_more() -> None:
    async with at_work() as cluster:
        await cluster.client.create(CRON_JOBS, cron_job("10m", concurrencyPolicy="Forbid"))
        await cluster.until(lambda: bool(active(cluster)), timeout=120)
        (name,) = jobs(cluster)
        await cluster.client.delete(JOBS, name, NS, propagation="Background")
        await cluster.until(lambda: active(cluster) == [])


async def test_jobs_go_with_their_cron_job() -> None:
    async with at_work() as cluster:
        await cluster.client.create(CRON_JOBS, cron_job("10m"))
        await cluster.until(lambda: bool(jobs(cluster)), timeout=120)
        await cluster.client.delete(CRON_JOBS, "tick", NS, propagation="Background")
        await cluster.until(lambda: not jobs(cluster))
        await asyncio.sleep(120)
        assert not jobs(cluster)


async def test_a_schedule_that_changes_counts_from_then_on() -> None:
    async with at_work() as cluster:
        await cluster.client.create(CRON_JOBS, cron_job("5s", schedule="0 0 1 1 *"))
        await asyncio.sleep(300)
        assert jobs(cluster) == []
        await cluster.client.patch(CRON_JOBS, "tick", NS, {"spec": {"schedule": "* * * * *"}})
        await cluster.until(lambda: bool(jobs(cluster)), timeout=61)
