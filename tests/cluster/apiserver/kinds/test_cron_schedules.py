"""When cron schedules are due: tables for the rules, and a minute-by-minute search for everything else."""

import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.kinds.cron_schedule import WallClockTimes, parse_schedule, schedule_problem

NEW_YORK = zoneinfo.ZoneInfo("America/New_York")


def due(schedule: str, moment: str, zone: str = "UTC") -> str | None:
    found = parse_schedule(schedule).next_after(datetime.fromisoformat(moment), zoneinfo.ZoneInfo(zone))
    return None if found is None else found.astimezone(zoneinfo.ZoneInfo(zone)).isoformat()


@pytest.mark.parametrize(
    ("schedule", "moment", "expected"),
    [
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00+00:00"),
        ("* * * * *", "2026-01-01T00:00:59.5Z", "2026-01-01T00:01:00+00:00"),
        ("*/15 * * * *", "2026-01-01T00:45:00Z", "2026-01-01T01:00:00+00:00"),
        ("30 9-17/4 * * 1-5", "2026-01-02T17:30:00Z", "2026-01-05T09:30:00+00:00"),
        ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00+00:00"),
        ("0 0 13 * *", "2026-01-14T00:00:00Z", "2026-02-13T00:00:00+00:00"),
        ("0 0 */2 * 1", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00+00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00+00:00"),
        ("0 0 31 2 *", "2026-01-01T00:00:00Z", None),
        ("@hourly", "2026-01-01T00:30:00Z", "2026-01-01T01:00:00+00:00"),
        ("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00+00:00"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00+00:00"),
        ("@every 90s", "2026-01-01T00:00:10Z", "2026-01-01T00:01:40+00:00"),
        ("@every 1h30m", "2026-01-01T00:00:10Z", "2026-01-01T01:30:10+00:00"),
        ("5 4 * jan,JUL sun", "2026-02-01T00:00:00Z", "2026-07-05T04:05:00+00:00"),
    ],
)
def test_the_next_time(schedule: str, moment: str, expected: str | None) -> None:
    assert due(schedule, moment) == expected


def test_a_time_that_clocks_leave_out_is_not_due_that_day() -> None:
    assert due("30 2 * * *", "2026-03-08T00:00:00-05:00", "America/New_York") == "2026-03-09T02:30:00-04:00"
    assert due("0 0 * * *", "2018-11-03T12:00:00-03:00", "America/Sao_Paulo") == "2018-11-05T00:00:00-02:00"


def test_a_time_that_comes_twice_is_due_twice() -> None:
    first = due("30 1 * * *", "2026-11-01T00:00:00-04:00", "America/New_York")
    assert first == "2026-11-01T01:30:00-04:00"
    assert due("30 1 * * *", first, "America/New_York") == "2026-11-01T01:30:00-05:00"


fields = st.tuples(
    st.sampled_from(["*", "0", "*/7", "15,45", "5-50/20"]),
    st.sampled_from(["*", "0", "2", "*/5", "1-3", "23"]),
    st.sampled_from(["*", "1", "*/2", "8,9"]),
    st.sampled_from(["*", "3", "11", "*/4"]),
    st.sampled_from(["*", "0", "1-5", "sat"]),
)
zones = st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"])
moments = st.datetimes(datetime(2026, 2, 25), datetime(2026, 11, 30), timezones=st.just(UTC))


@given(fields.map(" ".join), zones, moments)
def test_no_minute_is_left_out(schedule: str, zone: str, moment: datetime) -> None:
    parsed = parse_schedule(schedule)
    assert isinstance(parsed, WallClockTimes)
    local = zoneinfo.ZoneInfo(zone)
    found = parsed.next_after(moment, local)
    minute = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
    for _ in range(3 * 24 * 60):
        at = minute.astimezone(local)
        of_month, of_week = at.day in parsed.days, at.isoweekday() % 7 in parsed.weekdays
        on_day = of_month or of_week if parsed.either_day else of_month and of_week
        if at.minute in parsed.minutes and at.hour in parsed.hours and at.month in parsed.months and on_day:
            assert found == minute
            return
        minute += timedelta(minutes=1)
    assert found is None or found >= minute


@pytest.mark.parametrize(
    "schedule", ["", "* * * *", "60 * * * *", "*/0 * * * *", "@reboot", "@every x", "1-2-3 * * * *"]
)
def test_what_cannot_be_understood_is_said(schedule: str) -> None:
    assert schedule_problem(schedule)
