"""The status of a Job: reading it, and computing the next one."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from kohort.cluster.workloads import conditions
from kohort.cluster.workloads.job.indexes import format_indexes, parse_indexes
from kohort.cluster.workloads.job.plan import End, JobFacts, Notes, PodResult, Tally, Work
from kohort.kube import clock
from kohort.objects.json_types import JsonObject

_ANNOUNCED = {"SuccessCriteriaMet": True, "FailureTarget": False}


def finished(job: JsonObject) -> bool:
    return final_condition(job) is not None


def finished_at(job: JsonObject) -> datetime:
    final = final_condition(job)
    assert final is not None
    return clock.parse_time(final["lastTransitionTime"])


def final_condition(job: JsonObject) -> JsonObject | None:
    found: list[JsonObject] = (job.get("status") or {}).get("conditions") or []
    return next((one for one in found if one["type"] in ("Complete", "Failed") and one["status"] == "True"), None)


def is_indexed(job: JsonObject) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def job_facts(job: JsonObject) -> JobFacts:
    spec, status = job["spec"], job.get("status") or {}
    limit, policy = spec.get("backoffLimit"), spec.get("podFailurePolicy")
    good, bad = uncounted(status)
    left = until_deadline(job, status)
    return JobFacts(
        parallelism=spec.get("parallelism", 1),
        completions=spec.get("completions"),
        indexed=is_indexed(job),
        backoff_limit=6 if limit is None else limit,
        per_index_limit=spec.get("backoffLimitPerIndex"),
        max_failed_indexes=spec.get("maxFailedIndexes"),
        success_policy=spec.get("successPolicy"),
        replaces_only_failed=policy is not None or spec.get("podReplacementPolicy") == "Failed",
        restarts_in_place=spec["template"].get("spec", {}).get("restartPolicy") == "OnFailure",
        suspended=bool(spec.get("suspend")),
        overdue=left is not None and left <= 0,
        deleting="deletionTimestamp" in job["metadata"],
        succeeded=status.get("succeeded") or 0,
        failed=status.get("failed") or 0,
        noted_good=frozenset(good),
        noted_bad=frozenset(bad),
        completed=_within(parse_indexes(status.get("completedIndexes") or ""), spec.get("completions")),
        failed_indexes=_within(parse_indexes(status.get("failedIndexes") or ""), spec.get("completions")),
        announced=_announced(status),
    )


def _within(indexes: frozenset[int], completions: int | None) -> frozenset[int]:
    return frozenset(index for index in indexes if completions is None or index < completions)


def _announced(status: JsonObject) -> End | None:
    for one in status.get("conditions") or []:
        if one["type"] in _ANNOUNCED and one["status"] == "True":
            return End(_ANNOUNCED[one["type"]], one.get("reason", ""), one.get("message", ""))
    return None


def uncounted(status: JsonObject) -> tuple[list[str], list[str]]:
    noted = status.get("uncountedTerminatedPods") or {}
    return noted.get("succeeded") or [], noted.get("failed") or []


def until_deadline(job: JsonObject, status: JsonObject) -> float | None:
    """Seconds until activeDeadlineSeconds have passed; None without a deadline, or while suspended."""
    seconds, start = job["spec"].get("activeDeadlineSeconds"), status.get("startTime")
    if seconds is None or not start or job["spec"].get("suspend"):
        return None
    return (clock.parse_time(start) + timedelta(seconds=seconds) - clock.now()).total_seconds()


def with_results(job: JsonObject, facts: JobFacts, tally: Tally, notes: Notes) -> JsonObject:
    """The status with all counted and uncounted results; counters of running pods are not in it."""
    status = dict(job.get("status") or {})
    noted: JsonObject = {}
    if notes.good:
        noted["succeeded"] = sorted(notes.good)
    if notes.bad:
        noted["failed"] = sorted(notes.bad)
    status |= {"succeeded": facts.succeeded, "failed": facts.failed, "uncountedTerminatedPods": noted}
    if facts.indexed:
        status["succeeded"] = len(tally.completed)
        status["completedIndexes"] = format_indexes(tally.completed) or None
        if facts.per_index_limit is not None:
            status["failedIndexes"] = format_indexes(tally.failed_indexes)
    if not status.get("startTime") and not facts.suspended:
        status["startTime"] = clock.timestamp()
    return status


def running_counts(results: Sequence[PodResult], step: Work, made: int) -> JsonObject:
    """The counters of what runs, after the deletions of a step and with `made` new pods."""
    active = [one for one in results if one.active and one.name not in step.delete]
    return {
        "active": len(active) + made,
        "ready": sum(one.ready for one in active),
        "terminating": len(step.delete) + sum(one.leaving for one in results),
    }


def status_at_end(status: JsonObject, end: End, leaving: int) -> JsonObject:
    """The Job ends: no pod is active any more, `leaving` pods are still terminating."""
    announced = "SuccessCriteriaMet" if end.success else "FailureTarget"
    found = with_condition(status.get("conditions") or [], announced, "True", end.reason, end.message)
    return {"conditions": found, "active": 0, "ready": 0, "terminating": leaving}


def status_after_end(status: JsonObject, end: End) -> JsonObject:
    type = "Complete" if end.success else "Failed"
    found = with_condition(status.get("conditions") or [], type, "True", end.reason, end.message)
    return {"conditions": found} | ({"completionTime": clock.timestamp()} if end.success else {})


def with_condition(found: list[JsonObject], type: str, state: str, reason: str, message: str) -> list[JsonObject]:
    """With this condition; one that is there in this state stays as it is."""
    old = conditions.find(found, type)
    if old is not None and old["status"] == state:
        return found
    now = clock.timestamp()
    entry: JsonObject = {"type": type, "status": state, "reason": reason, "message": message}
    entry |= {"lastProbeTime": now, "lastTransitionTime": now}
    return [one for one in found if one["type"] != type] + [entry]


def status_patch(job: JsonObject, status: JsonObject) -> JsonObject:
    """The patch from the present status to this one. Fields that the API omits when empty are cleared with null."""
    before = job.get("status") or {}
    after = {
        name: None if name in ("active", "succeeded", "failed") and value == 0 else value
        for name, value in status.items()
    }
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    if "uncountedTerminatedPods" in changed:
        changed["uncountedTerminatedPods"] = {"succeeded": None, "failed": None, **status["uncountedTerminatedPods"]}
    return changed
