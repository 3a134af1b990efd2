"""Samples of pods: differences of counters, whatever happens to the processes that count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rollouts.analysis.counter_samples import PodReading, SampleReader, histogram, names_of, reading
from kohort.rollouts.analysis.distributions import Distribution, bad_and_good
from kohort.rollouts.analysis.metrics_text import Series, parse
from kohort.rollouts.analysis.series_selectors import (
    PRESETS,
    HistogramSeries,
    MetricSeries,
    Selector,
    ShareSeries,
    ValueSeries,
    parse_selector,
)

BOUNDS = (0.1, 0.5)


def pod(*counts: float, name: str = "a", uid: str = "1") -> PodReading:
    return PodReading(name, uid, {"ttft": Distribution(BOUNDS, counts)} if counts else {})


def samples(reader: SampleReader, *readings: PodReading, elapsed: float = 0.0) -> list[tuple[float, ...]]:
    names = {"a", "b"}
    found = reader.samples(readings, names, elapsed, 60.0)
    return [one.counted["ttft"].counts if "ttft" in one.counted else () for one in found]


def test_the_first_reading_is_where_counting_begins() -> None:
    reader = SampleReader()
    assert samples(reader, pod(100, 50, 3)) == [()]
    assert samples(reader, pod(110, 51, 3)) == [(10, 1, 0)]
    assert samples(reader, pod(110, 51, 3)) == [(0, 0, 0)]


def test_a_process_that_started_anew_does_not_count_until_it_is_warm() -> None:
    reader = SampleReader()
    samples(reader, pod(100, 50, 3))
    assert samples(reader, pod(2, 1, 0), elapsed=10) == [()]
    assert samples(reader, pod(9, 9, 9), elapsed=60) == [()]
    assert samples(reader, pod(12, 9, 9), elapsed=71) == [(3, 0, 0)]


def test_a_reset_is_seen_even_where_the_total_has_grown() -> None:
    reader = SampleReader()
    samples(reader, pod(10, 5, 3))
    assert samples(reader, pod(100, 4, 3), elapsed=10) == [()]


def test_a_pod_of_the_same_name_is_another_one_by_its_uid() -> None:
    reader = SampleReader()
    samples(reader, pod(10, 0, 0))
    assert samples(reader, pod(50, 0, 0, uid="2"), elapsed=10) == [()]


def test_a_reading_that_failed_makes_the_next_window_longer() -> None:
    reader = SampleReader()
    samples(reader, pod(10, 0, 0), pod(10, 0, 0, name="b"))
    assert samples(reader, pod(11, 0, 0)) == [(1, 0, 0)]
    assert samples(reader, pod(12, 0, 0), pod(15, 0, 0, name="b")) == [(1, 0, 0), (5, 0, 0)]


def test_other_buckets_begin_anew() -> None:
    reader = SampleReader()
    samples(reader, pod(10, 0, 0))
    other = PodReading("a", "1", {"ttft": Distribution((0.2,), (20, 0))})
    assert samples(reader, other, elapsed=5) == [()]


def test_a_metric_that_was_missing_begins_anew() -> None:
    reader = SampleReader()
    samples(reader, pod(10, 0, 0))
    assert samples(reader, pod()) == [()]
    assert samples(reader, pod(90, 0, 0)) == [()]
    assert samples(reader, pod(91, 0, 0)) == [(1, 0, 0)]


def test_good_requests_that_seem_fewer_for_a_moment_are_no_restart() -> None:
    reader = SampleReader()

    def read(bad: float, good: float) -> Distribution | None:
        readings = [PodReading("a", "1", {"errors": bad_and_good(bad, good)})]
        return reader.samples(readings, {"a"}, 0.0, 60.0)[0].counted.get("errors")

    read(0, 100)
    assert read(1, 99) == bad_and_good(1, 0)


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=30))
def test_never_more_samples_than_requests(steps: list[tuple[int, bool]]) -> None:
    """Requests come in, and processes start anew at any time."""
    reader, counter, answered, counted = SampleReader(), 0.0, 0.0, 0.0
    samples(reader, pod(0, 0, 0))
    for place, (requests, restarts) in enumerate(steps):
        counter = requests if restarts else counter + requests
        answered += requests
        found = samples(reader, pod(counter, 0, 0), elapsed=10.0 * place)
        counted += sum(found[0])
    assert 0 <= counted <= answered


def series(name: str, value: float, **labels: str) -> Series:
    return Series(name, labels, value)


@pytest.mark.parametrize(
    "buckets",
    [
        {"0.1": 5.0},
        {"0.1": 5.0, "+Inf": 3.0},
        {"0.1": -1.0, "+Inf": 3.0},
        {"wide": 1.0, "+Inf": 3.0},
        {"0.1": 1.0, "+Inf": float("inf")},
    ],
)
def test_what_is_no_histogram_is_missing(buckets: dict[str, float]) -> None:
    found = [series("h_bucket", value, le=bound) for bound, value in buckets.items()]
    assert histogram(found, HistogramSeries(Selector("h"))) is None


def test_series_of_several_models_are_added() -> None:
    found = [
        series("h_bucket", value, le=bound, model=model)
        for model, value in (("a", 1.0), ("b", 2.0))
        for bound in ("0.1", "+Inf")
    ]
    assert histogram(found, HistogramSeries(Selector("h"))) == Distribution((0.1,), (3.0, 0.0))


def test_what_a_server_says_of_its_metrics() -> None:
    metrics: dict[str, MetricSeries] = {
        "ttft": HistogramSeries(Selector("t")),
        "errors": ShareSeries(Selector("r_total"), bad=parse_selector('r_total{code=~"5.."}')),
        "queue": ValueSeries(Selector("q")),
        "absent": ValueSeries(Selector("nothing")),
    }
    text = 't_bucket{le="1"} 2\nt_bucket{le="+Inf"} 3\nr_total{code="200"} 9\nr_total{code="503"} 1\nq 4\n'
    found = reading("a", "1", parse(text, names_of(metrics.values())).series, metrics)
    assert found.counters == {"ttft": Distribution((1.0,), (2.0, 1.0)), "errors": bad_and_good(1.0, 9.0)}
    assert found.values == {"queue": 4.0}


def test_an_earlier_vllm_has_another_name_for_the_time_between_tokens() -> None:
    metrics = {"itl": PRESETS["vllm"]["itl"]}
    text = 'vllm:time_per_output_token_seconds_bucket{le="1"} 2\nvllm:time_per_output_token_seconds_bucket{le="+Inf"} 3'
    found = reading("a", "1", parse(text, names_of(metrics.values())).series, metrics)
    assert found.counters["itl"] == Distribution((1.0,), (2.0, 1.0))


@pytest.mark.parametrize("text", ["", "1a", "a{", 'a{b="c"', "a{b=c}", 'a{b=~"("}', 'a{b="c" d="e"}', "a" * 2000])
def test_a_selector_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a series|cannot be read|regular expression"):
        parse_selector(text)


BAD = ShareSeries(Selector("requests_total"), bad=Selector("errors_total"))
GOOD = ShareSeries(Selector("requests_total"), good=Selector("successes_total"))


@pytest.mark.parametrize(
    ("metric", "values", "bad_and_good_ones"),
    [
        (BAD, {"requests_total": 10.0, "errors_total": 3.0}, (3, 7)),
        (BAD, {"requests_total": 10.0}, (0, 10)),
        (BAD, {"requests_total": 10.0, "errors_total": 12.0}, (10, 0)),
        (BAD, {"requests_total": 10.0, "errors_total": -1.0}, (0, 10)),
        (GOOD, {"requests_total": 10.0, "successes_total": 8.0}, (2, 8)),
        (GOOD, {"requests_total": 10.0}, (10, 0)),
        (GOOD, {"requests_total": 10.0, "successes_total": 12.0}, (0, 10)),
        (BAD, {"requests_total": 0.0}, (0, 0)),
    ],
)
def test_a_share_by_its_bad_or_by_its_good_requests(
    metric: ShareSeries, values: dict[str, float], bad_and_good_ones: tuple[float, float]
) -> None:
    """Series of errors appear with the first error; counters that are read at different moments may disagree."""
    found = reading("a", "1", [Series(name, {}, value) for name, value in values.items()], {"share": metric})
    assert found.counters == {"share": bad_and_good(*bad_and_good_ones)}


@pytest.mark.parametrize(
    "values", [{}, {"errors_total": 1.0}, {"requests_total": -1.0}, {"requests_total": float("nan")}]
)
def test_without_a_number_of_requests_there_is_no_share(values: dict[str, float]) -> None:
    assert reading("a", "1", [Series(name, {}, value) for name, value in values.items()], {"share": BAD}).counters == {}
