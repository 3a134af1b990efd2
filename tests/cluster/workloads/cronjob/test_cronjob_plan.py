"""What a CronJob starts and deletes, and when it is looked at again."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.kinds.cron_schedule import parse_schedule
from kohort.cluster.workloads.cronjob.plan import (
    CronJobFacts,
    Delete,
    DeleteReason,
    JobFacts,
    Plan,
    due_time,
    job_name,
    plan,
)

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
EVERY_MINUTE = CronJobFacts("tick", CREATED, "* * * * *")


def at(minutes: float) -> datetime:
    return CREATED + timedelta(minutes=minutes)


def changed(facts: CronJobFacts = EVERY_MINUTE, **fields: object) -> CronJobFacts:
    return msgspec.structs.replace(facts, **fields)


def reasons(found: Plan) -> list[str]:
    return [note.reason for note in found.events]


def started(found: Plan) -> datetime | None:
    return None if found.start is None else found.start.scheduled


def test_nothing_is_due_before_the_first_time() -> None:
    found = plan(EVERY_MINUTE, [], at(0.5))
    assert found.start is None and found.next_check == timedelta(seconds=30.1)


def test_a_job_is_started_at_its_time_and_only_once() -> None:
    found = plan(EVERY_MINUTE, [], at(1.0))
    assert started(found) == at(1)
    assert found.start is not None and found.start.name == job_name("tick", at(1))
    assert found.next_check == timedelta(seconds=60.1)
    assert plan(changed(last_scheduled=at(1)), [], at(1.5)).start is None
    running = changed(active={"u": job_name("tick", at(1))})
    assert plan(running, [JobFacts(job_name("tick", at(1)), "u")], at(1.5)).start is None


def test_only_the_latest_of_several_missed_times_is_made_up_for() -> None:
    found = plan(EVERY_MINUTE, [], at(7.5))
    assert started(found) == at(7) and reasons(found) == []
    long_away = plan(EVERY_MINUTE, [], at(500.5))
    assert started(long_away) == at(500) and reasons(long_away) == ["TooManyMissedTimes"]


def test_times_before_the_deadline_do_not_count() -> None:
    hourly = changed(schedule="0 * * * *", deadline=timedelta(seconds=30))
    assert started(plan(hourly, [], at(60.4))) == at(60)
    assert plan(hourly, [], at(61)).start is None
    assert plan(changed(deadline=timedelta(seconds=200)), [], at(500)).events == (), (
        "few are missed within the deadline"
    )


@pytest.mark.parametrize(("policy", "starts"), [("Allow", True), ("Forbid", False), ("Replace", True)])
def test_policies_for_jobs_that_still_run(policy: str, starts: bool) -> None:
    facts = changed(policy=policy, active={"u": "tick-1"}, last_scheduled=at(1))
    found = plan(facts, [JobFacts("tick-1", "u")], at(2))
    assert (found.start is not None) == starts
    assert reasons(found) == (["JobAlreadyActive"] if policy == "Forbid" else [])
    assert found.delete == ((Delete("tick-1", "u", DeleteReason.REPLACED),) if policy == "Replace" else ())
    assert found.ended == (frozenset("u") if policy == "Replace" else frozenset())


def test_a_suspended_one_starts_nothing_but_notices_what_has_ended() -> None:
    facts = changed(suspended=True, active={"u": "tick-1"})
    found = plan(facts, [JobFacts("tick-1", "u", "Complete", "t1", "t2")], at(5))
    assert found.start is None and found.next_check is None
    assert found.ended == frozenset("u") and found.last_successful == "t2"
    assert reasons(found) == ["SawCompletedJob"]


def test_jobs_that_vanished_or_are_not_known_are_told_apart() -> None:
    facts = changed(active={"u": "tick-1"}, suspended=True)
    assert reasons(plan(facts, [JobFacts("other", "v")], at(1), gone=["u"])) == ["UnexpectedJob", "MissingJob"]


def test_history_keeps_the_newest() -> None:
    jobs = [JobFacts(f"ok-{n}", f"s{n}", "Complete", f"t{n}", f"t{n}") for n in range(5)]
    jobs += [JobFacts(f"bad-{n}", f"f{n}", "Failed", f"t{n}") for n in range(3)]
    found = plan(changed(suspended=True), jobs, at(1))
    assert [each.job for each in found.delete] == ["ok-0", "ok-1", "bad-0", "bad-1"]
    assert plan(changed(suspended=True, successes_kept=None, failures_kept=0), jobs, at(1)).delete[0].job == "bad-0"


def test_what_cannot_be_understood_is_said_and_waits_for_an_edit() -> None:
    assert reasons(plan(changed(schedule="nonsense"), [], at(1))) == ["UnparseableSchedule"]
    assert reasons(plan(changed(zone="Nowhere/Land"), [], at(1))) == ["UnknownTimeZone"]


def test_the_zone_decides_when_a_day_begins() -> None:
    daily = changed(schedule="0 9 * * *", zone="Asia/Tokyo")
    assert started(plan(daily, [], at(1))) is None
    assert started(plan(changed(daily, created=at(-1)), [], at(1))) == CREATED


schedules = st.sampled_from(["* * * * *", "*/7 * * * *", "30 6-16/4 * * 1-5", "0 0 1 * *", "@every 45s", "@hourly"])


@given(schedules, st.integers(1, 40_000), st.one_of(st.none(), st.integers(0, 4000)))
def test_the_latest_time_that_has_passed_is_due(schedule: str, minutes: int, deadline: int | None) -> None:
    facts = changed(schedule=schedule, deadline=None if deadline is None else timedelta(seconds=deadline))
    parsed, now = parse_schedule(schedule), at(minutes)
    due = due_time(facts, parsed, UTC, now)
    if due.moment is None:
        first = parsed.next_after(due.since)
        assert first is None or first > now
        return
    assert due.since < due.moment <= now
    coming = parsed.next_after(due.moment)
    assert coming is None or coming > now


@given(
    schedules,
    st.sampled_from(["Allow", "Forbid", "Replace"]),
    st.lists(st.tuples(st.integers(1, 600), st.booleans()), min_size=1, max_size=20),
)
def test_no_time_is_started_twice_and_policies_hold(schedule: str, policy: str, looks: list[tuple[int, bool]]) -> None:
    facts, now = changed(schedule=schedule, policy=policy), CREATED
    jobs: dict[str, JobFacts] = {}
    starts: list[datetime] = []
    for minutes, job_ends in looks:
        now += timedelta(minutes=minutes)
        if job_ends:
            jobs = {uid: msgspec.structs.replace(job, ended="Complete", completed="t") for uid, job in jobs.items()}
        found = plan(facts, list(jobs.values()), now)
        active = {uid: name for uid, name in facts.active.items() if uid not in found.ended}
        jobs = {uid: job for uid, job in jobs.items() if uid not in {each.uid for each in found.delete}}
        if found.start is not None:
            assert policy == "Allow" or not active
            assert found.start.scheduled <= now
            starts.append(found.start.scheduled)
            uid = f"u{len(starts)}"
            jobs[uid] = JobFacts(found.start.name, uid)
            active[uid] = found.start.name
            facts = changed(facts, last_scheduled=found.start.scheduled)
        assert found.next_check is not None and found.next_check > timedelta(0)
        facts = changed(facts, active=active)
    assert starts == sorted(set(starts))
