"""Metrics that a pod makes up: they may hold a judgement, but neither end it nor cost other releases their turn."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rollouts.analysis.analyses import analysis_spec

from kohort.rollouts.analysis.analysis_rules import AnalysisPlan, parse_plan
from kohort.rollouts.analysis.analysis_state import Reading, StepFacts, advance
from kohort.rollouts.analysis.analysis_types import AnalysisSpec
from kohort.rollouts.analysis.counter_samples import PodReading, SampleReader, names_of, reading
from kohort.rollouts.analysis.metrics_text import MAX_SERIES, parse, parse_in_turns
from kohort.rollouts.analysis.run_types import RunStatus

METRICS = [
    {"name": "ttft", "histogram": "t", "quantile": 0.9, "maxRatio": 1.1, "max": "1s"},
    {
        "name": "errors",
        "counters": {"total": "r_total", "bad": 'r_total{code=~"5.."}'},
        "max": "1%",
        "maxDelta": "0.5%",
    },
    {"name": "good", "counters": {"total": "r_total", "good": 'r_total{code="200"}'}, "min": "90%"},
    {"name": "queue", "gauge": "q", "max": 5},
]
VALUES = st.sampled_from(
    ["0", "1", "7", "100", "3.5", "1e-320", "9007199254740993", "1e200", "1.7e308", "-1", "inf", "-inf", "NaN"]
)
BOUNDS = st.sampled_from(["-1", "0", "1e-320", "0.1", "1", "2", "1e308", "-Inf", "NaN", "", "fast"])
NAMES = ("new-0", "new-1", "old-0", "old-1")


def plan() -> AnalysisPlan:
    spec = analysis_spec(source={"scrape": {"port": 8000}}, metrics=METRICS, warmup="0s")
    return parse_plan(msgspec.convert(spec, AnalysisSpec))


@st.composite
def texts(draw: st.DrawFn) -> str:
    bounds = [*draw(st.lists(BOUNDS, min_size=1, max_size=5, unique=True)), "+Inf"]
    lines = [f't_bucket{{le="{bound}"}} {draw(VALUES)}' for bound in bounds]
    lines += [f'r_total{{code="{code}"}} {draw(VALUES)}' for code in ("200", "503")]
    lines += [f'q{{engine="{engine}"}} {draw(VALUES)}' for engine in (0, 1)]
    return "\n".join(lines)


def of_pod(name: str, text: str, asked: AnalysisPlan) -> PodReading:
    metrics = {one.name: one.series for one in asked.metrics}
    return reading(name, "1", parse(text, names_of(metrics.values())).series, metrics)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(texts(), texts(), texts(), texts()), min_size=2, max_size=5))
def test_whatever_pods_say_the_state_stays_one_that_can_be_stored(rounds: list[tuple[str, str, str, str]]) -> None:
    asked, samples, status = plan(), SampleReader(), RunStatus()
    for one in rounds:
        found = [of_pod(name, text, asked) for name, text in zip(NAMES, one, strict=True)]
        counted = samples.samples(found, NAMES, status.elapsed_seconds, 0.0)
        step = Reading(30.0, tuple(counted[:2]), tuple(counted[2:]), tuple(found[2:]))
        status = advance(asked, status, step, StepFacts(steps=3))
        assert msgspec.json.decode(msgspec.json.encode(status), type=RunStatus) == status


@pytest.mark.parametrize(
    "text",
    [
        't_bucket{le="NaN"} 1\nt_bucket{le="1"} 2\nt_bucket{le="+Inf"} 3',
        't_bucket{le="-Inf"} 1\nt_bucket{le="+Inf"} 3',
        't_bucket{le="1"} 1\nt_bucket{le="+Inf"} 1e300',
        't_bucket{le="1"} 5\nt_bucket{le="+Inf"} 3',
        't_bucket{le="1"} -5\nt_bucket{le="+Inf"} 3',
        'r_total{code="200"} 1e300',
        'r_total{code="200"} 1.7e308\nr_total{code="503"} 1.7e308',
        'q{engine="0"} 1.7e308\nq{engine="1"} 1.7e308',
        'q{engine="0"} -1.7e308\nq{engine="1"} -1.7e308',
    ],
)
def test_what_no_server_can_have_counted_is_missing(text: str) -> None:
    found = of_pod("new-0", text, plan())
    assert (found.counters, found.values) == ({}, {})


async def test_a_long_text_lets_others_have_their_turns() -> None:
    text = "\n".join(f't_bucket{{le="{place}",model="a"}} 5' for place in range(30_000))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    found = await parse_in_turns(text, {"t_bucket"})
    waiting.cancel()
    assert found == parse(text, {"t_bucket"})
    assert len(found.series) == MAX_SERIES
    assert turns > 10
