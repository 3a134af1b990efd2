"""What the status of a Job may say, and how it may change.

Many rules apply only to the part of the status that a write changes: a status that breaks a rule which is younger than
the object can still be updated elsewhere.
"""

from typing import Final

from kohort.cluster.apiserver.kinds.job_rules import INDEXED, index_problem, indexes_in
from kohort.cluster.apiserver.schema.field_checks import Errors, nonnegative, same
from kohort.objects.field_errors import INVALID, FieldError, duplicate, invalid, required
from kohort.objects.json_types import JsonObject

_CONDITIONS: Final = "status.conditions"


class JobStatusFacts:
    """The facts about one version of a status."""

    def __init__(self, job: JsonObject) -> None:
        status = job.get("status") or {}
        true = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
        self.status = status
        self.complete = "Complete" in true
        self.failed = "Failed" in true
        self.finished = self.complete or self.failed
        self.failure_target = "FailureTarget" in true
        self.success = "SuccessCriteriaMet" in true
        self.suspended = "Suspended" in true
        self.active: int = status.get("active") or 0
        self.start: str | None = status.get("startTime")
        self.completion: str | None = status.get("completionTime")


def check_job_status(errors: Errors, job: JsonObject, old: JsonObject) -> None:
    new, before, spec = JobStatusFacts(job), JobStatusFacts(old), job.get("spec") or {}
    for field in ("active", "succeeded", "failed", "ready", "terminating"):
        nonnegative(errors, f"status.{field}", new.status.get(field))
    _check_uncounted(errors, new.status.get("uncountedTerminatedPods") or {})
    _check_outcome(errors, new, before)
    _check_times(errors, new, before, spec)
    _check_finished(errors, new, before, spec)
    _check_indexes(errors, new.status, before.status, spec)
    _check_ready(errors, new, before)
    _check_success(errors, new, spec)
    _check_history(errors, new, before, spec)


def _condition_error(detail: str) -> FieldError:
    return FieldError(INVALID, _CONDITIONS, f"Invalid value: {detail}")


def _check_uncounted(errors: Errors, pods: JsonObject) -> None:
    seen: set[str] = set()
    for outcome in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(outcome) or ()):
            path = f"status.uncountedTerminatedPods.{outcome}[{index}]"
            if not uid:
                errors.append(invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(path, uid))
            seen.add(uid)


def _check_outcome(errors: Errors, new: JobStatusFacts, before: JobStatusFacts) -> None:
    complete_changed = new.complete != before.complete
    if (complete_changed or new.failed != before.failed) and new.complete and new.failed:
        errors.append(_condition_error("cannot set Complete=True and Failed=true conditions"))
    target_changed = new.failure_target != before.failure_target
    if (complete_changed or target_changed) and new.complete and new.failure_target:
        errors.append(_condition_error("cannot set Complete=True and FailureTarget=true conditions"))


def _check_times(errors: Errors, new: JobStatusFacts, before: JobStatusFacts, spec: JsonObject) -> None:
    completion_changed = new.completion != before.completion
    if new.complete != before.complete or completion_changed:
        path = "status.completionTime"
        if new.completion is not None and not new.complete:
            detail = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid(path, new.completion, detail))
        if new.completion is None and new.complete:
            errors.append(required(path, "completionTime is required for Complete jobs"))
    start_changed = new.start != before.start
    if (start_changed or completion_changed) and new.start and new.completion and new.completion < new.start:
        errors.append(invalid("status.completionTime", new.completion, "must be equal to or after `startTime`"))
    if (new.failed != before.failed or _failed_changed(new, before)) and new.failed and not new.failure_target:
        errors.append(_condition_error("cannot set Failed=True condition without the FailureTarget=true condition"))
    success_changed = new.complete != before.complete or new.success != before.success
    if success_changed and new.complete and not new.success:
        detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.append(_condition_error(detail))


def _failed_changed(new: JobStatusFacts, before: JobStatusFacts) -> bool:
    return new.status.get("failedIndexes") != before.status.get("failedIndexes")


