"""The CronJob reconciler: observe, plan, write."""

from collections.abc import Sequence
from datetime import timedelta

from kohort.cluster.workloads import controller_ref
from kohort.cluster.workloads.cronjob import plan as cronjob_plan
from kohort.cluster.workloads.cronjob.plan import CronJobFacts, Delete, JobFacts, Start
from kohort.cluster.workloads.job import status as job_status
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import NAMESPACE_TERMINATING, AlreadyExists, ApiError, Conflict, NotFound
from kohort.kube.event_mapping import is_controlled_by, map_to_controller_owner
from kohort.kube.manager import Manager
from kohort.kube.resources import CRON_JOBS, JOBS, Key
from kohort.objects.json_types import JsonObject

SCHEDULED_TIME = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def register(manager: Manager) -> None:
    CronJobs(manager)


class CronJobs:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("cronjob-controller")
        self.cron_jobs = manager.informer(CRON_JOBS, JsonObject)
        self.jobs = manager.informer(JOBS, JsonObject)
        controller = manager.controller("cronjob", self.reconcile, workers=2, max_delay=30)
        controller.watches(self.cron_jobs)
        controller.watches(self.jobs, map_to_controller_owner("CronJob", "batch"))

    async def reconcile(self, key: Key) -> Requeue | None:
        cron_job = self.cron_jobs.get(key)
        if cron_job is None:
            return None
        jobs = self._jobs_of(cron_job)
        if any(_is_unknown(cron_job, job) for job in jobs):
            # The cache may be behind: this controller itself has just started the job.
            live: JsonObject | None = await self.client.find(CRON_JOBS, key.name, key.namespace)
            if live is None or live["metadata"]["uid"] != cron_job["metadata"]["uid"]:
                return None
            cron_job = live
        facts = facts_of(cron_job)
        known = {job["metadata"]["uid"] for job in jobs}
        gone = [uid for uid, name in facts.active.items() if uid not in known and await self._is_gone(key, name, uid)]
        plan = cronjob_plan.plan(facts, [job_facts(job) for job in jobs], clock.now(), gone)
        for note in plan.events:
            record = self.recorder.warning if note.warning else self.recorder.normal
            record(CRON_JOBS, cron_job, note.reason, note.message)
        await self._delete(cron_job, plan.delete)
        started = await self._start(cron_job, plan.start) if plan.start is not None else None
        await self._write_status(cron_job, plan, started)
        return Requeue(after=plan.next_check.total_seconds()) if plan.next_check is not None else None

    def _jobs_of(self, cron_job: JsonObject) -> list[JsonObject]:
        metadata = cron_job["metadata"]
        return [job for job in self.jobs.list(metadata["namespace"]) if is_controlled_by(job, metadata["uid"])]

    async def _is_gone(self, key: Key, name: str, uid: str) -> bool:
        """Asked of the server, because the cache may not show a new job yet."""
        found = await self.client.find(JOBS, name, key.namespace)
        return found is None or found["metadata"]["uid"] != uid

    async def _start(self, cron_job: JsonObject, start: Start) -> JsonObject | None:
        """The new job, or the one that an earlier attempt has made; None if there is none."""
        try:
            made: JsonObject = await self.client.create(JOBS, build_job(cron_job, start))
        except AlreadyExists:
            existing: JsonObject | None = await self.client.find(JOBS, start.name, cron_job["metadata"]["namespace"])
            ours = existing is not None and is_controlled_by(existing, cron_job["metadata"]["uid"])
            return existing if ours else None
        except ApiError as problem:
            if problem.caused_by(NAMESPACE_TERMINATING):
                return None
            self.recorder.warning(CRON_JOBS, cron_job, "FailedCreate", f"Error creating job: {problem}")
            raise
        self.recorder.normal(CRON_JOBS, cron_job, "SuccessfulCreate", f"Created job {start.name}")
        return made

    async def _delete(self, cron_job: JsonObject, deletions: Sequence[Delete]) -> None:
        namespace = cron_job["metadata"]["namespace"]
        for each in deletions:
            try:
                await self.client.delete(JOBS, each.job, namespace, propagation="Background", uid=each.uid)
            except (NotFound, Conflict):
                continue
            self.recorder.normal(CRON_JOBS, cron_job, "SuccessfulDelete", f"Deleted job {each.job}")

    async def _write_status(self, cron_job: JsonObject, plan: cronjob_plan.Plan, started: JsonObject | None) -> None:
        before = cron_job.get("status") or {}
        active = [one for one in before.get("active") or () if one.get("uid") not in plan.ended]
        wanted: JsonObject = {}
        if started is not None and plan.start is not None:
            if not any(one.get("uid") == started["metadata"]["uid"] for one in active):
                active.append(_reference(started))
            wanted["lastScheduleTime"] = clock.format_time(plan.start.scheduled)
        wanted["active"] = active or None
        if plan.last_successful is not None:
            wanted["lastSuccessfulTime"] = plan.last_successful
        if any(before.get(name) != value for name, value in wanted.items()):
            await self.client.patch_status(CRON_JOBS, cron_job, wanted)


def facts_of(cron_job: JsonObject) -> CronJobFacts:
    metadata, spec, status = cron_job["metadata"], cron_job["spec"], cron_job.get("status") or {}
    deadline, last = spec.get("startingDeadlineSeconds"), status.get("lastScheduleTime")
    return CronJobFacts(
        name=metadata["name"],
        created=clock.parse_time(metadata["creationTimestamp"]),
        schedule=spec["schedule"],
        zone=spec.get("timeZone") or "",
        suspended=bool(spec.get("suspend")),
        deleting="deletionTimestamp" in metadata,
        policy=spec.get("concurrencyPolicy") or "Allow",
        deadline=None if deadline is None else timedelta(seconds=deadline),
        successes_kept=spec.get("successfulJobsHistoryLimit"),
        failures_kept=spec.get("failedJobsHistoryLimit"),
        active={one["uid"]: one["name"] for one in status.get("active") or ()},
        last_scheduled=None if last is None else clock.parse_time(last),
        last_successful=status.get("lastSuccessfulTime"),
    )


def job_facts(job: JsonObject) -> JobFacts:
    status, final = job.get("status") or {}, job_status.final_condition(job)
    return JobFacts(
        name=job["metadata"]["name"],
        uid=job["metadata"]["uid"],
        ended="" if final is None else final["type"],
        started=status.get("startTime"),
        completed=status.get("completionTime"),
    )


def build_job(cron_job: JsonObject, start: Start) -> JsonObject:
    template = cron_job["spec"]["jobTemplate"]
    meta = template.get("metadata") or {}
    local = start.scheduled.astimezone(cronjob_plan.zone_of(facts_of(cron_job)))
    scheduled = local.isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata: JsonObject = {
        "name": start.name,
        "namespace": cron_job["metadata"]["namespace"],
        "labels": meta.get("labels") or {},
        "annotations": {**(meta.get("annotations") or {}), SCHEDULED_TIME: scheduled},
        "ownerReferences": [controller_ref.controller_reference(cron_job)],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template.get("spec") or {}}


def _is_unknown(cron_job: JsonObject, job: JsonObject) -> bool:
    active = (cron_job.get("status") or {}).get("active") or ()
    return not job_status.finished(job) and all(one.get("uid") != job["metadata"]["uid"] for one in active)


def _reference(job: JsonObject) -> JsonObject:
    metadata = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
