"""What a ReleaseAnalysis may ask for, and what is said of one that cannot be used."""

import msgspec
import pytest
from tests.rollouts.analysis.analyses import analysis_spec

from kohort.objects.json_types import Json
from kohort.rollouts.analysis.analysis_rules import InvalidAnalysis, Mode, parse_plan
from kohort.rollouts.analysis.analysis_types import AnalysisSpec
from kohort.rollouts.analysis.metric_judgement import Limit


def parsed(**changes: Json) -> object:
    return parse_plan(msgspec.convert(analysis_spec(**changes), AnalysisSpec))


def test_the_example_of_the_documentation_can_be_used() -> None:
    plan = parse_plan(msgspec.convert(analysis_spec(), AnalysisSpec))
    assert plan.mode is Mode.ENFORCE
    assert (plan.warmup, plan.interval, plan.deadline) == (60, 10, 1200)
    assert plan.metrics[0].limits == {Limit.MAX: 2.0, Limit.MAX_RATIO: 1.15}
    assert plan.metrics[2].limits == {Limit.MAX: 0.02, Limit.MAX_DELTA: 0.005}
    assert plan.error_per_limit(3) == pytest.approx(0.01 / 3 / 5)


TTFT = {"name": "ttft", "quantile": 0.95, "maxRatio": 1.15}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mode": "Maybe"}, "spec.mode: 'Maybe' is not one of DryRun, Gate, Enforce"),
        ({"warmup": "soon"}, "spec.warmup: invalid duration 'soon'; write it like 15s, 1m30s or 250ms"),
        ({"interval": "10ms"}, "spec.interval: 10ms is not between 1 s and 3600 s"),
        ({"deadline": "65s"}, "spec.deadline: 65s leaves no time after warmup 60s and one interval 10s"),
        ({"confidence": 1.0}, "spec.confidence: 1 is not between 0.5 and 1 (1 excluded); 0.99 is usual"),
        ({"steps": {"from": 0}}, "spec.steps.from: 0 is not a step; steps count from 1"),
        ({"minSamples": {"canary": 0}}, "spec.minSamples: canary and stable must be at least 1"),
        ({"onError": {"then": "Fail"}}, "a source that does not answer is not evidence"),
        ({"onNoData": "Retry"}, "spec.onNoData: 'Retry' is not one of Hold, Pass, Fail"),
        ({"source": {}}, "spec.source: exactly one of scrape, prometheus and gateway is needed, found none"),
        ({"source": {"gateway": {}, "scrape": {"port": 1}}}, "found scrape and gateway"),
        ({"source": {"scrape": {"port": 0}}}, "spec.source.scrape.port: 0 is not a port"),
        ({"source": {"scrape": {"port": 1, "preset": "gpt"}}}, "'gpt' is not one of vllm, sglang, trtllm, none"),
        ({"source": {"scrape": {"port": 1, "path": "metrics"}}}, "must begin with /"),
        ({"source": {"prometheus": {"address": "prom:9090"}}}, "spec.source.prometheus.address: 'prom:9090'"),
        ({"source": {"prometheus": {"address": "http://a:b@c/"}}}, "name a Secret instead"),
        ({"metrics": []}, "spec.metrics: 1 to 20 metrics are needed, found 0"),
        ({"metrics": [TTFT, TTFT]}, "spec.metrics[1].name: ttft is there twice"),
        ({"metrics": [{**TTFT, "advisory": True}]}, "all of them are advisory"),
        ({"metrics": [{**TTFT, "advisory": True, "critical": True}]}, "exclude each other"),
        ({"metrics": [{"name": "ttft", "maxRatio": 1.1}]}, "(ttft): quantile is needed"),
        ({"metrics": [{"name": "ttft", "quantile": 0.9}]}, "it has no limit; give it max or maxRatio"),
        ({"metrics": [{**TTFT, "maxDelta": "1%"}]}, "maxDelta is not for a histogram"),
        ({"metrics": [{**TTFT, "maxRatio": 0.5}]}, "maxRatio 0.5 is not between 1 and 100"),
        ({"metrics": [{"name": "errorRate", "max": "200%"}]}, "200% is not between 0 and 1"),
        ({"metrics": [{"name": "errorRate", "max": 0}]}, "a limit of 0 could never be proved"),
        ({"metrics": [{"name": "errorRate", "max": "few"}]}, "'few' is not a share; write 2% or 0.02"),
        ({"metrics": [{"name": "speed", "max": 1}]}, "preset vllm has ttft, itl, latency, errorRate"),
        ({"metrics": [{"name": "mine", "gauge": "g", "max": "inf"}]}, "inf is not a number"),
        ({"metrics": [{"name": "mine", "gauge": "g", "histogram": "h", "max": 1}]}, "histogram and gauge exclude"),
        ({"metrics": [{"name": "mine", "counters": {"total": "t"}, "max": "1%"}]}, "counters needs total, and one of"),
        ({"metrics": [{"name": "mine", "query": "up", "max": 1}]}, "query needs source.prometheus"),
        ({"notify": [{"url": "ftp://x", "on": ["failed"]}]}, "spec.notify[0].url: 'ftp://x' is not an address"),
        ({"notify": [{"url": "http://x", "on": ["sometimes"]}]}, "spec.notify[0].on"),
    ],
)
def test_what_is_wrong_is_said_with_its_field(changes: dict[str, Json], text: str) -> None:
    with pytest.raises(InvalidAnalysis) as problem:
        parsed(**changes)
    assert text in str(problem.value)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidAnalysis) as problem:
        parsed(mode="x", warmup="y", metrics=[])
    assert str(problem.value).count("spec.") >= 3


def test_a_query_must_select_the_pods() -> None:
    source = {"prometheus": {"address": "http://prometheus:9090"}}
    with pytest.raises(InvalidAnalysis, match="must select the pods"):
        parsed(source=source, metrics=[{"name": "q", "query": "up", "max": 1}])
    parsed(source=source, metrics=[{"name": "q", "query": 'up{pod=~"{{pods}}"}', "max": 1}])
