"""Numbers of metrics have their unit, in every text that is made of them."""

import doctest
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.analysis.analyses import analysis_spec
from tests.rollouts.analysis.test_analysis_state import ERRORS, FACTS, TTFT, World, plan, watched

from kohort.inspection.analyses import HEADER, analysis_rows, table_rows
from kohort.objects.json_types import Json
from kohort.rollouts.analysis import analysis_rules, metric_units
from kohort.rollouts.analysis.analysis_messages import limit_between_buckets
from kohort.rollouts.analysis.analysis_rules import parse_plan
from kohort.rollouts.analysis.analysis_state import advance
from kohort.rollouts.analysis.analysis_types import AnalysisRun, AnalysisSpec
from kohort.rollouts.analysis.metric_judgement import Limit
from kohort.rollouts.analysis.metric_units import Unit, exact, measured

HISTOGRAM = {"name": "mine", "quantile": 0.9, "max": 3}


@pytest.mark.parametrize("module", [metric_units, analysis_rules])
def test_examples_hold(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted and not found.failed


@pytest.mark.parametrize(
    ("metric", "unit", "value_unit"),
    [
        (TTFT, Unit.SECONDS, Unit.SECONDS),
        (ERRORS, Unit.SHARE, Unit.SHARE),
        ({"name": "queueDepth", "max": 32}, Unit.NONE, Unit.SHARE_OF_READINGS),
        ({"name": "mine", "gauge": "oldest_request", "max": "3s"}, Unit.SECONDS, Unit.SHARE_OF_READINGS),
        ({**HISTOGRAM, "histogram": "tokens"}, Unit.NONE, Unit.NONE),
        ({**HISTOGRAM, "histogram": "tokens", "max": "300ms"}, Unit.SECONDS, Unit.SECONDS),
        ({**HISTOGRAM, "histogram": "step_seconds_bucket"}, Unit.SECONDS, Unit.SECONDS),
        ({**HISTOGRAM, "histogram": 'step_milliseconds{kind="a"}'}, Unit.MILLISECONDS, Unit.MILLISECONDS),
    ],
)
def test_the_unit_of_a_metric_is_that_of_its_series_or_of_its_limit(metric: Json, unit: Unit, value_unit: Unit) -> None:
    (found,) = plan(metric).metrics
    assert (found.unit, found.value_unit) == (unit, value_unit)


def test_a_time_is_turned_into_the_unit_of_the_series() -> None:
    """300ms were taken as 0.3 of a histogram that counts milliseconds."""
    (found,) = plan({**HISTOGRAM, "histogram": "step_ms", "max": "300ms"}).metrics
    assert found.limits == {Limit.MAX: 300.0}


def test_every_number_of_a_message_has_its_unit() -> None:
    found = plan({**TTFT, "max": "120ms"}, ERRORS, {"name": "queueDepth", "max": 2})
    run = watched(found, World(random.Random(1), slower=2.0))
    ttft, errors, queue = run.metrics
    assert "ms, stable" in ttft.message and "(at most 120 ms, at most x1.15 of stable)" in ttft.message
    assert "bucket boundary" in ttft.message and " ms" in ttft.message.partition("bucket boundary")[2]
    assert "errorRate: 0 % (at most 5 %)" in errors.message
    assert "queueDepth: 100 % of readings beyond the limit (at most 2)" in queue.message
    assert [one.unit for one in run.metrics] == ["s", "%", "% of readings"]
    assert ttft.message in run.message


def test_a_metric_without_samples_has_no_value() -> None:
    """An error rate of 0 % reads as if there were requests and none had failed."""
    run = watched(plan(ERRORS), World(random.Random(6), requests=0), readings=20)
    (errors,) = run.metrics
    assert "errorRate: no value (at most 5 %), 0 samples" in errors.message
    (row,) = analysis_rows([AnalysisRun(status=run)])
    assert [line[HEADER.index("NEW")] for line in table_rows(row)] == ["-"]


def test_a_limit_that_was_removed_while_a_step_is_judged_does_not_stop_the_analysis() -> None:
    both = plan({**TTFT, "max": "2s"}, minSamples={"canary": 5000, "stable": 5000})
    run = watched(both, World(random.Random(1)), readings=10)
    only = parse_plan(
        msgspec.convert(analysis_spec(metrics=[{"name": "ttft", "quantile": 0.95, "max": "2s"}]), AnalysisSpec)
    )
    assert "bucket boundary" in advance(only, run, World(random.Random(2)).reading(), FACTS).metrics[0].results[-1].note


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((1.0, 3.0), ""),
        ((1.0, 2.0), "max 3 s of mine is not a bucket boundary: it cannot fail, passes by 2 s"),
        ((4.0, 5.0), "max 3 s of mine is not a bucket boundary: it fails by 4 s, cannot pass"),
        ((0.5, 4.0), "max 3 s of mine is not a bucket boundary: it fails by 4 s, passes by 500 ms"),
    ],
)
def test_a_limit_between_two_buckets_says_what_decides(bounds: tuple[float, ...], text: str) -> None:
    (found,) = plan({**HISTOGRAM, "histogram": "step_seconds"}).metrics
    assert limit_between_buckets(found, bounds) == text


@given(st.floats(0, 1e8), st.sampled_from(Unit))
def test_a_number_in_words_is_the_number_itself(number: float, unit: Unit) -> None:
    """Rounded to three digits, or six, and never written as 1e+03 ms."""
    for text, precision in ((measured(number, unit), 6e-3), (exact(number, unit), 6e-6)):
        amount, _, shown = text.partition(" ")
        factor = {"s": 1.0, "ms": 1e-3, "%": 1e-2, "% of readings": 1e-2, "": 1.0}[shown]
        meant = number / 1000 if unit is Unit.MILLISECONDS else number
        assert float(amount) * factor == pytest.approx(meant, rel=precision, abs=1e-9)
        assert "e+" not in text or meant / factor >= 1e9
