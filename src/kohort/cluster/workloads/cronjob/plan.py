"""What a CronJob does now, and when it must be reconciled again.

The time that is due is the latest one that has passed since the last start, or since the creation if there was none.
With `startingDeadlineSeconds`, times longer ago than that do not count. Times that were missed before it are not made
up for.

| due time                | policy  | jobs running | then                                |
|-------------------------|---------|--------------|-------------------------------------|
| none                    |         |              | reconcile at the next time         |
| later than the deadline |         |              | event MissSchedule, wait           |
| started already         |         |              | wait                                |
| yes                     | Forbid  | some         | event JobAlreadyActive, wait        |
| yes                     | Replace | some         | delete them, start a job            |
| yes                     | else    |              | start a job, named after the minute |

A suspended CronJob, or one that is being deleted, starts nothing but still records which jobs have ended.
"""

import zoneinfo
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum, auto
from typing import Final

import msgspec

from kohort.cluster.apiserver.kinds.cron_schedule import BadSchedule, Schedule, parse_schedule, zone_in_schedule

MANY_MISSED: Final = 100
"""More missed times than this cause a warning: the clock is wrong, or the controller did not run for long."""
SLACK: Final = timedelta(milliseconds=100)
"""Seconds added to the wait for a time, so that it has certainly passed."""


class JobFacts(msgspec.Struct, frozen=True):
    """One Job of the CronJob."""

    name: str
    uid: str
    ended: str = ""
    """`Complete` or `Failed`."""
    started: str | None = None
    completed: str | None = None


class CronJobFacts(msgspec.Struct, frozen=True):
    name: str
    created: datetime
    schedule: str
    zone: str = ""
    suspended: bool = False
    deleting: bool = False
    policy: str = "Allow"
    deadline: timedelta | None = None
    successes_kept: int | None = 3
    failures_kept: int | None = 1
    active: Mapping[str, str] = {}
    """Names of the jobs that the status calls active, by uid."""
    last_scheduled: datetime | None = None
    last_successful: str | None = None


class PlannedEvent(msgspec.Struct, frozen=True):
    """An event on the CronJob."""

    reason: str
    message: str
    warning: bool = False


class Start(msgspec.Struct, frozen=True):
    """Create the job of this time."""

    name: str
    scheduled: datetime


class DeleteReason(Enum):
    REPLACED = auto()
    OLD = auto()


class Delete(msgspec.Struct, frozen=True):
    job: str
    uid: str
    why: DeleteReason


class Plan(msgspec.Struct, frozen=True):
    events: tuple[PlannedEvent, ...] = ()
    start: Start | None = None
    delete: tuple[Delete, ...] = ()
    ended: frozenset[str] = frozenset()
    """Uids that are not active any more."""
    last_successful: str | None = None
    next_check: timedelta | None = None


def plan(facts: CronJobFacts, jobs: Sequence[JobFacts], now: datetime, gone: Iterable[str] = ()) -> Plan:
    """`gone` are the uids of active jobs that do not exist any more."""
    events, ended = _ended(facts, jobs, gone)
    active = {uid: name for uid, name in facts.active.items() if uid not in ended}
    old = _old(facts, jobs)
    successes = [job.completed for job in jobs if job.ended == "Complete" and job.completed]
    latest = max([*successes, *([facts.last_successful] if facts.last_successful else [])], default=None)
    start = Plan() if facts.deleting or facts.suspended else _start(facts, active, now)
    return Plan(
        events=(*events, *start.events),
        start=start.start,
        delete=(*start.delete, *old),
        ended=ended | start.ended,
        last_successful=latest,
        next_check=start.next_check,
    )


def job_name(cron_job: str, scheduled: datetime) -> str:
    """The same for every attempt to start the job of a time: it is never started twice."""
    return f"{cron_job}-{int(scheduled.timestamp()) // 60}"


def zone_of(facts: CronJobFacts) -> tzinfo:
    """Raises KeyError or ValueError for a zone that this machine does not know."""
    name = facts.zone or zone_in_schedule(facts.schedule)
    return zoneinfo.ZoneInfo(name) if name else UTC


