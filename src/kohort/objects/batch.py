"""Jobs and CronJobs."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from kohort.objects.jsontypes import JsonObject
from kohort.objects.meta import Condition, ObjectMeta, ObjectReference, Selector
from kohort.objects.view import View


class JobSpec(View, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    selector: Selector | None = None
    manual_selector: bool | None = None
    suspend: bool | None = None
    pod_failure_policy: JsonObject | None = None
    success_policy: JsonObject | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None
    template: JsonObject = {}


class UncountedPods(View, frozen=True):
    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(View, frozen=True):
    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    start_time: str | None = None
    completion_time: str | None = None
    uncounted_terminated_pods: UncountedPods | None = None
    conditions: tuple[Condition, ...] = ()


class Job(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class CronJobSpec(View, frozen=True):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None
    job_template: JsonObject = {}


class CronJobStatus(View, frozen=True):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()
