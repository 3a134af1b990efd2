"""Calendar fields of moments, in UTC or a named time zone, and parts of durations."""

from collections.abc import Callable
from datetime import datetime

from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.times import local_moment
from kohort.cluster.apiserver.cel.values import Duration, Timestamp


def _field(take: Callable[[datetime], int]) -> Callable[..., int]:
    def accessor(moment: Timestamp, zone: str = "") -> int:
        return take(local_moment(moment, zone))

    return accessor


def _milliseconds(moment: Timestamp, zone: str = "") -> int:
    return moment.nanos % 1_000_000_000 // 1_000_000


_FIELDS: dict[str, Callable[..., int]] = {
    "getFullYear": _field(lambda moment: moment.year),
    "getMonth": _field(lambda moment: moment.month - 1),
    "getDayOfYear": _field(lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": _field(lambda moment: moment.day - 1),
    "getDate": _field(lambda moment: moment.day),
    "getDayOfWeek": _field(lambda moment: (moment.weekday() + 1) % 7),
    "getHours": _field(lambda moment: moment.hour),
    "getMinutes": _field(lambda moment: moment.minute),
    "getSeconds": _field(lambda moment: moment.second),
    "getMilliseconds": _milliseconds,
}


def _whole(unit: int) -> Callable[[Duration], int]:
    def part(duration: Duration) -> int:
        count = abs(duration.nanos) // unit
        return -count if duration.nanos < 0 else count

    return part


_PARTS = {
    "getHours": _whole(3_600_000_000_000),
    "getMinutes": _whole(60_000_000_000),
    "getSeconds": _whole(1_000_000_000),
    "getMilliseconds": _whole(1_000_000),
}

LIBRARY = Library(
    (
        *(Function(f"timestamp::{name}(): int", code) for name, code in _FIELDS.items()),
        *(Function(f"timestamp::{name}(string): int", code) for name, code in _FIELDS.items()),
        *(Function(f"duration::{name}(): int", code) for name, code in _PARTS.items()),
    )
)
