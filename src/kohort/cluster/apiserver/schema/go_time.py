"""Time stamps as the API reads and writes them.

Two forms exist. A `Time` is read with any fraction of a second and written in UTC with whole seconds. A `MicroTime`
must have exactly six fractional digits and keeps them. What cannot be read is refused in the words of Go's time
package, because that is what clients show to their users.
"""

import re
from calendar import monthrange
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from kohort.objects.bounded_cache import remember_short

_EPOCH: Final = datetime(1970, 1, 1)
_CANONICAL_SECONDS: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_CANONICAL_MICROS: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


class _Layout(NamedTuple):
    text: str
    fraction: str
    """The element for the fraction of a second; empty when any fraction is accepted."""


_SECONDS: Final = _Layout("2006-01-02T15:04:05Z07:00", "")
_MICROS: Final = _Layout("2006-01-02T15:04:05.000000Z07:00", ".000000")


@remember_short(1024)
def canonical_time(text: str) -> str | None:
    """A `Time` in its canonical form, None for the zero time. ValueError in Go's words when it is not a time. Objects
    are full of times, and those of one moment are the same."""
    if _CANONICAL_SECONDS.fullmatch(text) and _exists(text):
        return text if text != "0001-01-01T00:00:00Z" else None
    return _written(_Reader(text, _SECONDS).read(), "seconds")


def canonical_micro_time(text: str) -> str | None:
    """A `MicroTime` in its canonical form, None for the zero time. ValueError in Go's words when it is not one."""
    if _CANONICAL_MICROS.fullmatch(text) and _exists(text):
        return text if text != "0001-01-01T00:00:00.000000Z" else None
    return _written(_Reader(text, _MICROS).read(), "microseconds")


def from_unix(seconds: int, nanos: int, *, micro: bool) -> str | None:
    """The text of a time that protobuf carries as numbers; None for the zero time."""
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000 if micro else 0)
    return _written(moment, "microseconds" if micro else "seconds")


def _exists(text: str) -> bool:
    """Whether a text of the right shape names a moment: no 30 February."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _written(moment: datetime, precision: str) -> str | None:
    """The text of a moment in UTC that does not say so."""
    text = moment.isoformat(timespec=precision)
    return f"{text}Z" if not text.startswith("0001-01-01T00:00:00") else None


class _Reader:
    """Reads element by element, so that the first one that does not fit can be named."""

    def __init__(self, text: str, layout: _Layout) -> None:
        self.text = text
        self.rest = text
        self.layout = layout

    def read(self) -> datetime:
        year = self._digits("2006", 4)
        self._literal("-")
        month = self._digits("01", 2)
        self._in_range("month", month, 1, 12)
        self._literal("-")
        day = self._digits("02", 2)
        self._literal("T")
        hour = self._hour()
        self._in_range("hour", hour, 0, 23)
        self._literal(":")
        minute = self._digits("04", 2)
        self._in_range("minute", minute, 0, 59)
        self._literal(":")
        second = self._digits("05", 2)
        self._in_range("second", second, 0, 59)
        micros = self._fraction()
        offset = self._offset()
        if self.rest:
            raise ValueError(f'parsing time "{self.text}": extra text: "{self.rest}"')
        if year == 0 or not 1 <= day <= monthrange(year, month)[1]:
            raise ValueError(f'parsing time "{self.text}": day out of range')
        try:
            return datetime(year, month, day, hour, minute, second, micros) - offset
        except OverflowError:
            raise ValueError(f'parsing time "{self.text}": year out of range') from None

    def _refuse(self, element: str) -> ValueError:
        return ValueError(
            f'parsing time "{self.text}" as "{self.layout.text}": cannot parse "{self.rest}" as "{element}"'
        )

    def _in_range(self, what: str, value: int, lowest: int, highest: int) -> None:
        if not lowest <= value <= highest:
            raise ValueError(f'parsing time "{self.text}": {what} out of range')

    def _literal(self, character: str) -> None:
        if not self.rest.startswith(character):
            raise self._refuse(character)
        self.rest = self.rest[1:]

    def _digits(self, element: str, count: int) -> int:
        head = self.rest[:count]
        if len(head) < count or not (head.isascii() and head.isdigit()):
            raise self._refuse(element)
        self.rest = self.rest[count:]
        return int(head)

    def _hour(self) -> int:
        """One digit is enough for the hour."""
        count = 2 if self.rest[1:2].isdigit() else 1
        return self._digits("15", count)

    def _fraction(self) -> int:
        if self.layout.fraction:
            match = re.match(r"[.,]\d{6}", self.rest, re.ASCII)
            if match is None:
                raise self._refuse(self.layout.fraction)
        else:
            match = re.match(r"[.,]\d+", self.rest, re.ASCII)
            if match is None:
                return 0
        self.rest = self.rest[match.end() :]
        return int(match.group()[1:7].ljust(6, "0"))

    def _offset(self) -> timedelta:
        if self.rest.startswith("Z"):
            self.rest = self.rest[1:]
            return timedelta()
        match = re.match(r"([+-])(\d\d):(\d\d)", self.rest, re.ASCII)
        if match is None:
            raise self._refuse("Z07:00")
        hours, minutes = int(match[2]), int(match[3])
        self._in_range("time zone offset hour", hours, 0, 24)
        self._in_range("time zone offset minute", minutes, 0, 60)
        self.rest = self.rest[match.end() :]
        offset = timedelta(hours=hours, minutes=minutes)
        return -offset if match[1] == "-" else offset