def _ended(
    facts: CronJobFacts, jobs: Sequence[JobFacts], gone: Iterable[str]
) -> tuple[list[PlannedEvent], frozenset[str]]:
    events: list[PlannedEvent] = []
    ended: set[str] = set()
    for job in jobs:
        if job.uid in facts.active and job.ended:
            events.append(PlannedEvent("SawCompletedJob", f"Saw completed job: {job.name}, condition: {job.ended}"))
            ended.add(job.uid)
        elif job.uid not in facts.active and not job.ended:
            words = f"Saw a job that the controller did not create or forgot: {job.name}"
            events.append(PlannedEvent("UnexpectedJob", words, warning=True))
    for uid in gone:
        events.append(PlannedEvent("MissingJob", f"Active job went missing: {facts.active[uid]}"))
        ended.add(uid)
    return events, frozenset(ended)


def _old(facts: CronJobFacts, jobs: Sequence[JobFacts]) -> list[Delete]:
    """Ended jobs beyond the limits, the oldest first."""
    found: list[Delete] = []
    for ending, limit in (("Complete", facts.successes_kept), ("Failed", facts.failures_kept)):
        if limit is None:
            continue
        ended = [job for job in jobs if job.ended == ending]
        ended.sort(key=lambda job: (job.started is None, job.started or "", job.name))
        found += [Delete(job.name, job.uid, DeleteReason.OLD) for job in ended[: max(0, len(ended) - limit)]]
    return found


def _start(facts: CronJobFacts, active: Mapping[str, str], now: datetime) -> Plan:
    try:
        zone = zone_of(facts)
    except (KeyError, ValueError, OSError) as problem:
        return Plan((PlannedEvent("UnknownTimeZone", f'invalid timeZone: "{facts.zone}": {problem}', warning=True),))
    try:
        schedule = parse_schedule(facts.schedule)
    except BadSchedule as problem:
        words = f'unparseable schedule: "{facts.schedule}" : {problem}'
        return Plan((PlannedEvent("UnparseableSchedule", words, warning=True),))
    due = due_time(facts, schedule, zone, now)
    wait = Plan(next_check=next_check(facts, schedule, zone, now))
    events: tuple[PlannedEvent, ...] = ()
    if due.many_missed:
        words = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        events = (PlannedEvent("TooManyMissedTimes", words, warning=True),)
    moment = due.moment
    if moment is None:
        return msgspec.structs.replace(wait, events=events)
    if facts.deadline is not None and moment + facts.deadline < now:
        missed = f"Missed scheduled time to start a job: {moment.strftime('%a, %d %b %Y %H:%M:%S +0000')}"
        return msgspec.structs.replace(wait, events=(*events, PlannedEvent("MissSchedule", missed, warning=True)))
    name = job_name(facts.name, moment)
    if name in active.values() or facts.last_scheduled == moment:
        return msgspec.structs.replace(wait, events=events)
    if facts.policy == "Forbid" and active:
        words = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return msgspec.structs.replace(wait, events=(*events, PlannedEvent("JobAlreadyActive", words)))
    replaced = active if facts.policy == "Replace" else {}
    return msgspec.structs.replace(
        wait,
        events=events,
        start=Start(name, moment),
        delete=tuple(Delete(job, uid, DeleteReason.REPLACED) for uid, job in replaced.items()),
        ended=frozenset(replaced),
    )


class Due(msgspec.Struct, frozen=True):
    since: datetime
    """The moment after which times were looked for."""
    moment: datetime | None = None
    """The latest time that has passed."""
    missed: int = 0
    """How many times have passed, if more than one has: estimated by the distance of the first two."""

    @property
    def many_missed(self) -> bool:
        return self.missed > MANY_MISSED


def due_time(
    facts: CronJobFacts, schedule: Schedule, zone: tzinfo, now: datetime, *, within_deadline: bool = True
) -> Due:
    since = facts.last_scheduled or facts.created
    if within_deadline and facts.deadline is not None:
        since = max(since, now - facts.deadline)
    latest, first = schedule.latest_until(now, since, zone), schedule.next_after(since, zone)
    second = None if latest is None or first is None else schedule.next_after(first, zone)
    if first is None or second is None or second > now:
        return Due(since, latest)
    return Due(since, latest, (now - first) // (second - first) + 1)


def next_check(facts: CronJobFacts, schedule: Schedule, zone: tzinfo, now: datetime) -> timedelta | None:
    """How long until the next time; None if there is none."""
    due = due_time(facts, schedule, zone, now, within_deadline=False)
    coming = schedule.next_after(due.moment or due.since, zone)
    if coming is not None and coming <= now:
        coming = schedule.next_after(now, zone)
    return None if coming is None else max(coming - now, timedelta(0)) + SLACK