def _check_finished(errors: Errors, new: JobStatusFacts, before: JobStatusFacts, spec: JsonObject) -> None:
    if not new.finished:
        return
    changed = new.finished != before.finished
    if (changed or new.active != before.active) and new.active > 0:
        errors.append(invalid("status.active", new.active, "active>0 is invalid for finished job"))
    nothing_to_do = spec.get("suspend") is True and spec.get("completions") == 0
    if (changed or new.start != before.start) and not nothing_to_do and new.start is None:
        errors.append(required("status.startTime", "startTime is required for finished job"))
    uncounted = new.status.get("uncountedTerminatedPods") or {}
    changed = changed or not same(uncounted, before.status.get("uncountedTerminatedPods"))
    if changed and (uncounted.get("failed") or uncounted.get("succeeded")):
        path = "status.uncountedTerminatedPods"
        errors.append(invalid(path, uncounted, "must be empty for finished job"))


def _check_indexes(errors: Errors, new: JsonObject, old: JsonObject, spec: JsonObject) -> None:
    completions = spec.get("completions")
    completed, failed = new.get("completedIndexes") or "", new.get("failedIndexes")
    completed_changed = completed != (old.get("completedIndexes") or "")
    failed_changed = failed != old.get("failedIndexes")
    if completed_changed and completions is not None:
        problem = index_problem(completed, completions)
        if problem:
            detail = f"error parsing completedIndexes: {problem}"
            errors.append(invalid("status.completedIndexes", completed, detail))
    limited = spec.get("backoffLimitPerIndex") is not None
    if failed_changed and completions is not None and limited and failed is not None:
        problem = index_problem(failed, completions)
        if problem:
            errors.append(invalid("status.failedIndexes", failed, f"error parsing failedIndexes: {problem}"))
    if completed_changed and completed and spec.get("completionMode") != INDEXED:
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", completed, detail))
    if failed_changed and failed is not None and not limited:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, detail))
    if (completed_changed or failed_changed) and completions is not None and completed and failed:
        _check_overlap(errors, completed, failed, completions)


def _check_overlap(errors: Errors, completed: str, failed: str, completions: int) -> None:
    if index_problem(completed, completions) or index_problem(failed, completions):
        return
    both = indexes_in(completed) & indexes_in(failed)
    if both:
        detail = f"failedIndexes and completedIndexes overlap at index: {min(both)}"
        errors.append(invalid("status.failedIndexes", failed, detail))


def _check_ready(errors: Errors, new: JobStatusFacts, before: JobStatusFacts) -> None:
    terminating, ready = new.status.get("terminating"), new.status.get("ready")
    changed = new.finished != before.finished or terminating != before.status.get("terminating")
    if changed and new.finished and (terminating or 0) > 0:
        detail = "terminating>0 is invalid for finished job"
        errors.append(invalid("status.terminating", terminating, detail))
    changed = ready != before.status.get("ready") or new.active != before.active
    if changed and ready is not None and ready > new.active:
        errors.append(invalid("status.ready", ready, "cannot set more ready pods than active"))


def _check_success(errors: Errors, new: JobStatusFacts, spec: JsonObject) -> None:
    if new.success and new.failed:
        errors.append(_condition_error("cannot set SuccessCriteriaMet=True and Failed=true conditions"))
    if new.success and new.failure_target:
        errors.append(_condition_error("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
    if spec.get("successPolicy") is not None and new.complete and not new.success:
        detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(_condition_error(detail))


def _check_history(errors: Errors, new: JobStatusFacts, before: JobStatusFacts, spec: JsonObject) -> None:
    """What has been said cannot be taken back."""
    lost = (
        ("Failed", before.failed and not new.failed),
        ("Complete", before.complete and not new.complete),
        ("FailureTarget", before.failure_target and not new.failure_target),
    )
    for kind, gone in lost:
        if gone:
            errors.append(_condition_error(f"cannot disable the terminal {kind}=True condition"))
    elastic = spec.get("completionMode") == INDEXED and spec.get("completions") == spec.get("parallelism")
    for field, checked in (("failed", True), ("succeeded", not elastic)):
        count = new.status.get(field) or 0
        if checked and count < (before.status.get(field) or 0):
            errors.append(invalid(f"status.{field}", count, f"cannot decrease the {field} counter"))
    if new.completion and before.completion and new.completion != before.completion:
        errors.append(invalid("status.completionTime", new.completion, "field is immutable"))
    resuming = before.suspended and not new.suspended
    if before.start is not None and new.start != before.start and not resuming and not spec.get("suspend"):
        detail = "field is immutable for unsuspended job once set"
        errors.append(invalid("status.startTime", new.start, detail))
    if before.success and not new.success:
        errors.append(_condition_error("cannot disable the SuccessCriteriaMet=True condition"))
    if before.complete and not before.success and new.success:
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(_condition_error(detail))
