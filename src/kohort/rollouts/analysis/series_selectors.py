"""Which series of a model server a metric is made of.

A metric is a histogram, a share of bad requests (two counters), or a value (a gauge). The names in `PRESETS` are those
that the servers document; a user names other series in the ReleaseAnalysis.

| preset | metrics |
|---|---|
| vllm | ttft, itl, latency, errorRate, queueDepth, running |
| sglang | ttft, itl, latency, errorRate, queueDepth, running |
| trtllm | ttft, itl, latency, queueTime |
| gateway | ttft (time to the first byte), latency, errorRate, inFlight |

vLLM counts HTTP requests by status, so its error rate is that of answers 5xx. SGLang counts aborted requests.
TensorRT-LLM counts successful requests only, so that it has no error rate.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from kohort.rollouts.analysis.metrics_text import Series
from kohort.rules import gateway_metrics

_SELECTOR: Final = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\})?\s*")
_MATCHER: Final = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*(,|$)')
_LONGEST: Final = 1024
_BUCKETS: Final = "_bucket"
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final[Mapping[str, str]] = {"\\": "\\", '"': '"', "n": "\n", "t": "\t"}
"""What follows a backslash, and what both mean. Others stay as written: `\\d` is a digit in a pattern."""


def _matches(pattern: str, text: str) -> bool:
    import re2  # large, and few analyses have patterns

    return re2.fullmatch(pattern, text) is not None


class Matcher(msgspec.Struct, frozen=True):
    label: str
    operator: str
    value: str

    def fits(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.label, "")
        match self.operator:
            case "=":
                return found == self.value
            case "!=":
                return found != self.value
            case "=~":
                return _matches(self.value, found)
            case _:
                return not _matches(self.value, found)


class Selector(msgspec.Struct, frozen=True):
    """A name and conditions on labels: `http_requests_total{status=~"5.."}`."""

    name: str
    matchers: tuple[Matcher, ...] = ()

    def fits(self, series: Series) -> bool:
        return series.name == self.name and all(matcher.fits(series.labels) for matcher in self.matchers)

    def text(self, *more: Matcher) -> str:
        """As PromQL."""
        parts = [f'{one.label}{one.operator}"{_escaped(one.value)}"' for one in (*self.matchers, *more)]
        return f"{self.name}{{{','.join(parts)}}}" if parts else self.name


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def parse_selector(text: str) -> Selector:
    """A ValueError says what is wrong.

    >>> parse_selector('requests_total{code!="500"}').matchers
    (Matcher(label='code', operator='!=', value='500'),)
    """
    matched = _SELECTOR.fullmatch(text)
    if matched is None or len(text) > _LONGEST:
        raise ValueError(f'{text[:80]!r} is not a series; write a name, or name{{label="value"}}')
    found, rest, place = [], matched.group(2) or "", 0
    while place < len(rest) and rest[place:].strip():
        part = _MATCHER.match(rest, place)
        if part is None:
            raise ValueError(f'the labels {{{rest[:80]}}} cannot be read; write {{label="value", other=~"pattern"}}')
        value = _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[0]), part.group(3))
        if part.group(2) in ("=~", "!~"):
            _check_pattern(value)
        found.append(Matcher(part.group(1), part.group(2), value))
        place = part.end()
    return Selector(matched.group(1), tuple(found))


def _check_pattern(text: str) -> None:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as problem:
        raise ValueError(f"{text!r} is not a regular expression") from problem


class HistogramSeries(msgspec.Struct, frozen=True):
    """`selector` names the histogram without `_bucket`."""

    selector: Selector

    @classmethod
    def parse(cls, text: str) -> "HistogramSeries":
        """Users may name its buckets, too.

        >>> HistogramSeries.parse('latency_bucket{model="a"}').selector.name
        'latency'
        """
        named = parse_selector(text)
        return cls(Selector(named.name.removesuffix(_BUCKETS), named.matchers))

    @property
    def buckets(self) -> tuple[Selector, ...]:
        """The series that count its buckets. A server has those of one name; the current name comes first."""
        names = (self.selector.name, OLDER_NAMES.get(self.selector.name))
        return tuple(Selector(f"{name}{_BUCKETS}", self.selector.matchers) for name in names if name is not None)


class ShareSeries(msgspec.Struct, frozen=True):
    """Requests, and which of them are good or bad: one of both is given."""

    total: Selector
    bad: Selector | None = None
    good: Selector | None = None


class ValueSeries(msgspec.Struct, frozen=True):
    selector: Selector


class QuerySeries(msgspec.Struct, frozen=True):
    """A query that a Prometheus answers with one value."""

    query: str


MetricSeries = HistogramSeries | ShareSeries | ValueSeries | QuerySeries


def series_of(metric: MetricSeries) -> tuple[Selector, ...]:
    """The series that a metric is read from, whatever the source: pods, a Prometheus or the gateway. A query of a user
    names its own."""
    match metric:
        case HistogramSeries():
            return metric.buckets
        case ShareSeries(total=total, bad=bad, good=good):
            return tuple(one for one in (total, bad, good) if one is not None)
        case ValueSeries(selector=selector):
            return (selector,)
        case QuerySeries():
            return ()


def _histogram(name: str) -> HistogramSeries:
    return HistogramSeries(Selector(name))


def _value(name: str) -> ValueSeries:
    return ValueSeries(Selector(name))


def _of_code(name: str, label: str, pattern: str) -> Selector:
    return Selector(name, (Matcher(label, "=~", pattern),))


PRESETS: Final[Mapping[str, Mapping[str, MetricSeries]]] = {
    "vllm": {
        "ttft": _histogram("vllm:time_to_first_token_seconds"),
        "itl": _histogram("vllm:inter_token_latency_seconds"),
        "latency": _histogram("vllm:e2e_request_latency_seconds"),
        "errorRate": ShareSeries(Selector("http_requests_total"), _of_code("http_requests_total", "status", "5..")),
        "queueDepth": _value("vllm:num_requests_waiting"),
        "running": _value("vllm:num_requests_running"),
    },
    "sglang": {
        "ttft": _histogram("sglang:time_to_first_token_seconds"),
        "itl": _histogram("sglang:inter_token_latency_seconds"),
        "latency": _histogram("sglang:e2e_request_latency_seconds"),
        "errorRate": ShareSeries(Selector("sglang:num_requests_total"), Selector("sglang:num_aborted_requests_total")),
        "queueDepth": _value("sglang:num_queue_reqs"),
        "running": _value("sglang:num_running_reqs"),
    },
    "trtllm": {
        "ttft": _histogram("trtllm_time_to_first_token_seconds"),
        "itl": _histogram("trtllm_time_per_output_token_seconds"),
        "latency": _histogram("trtllm_e2e_request_latency_seconds"),
        "queueTime": _histogram("trtllm_request_queue_time_seconds"),
    },
    "gateway": {
        "ttft": _histogram(gateway_metrics.FIRST_BYTE),
        "latency": _histogram(gateway_metrics.DURATION),
        "errorRate": ShareSeries(Selector(gateway_metrics.REQUESTS), _of_code(gateway_metrics.REQUESTS, "code", "5..")),
        "inFlight": _value(gateway_metrics.IN_FLIGHT),
    },
    "none": {},
}
OLDER_NAMES: Final[Mapping[str, str]] = {
    "vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds",
}
"""A server of an earlier version has the second name."""
