"""Cron schedules: what is wrong with one, and when it is due next.

| field        | values                   |
|--------------|--------------------------|
| minute       | 0 to 59                  |
| hour         | 0 to 23                  |
| day of month | 1 to 31                  |
| month        | 1 to 12, `jan` to `dec`  |
| day of week  | 0 to 6, `sun` to `sat`   |

Each is a list of values, ranges and steps: `0,30`, `9-17`, `*/15`. If both days are limited, either of them is enough;
else both must match. `@hourly` and the like stand for such schedules, `@every 90s` counts from the last time.

When clocks are put forward, times that do not exist are left out; when they are put back, times that come twice are due
twice.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import msgspec

_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS: Final = {name: index for index, name in enumerate(_MONTH_NAMES, 1)}
_DAYS: Final = {name: index for index, name in enumerate(_DAY_NAMES)}
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_duration = re.compile(r"(\d+(\.\d*)?(ns|us|ms|s|m|h))+", re.ASCII).fullmatch
_duration_parts = re.compile(r"(\d+(?:\.\d*)?)(ns|us|ms|s|m|h)", re.ASCII).findall
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_YEARS: Final = 5
"""A schedule that is not due within so many years never is: the 31st of February."""


class BadSchedule(ValueError):
    """A schedule that cannot be understood, in the words of the API."""


class FixedInterval(msgspec.Struct, frozen=True):
    """`@every`: a fixed time after the last one."""

    seconds: int

    def next_after(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        return moment.replace(microsecond=0) + timedelta(seconds=self.seconds)

    def latest_until(self, now: datetime, since: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The last of the times that count from `since`; None if the first one is still to come."""
        first = since.replace(microsecond=0)
        times = (now - first) // timedelta(seconds=self.seconds)
        return first + times * timedelta(seconds=self.seconds) if times > 0 else None


class WallClockTimes(msgspec.Struct, frozen=True):
    """Times by the clock on the wall."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Both days are limited, so one of them is enough."""

    def next_after(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The first time after a moment, in UTC; None if there is none in years."""
        start = moment.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
        if start.second:
            start = start.replace(second=0) + timedelta(minutes=1)
        at, last = start.astimezone(zone), start.year + _YEARS
        while at.year <= last:
            if at.month not in self.months:
                at = _midnight(zone, at.year + at.month // 12, at.month % 12 + 1, 1)
            elif not self._on_day(at):
                tomorrow = at.date() + timedelta(days=1)
                at = _midnight(zone, tomorrow.year, tomorrow.month, tomorrow.day)
            elif at.hour not in self.hours:
                at = _later(at, timedelta(minutes=60 - at.minute), zone)
            elif at.minute not in self.minutes:
                at = _later(at, timedelta(minutes=1), zone)
            else:
                return at.astimezone(UTC)
        return None

    def latest_until(self, now: datetime, since: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The last time after `since` and not after `now`; None if there is none. Years may lie in between, so the gap
        is halved until less than a minute is left: times are at least that far apart."""
        found = self.next_after(since, zone)
        if found is None or found > now:
            return None
        early, late = since, now
        while late - early > timedelta(seconds=59):
            middle = early + (late - early) / 2
            coming = self.next_after(middle, zone)
            if coming is None or coming > now:
                late = middle
            else:
                early, found = middle, coming
        return found

    def _on_day(self, at: datetime) -> bool:
        of_month, of_week = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either_day else of_month and of_week


Schedule = FixedInterval | WallClockTimes


def parse_schedule(text: str) -> Schedule:
    """Raises BadSchedule. A leading `TZ=` is passed over: the zone is a field of its own."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if not text:
        raise BadSchedule("empty spec string")
    if text.startswith("@every "):
        return _parse_every(text)
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise BadSchedule(f"unrecognized descriptor: {text}")
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise BadSchedule(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    values: list[frozenset[int]] = []
    limited: list[bool] = []
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        ranges = [_parse_range(part, low, high, names) for part in field.split(",")]
        values.append(frozenset(number for numbers, _ in ranges for number in numbers))
        limited.append(not any(everything for _, everything in ranges))
    minutes, hours, days, months, weekdays = values
    return WallClockTimes(minutes, hours, days, months, weekdays, either_day=limited[2] and limited[4])


def schedule_problem(text: str) -> str:
    """What is wrong with a schedule, empty if nothing is."""
    try:
        parse_schedule(text)
    except BadSchedule as problem:
        return str(problem)
    return ""


def zone_in_schedule(text: str) -> str:
    """The zone of a schedule that begins with one: old objects have it there."""
    return text.partition(" ")[0].partition("=")[2] if text.startswith(("TZ=", "CRON_TZ=")) else ""


def _parse_every(text: str) -> FixedInterval:
    length = text.removeprefix("@every ").strip()
    if _duration(length) is None:
        raise BadSchedule(f"failed to parse duration {text}")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _duration_parts(length))
    return FixedInterval(max(int(seconds), 1))


def _parse_range(part: str, low: int, high: int, names: dict[str, int]) -> tuple[range, bool]:
    """The values, and whether the part is a plain star."""
    span, *steps = part.split("/")
    if len(steps) > 1:
        raise BadSchedule(f"too many slashes: {part}")
    bounds = span.split("-")
    if len(bounds) > 2:
        raise BadSchedule(f"too many hyphens: {part}")
    star = bounds[0] in ("*", "?")
    if star:
        start, end = low, high
    else:
        numbers = [_number(text, names) for text in bounds]
        start, end = numbers[0], numbers[-1]
    step = 1
    if steps:
        step = _number(steps[0], {})
        if step == 0:
            raise BadSchedule(f"step of range should be a positive number: {part}")
        end = high if len(bounds) == 1 else end
    if start < low:
        raise BadSchedule(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise BadSchedule(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise BadSchedule(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    return range(start, end + 1, step), star and step == 1


def _number(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    if named is not None:
        return named
    if not (text.isascii() and text.isdigit()):
        raise BadSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def _later(at: datetime, by: timedelta, zone: tzinfo) -> datetime:
    """By so much real time, whatever the clock on the wall does meanwhile."""
    return (at.astimezone(UTC) + by).astimezone(zone)


def _midnight(zone: tzinfo, year: int, month: int, day: int) -> datetime:
    """The first moment of a day. Where clocks are put forward at midnight, that is later than midnight."""
    return datetime(year, month, day, tzinfo=zone).astimezone(UTC).astimezone(zone)
