"""Durations and moments as text, in the forms that Go reads and writes."""

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.values import Duration, Timestamp

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)")
_LOOSE = re.compile(r"(\d+)\s*([A-Za-zµ]+)")
_LOOSE_UNITS: list[tuple[tuple[str, ...], int]] = [
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 1_000),
    (("ms", "milli"), 1_000_000),
    (("s", "sec"), 1_000_000_000),
    (("m", "min"), 60_000_000_000),
    (("h", "hr", "hour"), 3_600_000_000_000),
    (("d", "day"), 86_400_000_000_000),
    (("w", "wk", "week"), 604_800_000_000_000),
]
_MOMENT = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d+))?([Zz]|([+-])(\d{2}):(\d{2}))$", re.ASCII
)
_EPOCH = datetime(1970, 1, 1)
_SECOND = 1_000_000_000


def parse_duration(text: str) -> Duration:
    """`1h30m`, `-1.5s`, `0`. ValueError when it is none."""
    body = text.lstrip("+-") if text[:1] in ("+", "-") else text
    negative = text[:1] == "-"
    if len(text) - len(body) > 1 or not body:
        raise ValueError(f"invalid duration {text!r}")
    if body == "0":
        return Duration(0)
    nanos = position = 0
    while position < len(body):
        part = _PART.match(body, position)
        if part is None or not (part[1] or part[2]):
            raise ValueError(f"invalid duration {text!r}")
        unit = _UNITS[part[3]]
        fraction = part[2] or ""
        nanos += int(part[1] or 0) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)
        position = part.end()
    try:
        return Duration(-nanos if negative else nanos)
    except CelError:
        raise ValueError(f"invalid duration {text!r}") from None


def parse_loose_duration(text: str) -> Duration:
    """The `duration` format of schemas, which also knows `5 days` and `2 weeks`."""
    try:
        return parse_duration(text)
    except ValueError:
        pass
    nanos = 0
    found = False
    for factor, unit in _LOOSE.findall(text):
        for names, multiplier in _LOOSE_UNITS:
            if unit.lower() in names or unit.lower().startswith(names[-1]):
                nanos += int(factor) * multiplier
                found = True
    if not found:
        raise ValueError(f"unable to parse {text} as duration")
    return Duration(nanos)


def parse_timestamp(text: str) -> Timestamp:
    """RFC 3339. ValueError when it is not."""
    match = _MOMENT.match(text)
    if match is None:
        raise ValueError(f"invalid timestamp {text!r}")
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    moment = datetime(year or 1, month, day, hour, minute, second)
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    if match[9]:
        if int(match[10]) > 23 or int(match[11]) > 59:
            raise ValueError(f"invalid timestamp {text!r}")
        offset = int(match[10]) * 3600 + int(match[11]) * 60
        seconds -= offset if match[9] == "+" else -offset
    fraction = (match[7] or "")[:9].ljust(9, "0")
    try:
        return Timestamp(seconds * _SECOND + int(fraction))
    except CelError:
        raise ValueError(f"invalid timestamp {text!r}") from None


def parse_date(text: str) -> Timestamp:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        raise ValueError(f"invalid date {text!r}")
    return Timestamp((date.fromisoformat(text) - _EPOCH.date()).days * 86_400 * _SECOND)


def timestamp_text(value: Timestamp) -> str:
    seconds, nanos = divmod(value.nanos, _SECOND)
    moment = _EPOCH + timedelta(seconds=seconds)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def duration_text(value: Duration) -> str:
    """Seconds with as many digits as needed: `3600s`, `1.5s`."""
    seconds = value.nanos / _SECOND
    text = repr(seconds)
    if "e" in text:
        text = f"{seconds:.9f}"
    return text.removesuffix(".0") + "s" if "." in text else text + "s"


def local_moment(value: Timestamp, zone: str) -> datetime:
    """The calendar fields of a moment in a time zone: an IANA name, or an offset such as `-03:30`."""
    seconds = value.nanos // _SECOND
    moment = _EPOCH + timedelta(seconds=seconds)
    if zone in ("", "UTC"):
        return moment
    try:
        return moment.replace(tzinfo=UTC).astimezone(_zone(zone))
    except OverflowError:
        raise CelError("timestamp overflow") from None


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    match = re.fullmatch(r"([+-]?)(\d\d):(\d\d)", name)
    if match:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {name}") from None
