"""The Job reconciler."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta

from kohort.cluster.workloads import conditions, controller_ref
from kohort.cluster.workloads.expectations import Expectations
from kohort.cluster.workloads.job import backoff
from kohort.cluster.workloads.job import plan as job_plan
from kohort.cluster.workloads.job import status as job_status
from kohort.cluster.workloads.job.plan import FINALIZER, End, JobFacts, PodResult, Work
from kohort.cluster.workloads.job.pods import build_pod, result
from kohort.cluster.workloads.slow_start import growing_batches
from kohort.kube import clock
from kohort.kube.controller import Requeue
from kohort.kube.errors import NAMESPACE_TERMINATING, ApiError, Conflict, NotFound
from kohort.kube.event_mapping import controller_of, map_to_controller_owner
from kohort.kube.manager import Manager
from kohort.kube.object_identity import key_of, newer
from kohort.kube.resources import JOBS, PODS, Key
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject


def register(manager: Manager) -> None:
    Jobs(manager)


class Jobs:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("job-controller")
        self.jobs = manager.informer(JOBS, JsonObject)
        self.pods = manager.informer(PODS, Pod, indexes={controller_ref.OWNER: controller_ref.index_by_owner})
        self.expectations = Expectations()
        self._rests: dict[Key, backoff.FailureRecord] = {}
        self._refusals: dict[Key, int] = {}
        self._written: dict[Key, str] = {}
        """The version of each Job that this process wrote last."""
        self.pods.on_change(self._observe_pod)
        controller = manager.controller("job", self.reconcile, workers=4, max_delay=30)
        controller.watches(self.jobs)
        controller.watches(self.pods, self._jobs_of_pod)
        orphans = manager.controller("job-orphans", self._release_orphaned_pod, max_delay=30)
        orphans.watches(self.pods, when=lambda _old, new: new is not None and _orphaned(new))

    def _observe_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        owner = controller_of(pod) if pod else None
        if pod is not None and owner is not None and owner.kind == "Job":
            key = Key(pod.metadata.namespace, owner.name)
            self.expectations.seen(key, pod.metadata.uid, leaving=new is None or pod.metadata.deleting)

    def _jobs_of_pod(self, pod: Pod) -> Iterable[Key]:
        if controller_of(pod) is not None:
            return map_to_controller_owner("Job", "batch")(pod)
        return [
            Key(pod.metadata.namespace, one["metadata"]["name"])
            for one in self.jobs.list(pod.metadata.namespace)
            if controller_ref.selector_of(one).matches(pod.metadata.labels)
        ]

    async def reconcile(self, key: Key) -> Requeue | None:
        job = self.jobs.get(key)
        if job is None:
            self.expectations.forget(key)
            self._forget(key)
            await self._release_pods_without_job(key)
            return None
        if (job["spec"].get("managedBy") or "kubernetes.io/job-controller") != "kubernetes.io/job-controller":
            return None
        pods = self.pods.by_index(controller_ref.OWNER, job["metadata"]["uid"])
        if job_status.finished(job):
            self._forget(key)
            await self._release(pods)
            return await self._expire(job)
        if not self._is_current(key, job):
            return Requeue(after=1.0)
        try:
            return await self._advance(key, job, await self._members(job))
        except Conflict:
            # The cache is behind our own last write. Going on from there could lose an uncounted pod.
            return Requeue()

    def _forget(self, key: Key) -> None:
        for memory in (self._rests, self._refusals, self._written):
            memory.pop(key, None)

    def _is_current(self, key: Key, job: JsonObject) -> bool:
        """The caches show all writes of this process. If a pod lost its finalizer while the cached Job does not show
        yet that it was counted, it would be missed and created again."""
        if newer(self._written.get(key, "0"), job["metadata"]["resourceVersion"]):
            return False
        return "deletionTimestamp" in job["metadata"] or self.expectations.met(key)

    async def _members(self, job: JsonObject) -> list[Pod]:
        """The pods of the Job; adopted pods get the finalizer, so that they count."""
        found = controller_ref.candidates(self.pods, job)
        return await controller_ref.claim(self.client, JOBS, job, PODS, found, finalizer=FINALIZER)

    async def _advance(self, key: Key, job: JsonObject, pods: list[Pod]) -> Requeue | None:
        results = [result(pod, job["spec"].get("podFailurePolicy")) for pod in pods]
        facts = job_plan.settled(job_status.job_facts(job), results)
        tally = job_plan.tally(facts, results)
        rest = backoff.after(self._rests.get(key, backoff.FailureRecord()), *job_plan.fresh(facts, results))
        end = job_plan.end_of(facts, tally, results)
        waiting = {} if end else job_plan.to_be_replaced(facts, tally, results)
        notes = job_plan.notes(facts, results, end, frozenset(pod.uid for pod in waiting.values()))
        status = job_status.with_results(job, facts, tally, notes)
        if end is not None:
            return await self._finish(key, job, status, pods, results, end, notes.release)
        if notes.release:
            job = await self._write(job, {**status, **job_status.running_counts(results, Work(), 0)})
            self._rests[key] = rest
            await self._release(pod for pod in pods if pod.metadata.uid in notes.release)
        step, pause = _paced(facts, job_plan.work(facts, tally, results), rest, waiting)
        made, failure = await self._carry_out(key, job, pods, step, waiting)
        status |= job_status.running_counts(results, step, made)
        if not facts.deleting:
            self._note_suspension(job, status, facts)
        await self._write(job, status)
        if failure is not None:
            self._refusals[key] = min(self._refusals.get(key, 0) + 1, 10)
            return Requeue(after=backoff.after_refusals(self._refusals[key]))
        self._refusals.pop(key, None)
        pauses = [one for one in (pause, job_status.until_deadline(job, status)) if one is not None and one > 0]
        return Requeue(after=min(pauses)) if pauses else None

    # Removing finalizers

    async def _release(self, pods: Iterable[Pod]) -> None:
        await asyncio.gather(*(self._remove_finalizer(pod) for pod in pods if FINALIZER in pod.metadata.finalizers))

    async def _remove_finalizer(self, pod: Pod) -> None:
        left = [one for one in pod.metadata.finalizers if one != FINALIZER]
        body = {"metadata": {"uid": pod.metadata.uid, "finalizers": left}}
        try:
            await self.client.patch(PODS, pod.metadata.name, pod.metadata.namespace, body)
        except (NotFound, Conflict):
            return

    async def _release_pods_without_job(self, key: Key) -> None:
        """Pods whose Job is gone will never be counted."""
        for pod in self.pods.list(key.namespace):
            owner = controller_of(pod)
            if FINALIZER in pod.metadata.finalizers and owner and (owner.kind, owner.name) == ("Job", key.name):
                await self._remove_finalizer(pod)

    async def _release_orphaned_pod(self, key: Key) -> None:
        """A pod that lost its Job, as by a deletion that leaves orphans, will never be counted either."""
        pod = self.pods.get(key)
        if pod is not None and _orphaned(pod):
            await self._remove_finalizer(pod)

    # Writing

    async def _carry_out(
        self, key: Key, job: JsonObject, pods: list[Pod], step: Work, waiting: dict[int, PodResult]
    ) -> tuple[int, ApiError | None]:
        """How many pods were created, and the error that stopped the others."""
        by_name = {pod.metadata.name: pod for pod in pods}
        made = 0
        try:
            await asyncio.gather(*(self._delete_uncounted(job, by_name[name]) for name in step.delete))
            indexes: list[int | None] = [*step.indexes] if job_status.is_indexed(job) else [None] * step.create
            for batch in growing_batches(indexes):
                bodies = [build_pod(job, index, waiting.get(index) if index is not None else None) for index in batch]
                done = await asyncio.gather(*(self._create(key, job, body) for body in bodies), return_exceptions=True)
                problems = [one for one in done if isinstance(one, BaseException)]
                made += len(done) - len(problems)
                if problems:
                    raise problems[0]
        except ApiError as problem:
            return made, problem
        return made, None

    async def _create(self, key: Key, job: JsonObject, body: JsonObject) -> None:
        try:
            made = await self.client.create(PODS, body)
        except ApiError as problem:
            if problem.caused_by(NAMESPACE_TERMINATING):
                return
            self.recorder.warning(JOBS, job, "FailedCreate", f"Error creating: {problem}")
            raise
        pod = made["metadata"]
        self.expectations.created(key, pod["uid"], self.pods.get(Key(pod["namespace"], pod["name"])))
        self.recorder.normal(JOBS, job, "SuccessfulCreate", f"Created pod: {pod['name']}")

    async def _delete_uncounted(self, job: JsonObject, pod: Pod) -> None:
        """Delete a surplus pod. Its finalizer is removed first, so that it never counts."""
        await self._remove_finalizer(pod)
        await self._delete(job, pod)

    async def _delete(self, job: JsonObject, pod: Pod) -> None:
        try:
            await self.client.delete(PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid)
        except (NotFound, Conflict):
            return
        self.recorder.normal(JOBS, job, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")

    async def _finish(
        self,
        key: Key,
        job: JsonObject,
        status: JsonObject,
        pods: list[Pod],
        results: Sequence[PodResult],
        end: End,
        release: frozenset[str],
    ) -> Requeue | None:
        """First write FailureTarget or SuccessCriteriaMet, then delete running pods, then write the final condition."""
        running = [pod for pod in pods if pod.active]
        leaving = len(running) + sum(one.leaving for one in results)
        status |= job_status.status_at_end(status, end, leaving)
        counted = not release and not any(job_status.uncounted(status))
        if leaving or not counted:
            await self._write(job, status)
            await asyncio.gather(*(self._delete(job, pod) for pod in running))
            await self._release(pod for pod in pods if pod.metadata.uid in release)
            return None
        status |= job_status.status_after_end(status, end)
        await self._write(job, status)
        if end.success:
            self.recorder.normal(JOBS, job, "Completed", "Job completed")
        else:
            self.recorder.warning(JOBS, job, end.reason, end.message)
        return None

    def _note_suspension(self, job: JsonObject, status: JsonObject, facts: JobFacts) -> None:
        found: list[JsonObject] = status.get("conditions") or []
        current = conditions.find(found, "Suspended")
        suspended = current is not None and current["status"] == "True"
        if facts.suspended and not suspended:
            status["conditions"] = job_status.with_condition(
                found, "Suspended", "True", "JobSuspended", "Job suspended"
            )
            status["startTime"] = None
            self.recorder.normal(JOBS, job, "Suspended", "Job suspended")
        elif suspended and not facts.suspended:
            status["conditions"] = job_status.with_condition(found, "Suspended", "False", "JobResumed", "Job resumed")
            status["startTime"] = clock.timestamp()
            self.recorder.normal(JOBS, job, "Resumed", "Job resumed")

    async def _write(self, job: JsonObject, status: JsonObject) -> JsonObject:
        """The Job with this status, written only if it is still the one that was read."""
        changed = job_status.status_patch(job, status)
        if not changed:
            return job
        written = await self.client.patch_status(JOBS, job, changed, locked=True)
        if written is None:
            return job
        self._written[key_of(job)] = written["metadata"]["resourceVersion"]
        return {**job, "metadata": written["metadata"], "status": written.get("status") or {}}

    async def _expire(self, job: JsonObject) -> Requeue | None:
        """ttlSecondsAfterFinished: a finished Job removes itself."""
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None or "deletionTimestamp" in job["metadata"]:
            return None
        left = (job_status.finished_at(job) + timedelta(seconds=seconds) - clock.now()).total_seconds()
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


def _orphaned(pod: Pod) -> bool:
    return FINALIZER in pod.metadata.finalizers and controller_of(pod) is None


def _paced(
    facts: JobFacts, step: Work, rest: backoff.FailureRecord, waiting: dict[int, PodResult]
) -> tuple[Work, float]:
    """The pods of a step that may be created now, and the seconds until the next ones."""
    now = clock.now()
    if not step.create:
        return step, 0.0
    if facts.per_index_limit is None:
        pause = backoff.seconds_left(rest, now)
        return (Work(delete=step.delete), pause) if pause > 0 else (step, 0.0)
    pauses = {index: backoff.seconds_left_for_index(waiting.get(index), now) for index in step.indexes}
    chosen = tuple(index for index in step.indexes if pauses[index] <= 0)
    later = [pause for pause in pauses.values() if pause > 0]
    return Work(len(chosen), chosen, step.delete), min(later, default=0.0)
