"""What the numbers of a metric are, and how they are written.

| series | its limits and its quantile | the value of a step |
|---|---|---|
| two counters | a share | a share |
| a histogram | times, or numbers | the same |
| a gauge, a query | times, or numbers | the share of readings beyond the limit |

Prometheus has no units. By convention a series names its unit at its end, `_seconds`. A user who writes a limit as a
time (`300ms`) says that the series has times, whatever its name is; without a unit in its name, these are seconds.
"""

from enum import StrEnum
from typing import Final

from kohort.rollouts.analysis.series_selectors import HistogramSeries, MetricSeries, QuerySeries, ShareSeries

_MEASURED_DIGITS: Final = 3
_EXACT_DIGITS: Final = 6


class Unit(StrEnum):
    NONE = ""
    SECONDS = "s"
    MILLISECONDS = "ms"
    SHARE = "%"
    """Of requests; a number between 0 and 1."""
    SHARE_OF_READINGS = "% of readings"
    """Those beyond the limit; a number between 0 and 1."""


_BY_NAME: Final = {"_seconds": Unit.SECONDS, "_milliseconds": Unit.MILLISECONDS, "_ms": Unit.MILLISECONDS}


def unit_of_series(series: MetricSeries, *, limited_by_time: bool) -> Unit:
    """`limited_by_time`: the user has written a limit as a time."""
    if isinstance(series, ShareSeries):
        return Unit.SHARE
    name = "" if isinstance(series, QuerySeries) else series.selector.name
    by_name = next((unit for end, unit in _BY_NAME.items() if name.endswith(end)), Unit.NONE)
    return by_name or (Unit.SECONDS if limited_by_time else Unit.NONE)


def unit_of_value(series: MetricSeries, unit: Unit) -> Unit:
    """Of what a step is said to have: `unit` is that of the series."""
    return unit if isinstance(series, HistogramSeries | ShareSeries) else Unit.SHARE_OF_READINGS


def measured(number: float, unit: Unit) -> str:
    """A number that was measured or estimated.

    >>> [measured(one, Unit.SECONDS) for one in (1.8512, 0.32, 0.00004, 151.9)]
    ['1.85 s', '320 ms', '0.04 ms', '152 s']
    >>> measured(1850.4, Unit.MILLISECONDS), measured(0.0123456, Unit.SHARE), measured(3.14159, Unit.NONE)
    ('1.85 s', '1.23 %', '3.14')
    """
    return _text(number, unit, _MEASURED_DIGITS)


def exact(number: float, unit: Unit) -> str:
    """A number that a user has chosen, as a limit is.

    >>> exact(2, Unit.SECONDS), exact(0.0125, Unit.SECONDS), exact(1.0625, Unit.SECONDS), exact(32, Unit.NONE)
    ('2 s', '12.5 ms', '1.0625 s', '32')
    """
    return _text(number, unit, _EXACT_DIGITS)


def percent(share: float) -> str:
    """
    >>> percent(0.05), percent(0.123456)
    ('5 %', '12.3 %')
    """
    return measured(share, Unit.SHARE)


def _text(number: float, unit: Unit, digits: int) -> str:
    match unit:
        case Unit.SECONDS:
            return _time(number, digits)
        case Unit.MILLISECONDS:
            return _time(number / 1000, digits)
        case Unit.SHARE | Unit.SHARE_OF_READINGS:
            return f"{_rounded(100 * number, digits)} {unit}"
        case Unit.NONE:
            return _rounded(number, digits)


def _time(seconds: float, digits: int) -> str:
    in_seconds = abs(seconds) >= 1 or float(_rounded(abs(seconds), digits)) == 1
    return f"{_rounded(seconds, digits)} s" if in_seconds else f"{_rounded(1000 * seconds, digits)} ms"


def _rounded(number: float, digits: int) -> str:
    """
    >>> _rounded(0.123456, 3), _rounded(12345.678, 3), _rounded(1e12, 3)
    ('0.123', '12346', '1e+12')
    """
    large = 10 ** (digits - 1) <= abs(number) < 1e9
    return f"{number:.0f}" if large else f"{number:.{digits}g}"
