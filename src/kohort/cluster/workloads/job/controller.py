"""The Job reconciler."""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta

from kohort.cluster.workloads import conditions, ownership
from kohort.cluster.workloads.expectations import Expectations
from kohort.cluster.workloads.job import plan as rules
from kohort.cluster.workloads.job.plan import FINALIZER, INDEX, End, JobFacts, PodResult, Work
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import ApiError, Conflict, NotFound
from kohort.kube.manager import Manager
from kohort.kube.owners import controller_of, map_to_controller_owner
from kohort.kube.resources import JOBS, PODS, Key
from kohort.objects.core import Pod
from kohort.objects.jsontypes import JsonObject

_OUTCOMES = {"Succeeded": "succeeded", "Failed": "failed"}
"""Phases of finished pods, and where they are noted and counted."""


def register(manager: Manager) -> None:
    Jobs(manager)


class Jobs:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("job-controller")
        self.jobs = manager.informer(JOBS, JsonObject)
        self.pods = manager.informer(PODS, Pod, indexes={ownership.OWNER: ownership.index_by_owner})
        self.expectations = Expectations()
        self.pods.on_change(self._note)
        controller = manager.controller("job", self.reconcile, workers=4, max_delay=30)
        controller.watches(self.jobs)
        controller.watches(self.pods, map_to_controller_owner("Job", "batch"))

    def _note(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        owner = controller_of(pod) if pod else None
        if pod is not None and owner is not None and owner.kind == "Job":
            key = Key(pod.metadata.namespace, owner.name)
            self.expectations.seen(key, pod.metadata.uid, leaving=new is None or pod.metadata.deleting)

    async def reconcile(self, key: Key) -> Requeue | None:
        job = self.jobs.get(key)
        if job is None:
            self.expectations.forget(key)
            await self._free_strays(key)
            return None
        if (job["spec"].get("managedBy") or "kubernetes.io/job-controller") != "kubernetes.io/job-controller":
            return None
        pods = self.pods.by_index(ownership.OWNER, job["metadata"]["uid"])
        if finished(job):
            await self._release(pods)
            return await self._expire(job)
        if "deletionTimestamp" in job["metadata"]:
            await self._release(pods)
            return None
        if not self.expectations.met(key):
            return Requeue(after=1.0)
        return await self._advance(key, job, pods)

    async def _advance(self, key: Key, job: JsonObject, pods: list[Pod]) -> Requeue | None:
        job = {**job, "metadata": dict(job["metadata"])}
        status = dict(job.get("status") or {})
        results = [result(pod) for pod in pods]
        status = await self._count(job, status, pods, results)
        facts = job_facts(job, status)
        step = rules.plan(facts, results)
        uncounted = status.get("uncountedTerminatedPods") or {}
        if isinstance(step, End) and not uncounted.get("succeeded") and not uncounted.get("failed"):
            return await self._finish(job, status, pods, results, step)
        if isinstance(step, End):
            step = Work()
        wait = self._backoff(job, pods, facts)
        if wait > 0:
            step = Work(delete=step.delete)
        failure = await self._carry_out(key, job, pods, step)
        self._describe(job, status, results, step, facts)
        await self._write(job, status)
        if failure is not None:
            return Requeue()
        pauses = [pause for pause in (wait, _until_deadline(job, status)) if pause > 0]
        return Requeue(after=min(pauses)) if pauses else None

    # Counting

    async def _count(
        self, job: JsonObject, status: JsonObject, pods: list[Pod], results: list[PodResult]
    ) -> JsonObject:
        """Move finished pods into the counters.

        A pod is noted first, then freed of its finalizer, and added up only when the cache shows it free: so no pod is
        counted twice, and none is forgotten, whatever the cache shows meanwhile.
        """
        noted = status.get("uncountedTerminatedPods") or {}
        held = {pod.uid for pod in results if pod.tracked}
        by_uid = {pod.uid: pod for pod in results}
        ended = {phase: {pod.uid for pod in results if pod.tracked and pod.phase == phase} for phase in _OUTCOMES}
        good, bad = (set(noted.get(name) or ()) | ended[phase] for phase, name in _OUTCOMES.items())
        if not good and not bad:
            return status
        status = {**status, "failed": (status.get("failed") or 0) + len(bad - held)}
        if is_indexed(job):
            indexes = {by_uid[uid].index for uid in good & by_uid.keys()}
            completed = rules.parse_indexes(status.get("completedIndexes") or "")
            completed |= {index for index in indexes if index is not None}
            status |= {"completedIndexes": rules.format_indexes(completed), "succeeded": len(completed)}
        else:
            status["succeeded"] = (status.get("succeeded") or 0) + len(good - held)
        status["uncountedTerminatedPods"] = {"succeeded": sorted(good & held), "failed": sorted(bad & held)}
        if (good | bad) & held:
            await self._write(job, status)
            await self._release([pod for pod in pods if pod.metadata.uid in good | bad])
        return status

    async def _release(self, pods: Iterable[Pod]) -> None:
        await asyncio.gather(*(self._free(pod) for pod in pods if FINALIZER in pod.metadata.finalizers))

    async def _free(self, pod: Pod) -> None:
        left = [one for one in pod.metadata.finalizers if one != FINALIZER]
        body = {"metadata": {"uid": pod.metadata.uid, "finalizers": left}}
        try:
            await self.client.patch(PODS, pod.metadata.name, pod.metadata.namespace, body)
        except (NotFound, Conflict):
            return

    async def _free_strays(self, key: Key) -> None:
        """Pods whose Job is gone: nobody will ever count them."""
        for pod in self.pods.list(key.namespace):
            owner = controller_of(pod)
            if FINALIZER in pod.metadata.finalizers and owner and (owner.kind, owner.name) == ("Job", key.name):
                await self._free(pod)

    # Acting

    async def _carry_out(self, key: Key, job: JsonObject, pods: list[Pod], step: Work) -> ApiError | None:
        by_name = {pod.metadata.name: pod for pod in pods}
        try:
            await asyncio.gather(*(self._delete(key, job, by_name[name]) for name in step.delete))
            indexes: list[int | None] = [*step.indexes] if is_indexed(job) else [None] * step.create
            batch = 1
            while indexes:
                head, indexes = indexes[:batch], indexes[batch:]
                await asyncio.gather(*(self._create(key, job, index) for index in head))
                batch *= 2
        except ApiError as problem:
            return problem
        return None

    async def _create(self, key: Key, job: JsonObject, index: int | None) -> None:
        try:
            made = await self.client.create(PODS, build_pod(job, index))
        except ApiError as problem:
            self.recorder.warning(JOBS, job, "FailedCreate", f"Error creating: {problem}")
            raise
        pod = made["metadata"]
        if self.pods.get(Key(pod["namespace"], pod["name"])) is None:
            self.expectations.created(key, pod["uid"])
        self.recorder.normal(JOBS, job, "SuccessfulCreate", f"Created pod: {pod['name']}")

    async def _delete(self, key: Key, job: JsonObject, pod: Pod) -> None:
        try:
            await self._free(pod)
            await self.client.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return
        self.recorder.normal(JOBS, job, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

    def _backoff(self, job: JsonObject, pods: list[Pod], facts: JobFacts) -> float:
        """Seconds until a new pod may be created after failures."""
        ends = [moment for pod in pods if pod.status.phase == "Failed" and (moment := finished_at(pod)) is not None]
        if not ends or not facts.failed:
            return 0.0
        until = max(ends) + timedelta(seconds=rules.backoff(facts.failed))
        return max(0.0, (until - clock.now()).total_seconds())

    async def _finish(
        self, job: JsonObject, status: JsonObject, pods: list[Pod], results: list[PodResult], end: End
    ) -> Requeue | None:
        """First announce the end, then remove what still runs, then declare the Job finished."""
        found: list[JsonObject] = status.get("conditions") or []
        announced = "SuccessCriteriaMet" if end.success else "FailureTarget"
        status["conditions"] = _marked(found, announced, end)
        running = [pod for pod in pods if pod.active]
        for pod in running:
            await self._delete(Key(job["metadata"]["namespace"], job["metadata"]["name"]), job, pod)
        leaving = [one for one in results if one.terminating and one.phase not in ("Succeeded", "Failed")]
        status["active"], status["ready"] = 0, 0
        status["terminating"] = len(running) + len(leaving)
        status.setdefault("startTime", clock.timestamp())
        if not running and not leaving:
            status["conditions"] = _marked(status["conditions"], "Complete" if end.success else "Failed", end)
            if end.success:
                status["completionTime"] = clock.timestamp()
                self.recorder.normal(JOBS, job, "Completed", "Job completed")
            else:
                self.recorder.warning(JOBS, job, end.reason, end.message)
        await self._write(job, status)
        return None

    def _describe(
        self, job: JsonObject, status: JsonObject, results: list[PodResult], step: Work, facts: JobFacts
    ) -> None:
        active = [one for one in results if one.active and one.name not in step.delete]
        status["active"] = len(active) + (len(step.indexes) if facts.indexed else step.create)
        status["ready"] = sum(one.ready for one in active)
        status["terminating"] = sum(one.terminating and one.phase in ("Pending", "Running") for one in results)
        status.setdefault("uncountedTerminatedPods", {})
        found: list[JsonObject] = status.get("conditions") or []
        suspended = conditions.find(found, "Suspended")
        if facts.suspended:
            status["conditions"] = _marked(found, "Suspended", End(True, "JobSuspended", "Job suspended"))
            status["startTime"] = None
            return
        if suspended is not None and suspended["status"] == "True":
            resumed = conditions.merged(found, "Suspended", "False", "JobResumed", "Job resumed")
            status["conditions"] = resumed
        if not status.get("startTime"):
            status["startTime"] = clock.timestamp()

    async def _write(self, job: JsonObject, status: JsonObject) -> None:
        before = job.get("status") or {}
        body = {name: _wire(name, value) for name, value in status.items()}
        if all(before.get(name) == value or (value is None and name not in before) for name, value in body.items()):
            return
        metadata = job["metadata"]
        try:
            await self.client.patch(
                JOBS, metadata["name"], metadata["namespace"], {"status": body}, subresource="status"
            )
        except NotFound:
            return

    async def _expire(self, job: JsonObject) -> Requeue | None:
        """ttlSecondsAfterFinished: a finished Job removes itself."""
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None or "deletionTimestamp" in job["metadata"]:
            return None
        ended = next(
            one["lastTransitionTime"]
            for one in job["status"]["conditions"]
            if one["type"] in ("Complete", "Failed") and one["status"] == "True"
        )
        left = (clock.parse_time(ended) + timedelta(seconds=seconds) - clock.now()).total_seconds()
        if left > 0:
            return Requeue(after=left)
        metadata = job["metadata"]
        try:
            await self.client.delete(
                JOBS, metadata["name"], metadata["namespace"], uid=metadata["uid"], propagation="Foreground"
            )
        except (NotFound, Conflict):
            return None
        return None


def finished(job: JsonObject) -> bool:
    found = (job.get("status") or {}).get("conditions") or []
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in found)


def is_indexed(job: JsonObject) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def job_facts(job: JsonObject, status: JsonObject) -> JobFacts:
    spec = job["spec"]
    noted = status.get("uncountedTerminatedPods") or {}
    limit = spec.get("backoffLimit")
    return JobFacts(
        parallelism=spec.get("parallelism", 1),
        completions=spec.get("completions"),
        indexed=is_indexed(job),
        backoff_limit=6 if limit is None else limit,
        suspended=bool(spec.get("suspend")),
        overdue=spec.get("activeDeadlineSeconds") is not None and _until_deadline(job, status) <= 0,
        succeeded=(status.get("succeeded") or 0) + (0 if is_indexed(job) else len(noted.get("succeeded") or ())),
        failed=(status.get("failed") or 0) + len(noted.get("failed") or ()),
        completed=rules.parse_indexes(status.get("completedIndexes") or ""),
    )


def result(pod: Pod) -> PodResult:
    index = pod.metadata.annotations.get(INDEX, "")
    return PodResult(
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        phase=pod.status.phase or "Pending",
        terminating=pod.metadata.deleting,
        tracked=FINALIZER in pod.metadata.finalizers,
        index=int(index) if index.isdigit() else None,
        ready=pod.ready,
    )


def build_pod(job: JsonObject, index: int | None) -> JsonObject:
    template = job["spec"]["template"]
    meta = template.get("metadata") or {}
    name = job["metadata"]["name"]
    spec = dict(template.get("spec") or {})
    metadata: JsonObject = {
        "generateName": f"{name}-" if index is None else f"{name}-{index}-",
        "namespace": job["metadata"]["namespace"],
        "labels": dict(meta.get("labels") or {}),
        "annotations": dict(meta.get("annotations") or {}),
        "finalizers": [*(meta.get("finalizers") or []), FINALIZER],
        "ownerReferences": [ownership.controller_reference(job)],
    }
    if index is not None:
        metadata["labels"][INDEX] = str(index)
        metadata["annotations"][INDEX] = str(index)
        spec["hostname"] = f"{name}-{index}"
        reference = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
        variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": reference}
        for group in ("containers", "initContainers"):
            if spec.get(group):
                spec[group] = [{**one, "env": [*(one.get("env") or []), variable]} for one in spec[group]]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def finished_at(pod: Pod) -> datetime | None:
    ends = [
        one.state.terminated.finished_at
        for one in pod.status.container_statuses
        if one.state.terminated is not None and one.state.terminated.finished_at
    ]
    return clock.parse_time(max(ends)) if ends else None


def _until_deadline(job: JsonObject, status: JsonObject) -> float:
    """Seconds until the Job is overdue; 0 or less when it is, and also when it has no deadline."""
    seconds = job["spec"].get("activeDeadlineSeconds")
    start = status.get("startTime")
    if seconds is None:
        return 0.0
    if not start:
        return float(seconds)
    return (clock.parse_time(start) + timedelta(seconds=seconds) - clock.now()).total_seconds()


def _marked(found: list[JsonObject], type: str, end: End) -> list[JsonObject]:
    old = conditions.find(found, type)
    if old is not None and old["status"] == "True":
        return found
    entry: JsonObject = {
        "type": type,
        "status": "True",
        "reason": end.reason,
        "message": end.message,
        "lastProbeTime": clock.timestamp(),
        "lastTransitionTime": clock.timestamp(),
    }
    return [one for one in found if one["type"] != type] + [entry]


def _wire(name: str, value: object) -> object:
    """Counters that the API leaves out at zero are cleared with null."""
    if name in ("active", "succeeded", "failed") and value == 0:
        return None
    return value
