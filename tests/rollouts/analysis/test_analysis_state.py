"""The analysis of a step over time: never a failure without evidence, never a pass without judgement."""

import random
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rollouts.analysis.analyses import analysis_spec
from tests.rollouts.analysis.simulated_releases import counted

from kohort.objects.json_types import Json
from kohort.rollouts.analysis.analysis_rules import AnalysisPlan, parse_plan
from kohort.rollouts.analysis.analysis_state import (
    MOST_WINDOWS,
    Reading,
    StepFacts,
    advance,
)
from kohort.rollouts.analysis.analysis_types import AnalysisSpec
from kohort.rollouts.analysis.counter_samples import PodReading, PodSamples, SampleReader
from kohort.rollouts.analysis.distributions import Distribution, bad_and_good
from kohort.rollouts.analysis.metric_judgement import Limit, MetricVerdict
from kohort.rollouts.analysis.run_types import RunPhase, RunReason, RunStatus

FACTS = StepFacts(steps=3)
TTFT = {"name": "ttft", "quantile": 0.95, "maxRatio": 1.15}
ERRORS = {"name": "errorRate", "max": "5%", "critical": True}


def plan(*metrics: Json, **changes: Json) -> AnalysisPlan:
    return parse_plan(msgspec.convert(analysis_spec(metrics=list(metrics) or [TTFT], **changes), AnalysisSpec))


class World(NamedTuple):
    """Pods that answer requests."""

    rng: random.Random
    slower: float = 1.0
    errors: float = 0.0
    requests: int = 10

    def pods(self, count: int, *, new: bool) -> tuple[PodSamples, ...]:
        slower, errors = (self.slower, self.errors) if new else (1.0, 0.0)
        return tuple(self._pod(f"{'new' if new else 'old'}-{place}", slower, errors) for place in range(count))

    def _pod(self, name: str, slower: float, errors: float) -> PodSamples:
        rng = self.rng
        latencies = [slower * 0.2 * rng.lognormvariate(0, 0.5) for _ in range(self.requests)]
        bad = sum(rng.random() < errors for _ in range(self.requests))
        return PodSamples(
            name,
            {"ttft": counted(latencies), "errorRate": bad_and_good(bad, self.requests - bad)},
            {"queueDepth": 3.0},
        )

    def reading(self, seconds: float = 10.0) -> Reading:
        return Reading(seconds, self.pods(2, new=True), self.pods(4, new=False))


def watched(
    found: AnalysisPlan, world: World, readings: int = 200, facts: StepFacts = FACTS, run: RunStatus | None = None
) -> RunStatus:
    run = run or RunStatus()
    for _ in range(readings):
        run = advance(found, run, world.reading(), facts)
        if run.decided:
            return run
    return run


def test_a_slow_version_fails_and_the_message_says_why() -> None:
    run = watched(plan(), World(random.Random(1), slower=2.0))
    assert (run.phase, run.reason) == (RunPhase.FAILED, RunReason.JUDGED)
    assert run.metrics[0].canary.total <= 300
    for part in ("ttft q0.95", "stable", "x1.15", "samples", "failed", "between", "bucket boundary"):
        assert part in run.message


def test_a_version_that_is_as_fast_passes() -> None:
    run = watched(plan(TTFT, ERRORS), World(random.Random(2)))
    assert run.phase is RunPhase.PASSED
    assert all(state.verdict is MetricVerdict.PASSED for state in run.metrics)


def test_nothing_is_judged_during_the_warm_up() -> None:
    run = watched(plan(), World(random.Random(3), slower=5.0), readings=6)
    assert run.phase is RunPhase.WARMING_UP
    assert run.metrics[0].canary.total == 0
    assert run.metrics[0].baseline.total == 6 * 40


def test_a_run_that_is_stored_and_read_again_goes_on_as_if_nothing_had_happened() -> None:
    through, stored = RunStatus(), RunStatus()
    world, same = World(random.Random(4), slower=1.5), World(random.Random(4), slower=1.5)
    found = plan(TTFT, ERRORS)
    for _ in range(25):
        through = advance(found, through, world.reading(), FACTS)
        stored = advance(found, stored, same.reading(), FACTS)
        stored = msgspec.json.decode(msgspec.json.encode(stored), type=RunStatus)
    assert stored == through


def test_a_source_that_does_not_answer_holds_and_never_fails() -> None:
    found, run = plan(), RunStatus()
    for place in range(500):
        run = advance(found, run, Reading(10.0, error="503"), FACTS)
        assert run.phase is (RunPhase.WARMING_UP if place < 5 else RunPhase.HELD)
    assert run.reason == RunReason.SOURCE_ERROR
    assert "503" in run.message
    assert watched(found, World(random.Random(5)), run=run).phase is RunPhase.PASSED


def test_a_source_that_does_not_answer_passes_where_the_user_says_so() -> None:
    found, run = plan(onError={"after": 2, "then": "Pass"}), RunStatus()
    for _ in range(2):
        run = advance(found, run, Reading(10.0, error="503"), FACTS)
    assert (run.phase, run.reason) == (RunPhase.PASSED, RunReason.SOURCE_ERROR)


@pytest.mark.parametrize(
    ("policy", "phase"), [("Hold", RunPhase.HELD), ("Pass", RunPhase.PASSED), ("Fail", RunPhase.FAILED)]
)
def test_without_data_the_policy_decides_at_the_deadline(policy: str, phase: RunPhase) -> None:
    run = watched(plan(onNoData=policy), World(random.Random(6), requests=0), readings=119)
    assert run.phase is RunPhase.RUNNING
    run = watched(plan(onNoData=policy), World(random.Random(6), requests=0), readings=1, run=run)
    assert (run.phase, run.reason) == (phase, RunReason.NO_DATA)


def test_a_held_run_passes_later_when_the_samples_come() -> None:
    held = watched(plan(), World(random.Random(7), requests=0), readings=130)
    assert held.phase is RunPhase.HELD
    assert watched(plan(), World(random.Random(7)), run=held).phase is RunPhase.PASSED


@pytest.mark.parametrize("seconds", [-3600.0, 10_000_000.0])
def test_a_clock_that_jumps_lets_no_deadline_pass(seconds: float) -> None:
    found = plan(onNoData="Fail", onInconclusive="Fail")
    run = advance(found, RunStatus(), World(random.Random(8), requests=0).reading(seconds), FACTS)
    assert 0 <= run.elapsed_seconds <= 30
    assert run.phase is RunPhase.WARMING_UP


def test_a_critical_metric_fails_after_the_step_has_passed_and_another_one_does_not() -> None:
    found = plan(TTFT, ERRORS)
    passed = watched(found, World(random.Random(9)))
    slow = passed
    for _ in range(60):
        slow = advance(found, slow, World(random.Random(10), slower=4.0).reading(), FACTS)
    assert slow.phase is RunPhase.PASSED
    broken = passed
    for _ in range(60):
        broken = advance(found, broken, World(random.Random(11), errors=0.5).reading(), FACTS)
    assert (broken.phase, broken.reason) == (RunPhase.FAILED, RunReason.CRITICAL)


def test_an_advisory_metric_is_only_reported() -> None:
    run = watched(plan(TTFT, {**ERRORS, "critical": False, "advisory": True}), World(random.Random(12), errors=0.9))
    assert run.phase is RunPhase.PASSED
    assert run.metrics[1].verdict is MetricVerdict.FAILED


def test_a_step_that_routes_by_matches_has_absolute_limits_only() -> None:
    found = plan({**TTFT, "max": "1s"}, {"name": "itl", "quantile": 0.9, "maxRatio": 1.1})
    alone = StepFacts(3, compares=False)
    assert watched(found, World(random.Random(13), slower=1.4), facts=alone).phase is not RunPhase.FAILED
    failed = watched(found, World(random.Random(14), slower=5.0), facts=alone)
    assert failed.phase is RunPhase.FAILED
    assert failed.metrics[1].verdict is MetricVerdict.PASSED
    assert "gets other requests, or none" in failed.metrics[1].message


def test_values_are_judged_by_their_readings() -> None:
    found = plan({"name": "queueDepth", "max": 2})
    assert watched(found, World(random.Random(15))).phase is RunPhase.FAILED
    assert watched(plan({"name": "queueDepth", "max": 3}), World(random.Random(15))).phase is RunPhase.PASSED


def test_the_limit_comes_from_the_life_of_the_pods_where_the_warm_up_brought_too_little() -> None:
    found = plan(warmup="0s")
    history = (PodReading("old-0", "1", {"ttft": counted([0.2] * 90 + [0.4] * 10)}),)
    run = advance(found, RunStatus(), Reading(10.0, history=history), FACTS)
    assert run.metrics[0].fixed
    assert run.metrics[0].baseline.total == 100


def test_windows_are_joined_and_nothing_is_lost() -> None:
    found, run, world = plan(TTFT), RunStatus(), World(random.Random(16))
    for _ in range(MOST_WINDOWS * 5):
        run = advance(found, run, world.reading(), FACTS)
        assert len(run.metrics[0].windows) <= MOST_WINDOWS
    state = run.metrics[0]
    assert sum(window.canary_total for window in state.windows) == state.canary.total
    assert len(msgspec.json.encode(run)) < 30_000


events = st.lists(
    st.tuples(
        st.sampled_from(["requests", "restart", "missing", "error", "operator restart", "jump"]), st.integers(0, 3)
    ),
    min_size=20,
    max_size=120,
)


@settings(max_examples=60, deadline=None)
@given(events, st.integers(0, 10_000))
def test_whatever_happens_two_equal_versions_do_not_fail(story: list[tuple[str, int]], seed: int) -> None:
    """Restarts, resets, missing metrics, sources that answer 500, operators that start anew, clocks that jump."""
    rng = random.Random(seed)
    found = plan(TTFT, ERRORS, confidence=0.9999)
    reader, run = SampleReader(), RunStatus()
    counters = {f"{kind}-{place}": Distribution() for kind in ("new", "old") for place in range(3)}
    for event, which in story:
        for name in counters:
            counters[name] += counted([0.2 * rng.lognormvariate(0, 0.5) for _ in range(rng.randrange(12))])
        seconds = 10.0
        if event == "restart":
            counters[f"{'new' if which % 2 else 'old'}-{which % 3}"] = counted([])
        if event == "operator restart":
            reader = SampleReader()
            run = msgspec.json.decode(msgspec.json.encode(run), type=RunStatus)
        if event == "jump":
            seconds = rng.choice([-1e6, 1e6])
        if event == "error":
            run = advance(found, run, Reading(seconds, error="500"), FACTS)
            continue
        readings = [
            PodReading(name, "1", {} if event == "missing" and name.endswith(str(which)) else {"ttft": found_so_far})
            for name, found_so_far in counters.items()
        ]
        taken = reader.samples(readings, counters.keys(), run.elapsed_seconds, 60.0)
        canary = tuple(one for one in taken if one.pod.startswith("new"))
        stable = tuple(one for one in taken if one.pod.startswith("old"))
        run = advance(found, run, Reading(seconds, canary, stable), FACTS)
        assert run.phase is not RunPhase.FAILED
        if run.phase is RunPhase.PASSED:
            assert all(state.verdict is MetricVerdict.PASSED for state in run.metrics)
            assert all(state.canary.total >= 200 for state in run.metrics)


def test_a_second_limit_changes_nothing_about_what_a_comparison_counts() -> None:
    """Charts, and how unlike pods are, come from the comparison: above a limit that is far away there is nothing."""
    alone = watched(plan(TTFT, ERRORS), World(random.Random(7), slower=1.1), readings=60)
    limited = watched(plan({**TTFT, "max": "80s"}, ERRORS), World(random.Random(7), slower=1.1), readings=60)
    before, after = alone.metrics[0], limited.metrics[0]
    assert {check.limit for check in after.checks} == {Limit.MAX, Limit.MAX_RATIO}
    assert before.windows and after.windows == before.windows
    assert (after.pods, after.canary_pods) == (before.pods, before.canary_pods)
    assert sum(bad for bad, _ in after.canary_pods.values()) > 0


@pytest.mark.parametrize(("compares", "limits"), [(True, {Limit.MAX, Limit.MAX_DELTA}), (False, {Limit.MAX})])
def test_a_share_is_compared_only_where_both_versions_get_the_same_requests(compares: bool, limits: set[Limit]) -> None:
    errors = {"name": "errorRate", "max": "50%", "maxDelta": "0.5%"}
    facts = StepFacts(3, compares=compares)
    run = watched(plan(errors), World(random.Random(8), errors=0.2), readings=20, facts=facts)
    assert {check.limit for check in run.metrics[0].checks} == limits
    assert (run.phase is RunPhase.FAILED) is compares


def unlike(world: World, new: tuple[float, ...], old: tuple[float, ...], *, mixed: bool) -> Reading:
    """Pods of two speeds; `mixed` gives every pod as many requests of each speed, so that the sums are the same."""

    def pods(kind: str, speeds: tuple[float, ...]) -> tuple[PodSamples, ...]:
        found = [counted([speed * 0.2 * world.rng.lognormvariate(0, 0.5) for _ in range(40)]) for speed in speeds]
        if mixed:
            whole = sum(found, counted([]))
            found = [Distribution(whole.bounds, tuple(one / len(speeds) for one in whole.counts))] * len(speeds)
        return tuple(PodSamples(f"{kind}-{place}", {"ttft": one}, {}) for place, one in enumerate(found))

    return Reading(10.0, pods("new", new), pods("old", old))


@pytest.mark.parametrize("limits", [{}, {"max": "2s"}], ids=["compared", "compared and limited"])
def test_evidence_counts_for_less_where_pods_differ(limits: Json) -> None:
    widths = []
    for mixed in (True, False):
        world, run = World(random.Random(9)), RunStatus()
        for _ in range(30):
            reading = unlike(world, (1.0, 2.0), (1.0, 2.0, 1.0, 2.0), mixed=mixed)
            run = advance(plan({**TTFT, **limits}), run, reading, FACTS)
        result = next(one for one in run.metrics[0].results if one.limit is Limit.MAX_RATIO)
        widths.append(result.upper - result.lower)
    assert widths[1] > 1.5 * widths[0]


def test_a_source_that_does_not_answer_takes_no_verdict_back() -> None:
    found = plan(TTFT, ERRORS)
    passed = watched(found, World(random.Random(10)))
    run = passed
    for _ in range(50):
        run = advance(found, run, Reading(10.0, error="503"), FACTS)
    assert (run.phase, run.message, run.last_error) == (RunPhase.PASSED, passed.message, "503")


@pytest.mark.parametrize(("canary", "stable"), [(100_000, 1), (1, 100_000)])
def test_no_step_passes_before_it_has_the_samples_that_were_asked_for(canary: int, stable: int) -> None:
    found = plan(minSamples={"canary": canary, "stable": stable})
    run = watched(found, World(random.Random(11), requests=100), readings=60)
    assert (run.phase, run.metrics[0].verdict) == (RunPhase.RUNNING, MetricVerdict.NO_DATA)
    assert all(result.verdict is MetricVerdict.PASSED for result in run.metrics[0].results)


def test_of_two_policies_the_stricter_one_decides_at_the_deadline() -> None:
    """ttft has no samples, the share of errors is not sure."""
    errors = {"name": "errorRate", "max": "5%"}
    found = plan(TTFT, errors, onNoData="Pass", onInconclusive="Fail", deadline="100s", minSamples={"canary": 1})
    run = RunStatus()
    for _ in range(10):
        few = (PodSamples("new-0", {"errorRate": bad_and_good(0, 1)}, {}),)
        run = advance(found, run, Reading(10.0, few), FACTS)
    assert run.phase is RunPhase.FAILED


def test_what_an_advisory_metric_has_found_stays_reported() -> None:
    errors = {**ERRORS, "critical": False, "advisory": True}
    found = plan(TTFT, errors, minSamples={"canary": 100_000})
    run = watched(found, World(random.Random(12), errors=0.9), readings=20)
    assert run.metrics[1].verdict is MetricVerdict.FAILED
    run = watched(found, World(random.Random(12), requests=1000), readings=10, run=run)
    assert run.metrics[1].canary.above(0).share < 0.05
    assert run.metrics[1].verdict is MetricVerdict.FAILED


@pytest.mark.parametrize(
    ("metric", "phase"),
    [
        ({"name": "queueDepth", "min": 4}, RunPhase.FAILED),
        ({"name": "queueDepth", "min": 3}, RunPhase.PASSED),
        ({"name": "errorRate", "min": "99%"}, RunPhase.FAILED),
        ({"name": "errorRate", "min": "80%"}, RunPhase.PASSED),
    ],
)
def test_a_value_and_a_share_can_be_too_small(metric: Json, phase: RunPhase) -> None:
    """Pods have 3 requests in their queues, and answer a twentieth of them with an error. The least share is that of
    good answers."""
    assert watched(plan(metric), World(random.Random(17), errors=0.05)).phase is phase


OTHER = (0.05, 0.2, 0.8)


@pytest.mark.parametrize(("slower", "phase"), [(1.0, RunPhase.PASSED), (9.0, RunPhase.FAILED)])
def test_a_limit_needs_no_stable_pod(slower: float, phase: RunPhase) -> None:
    """The last step in partition style: no pod of the old version is left."""
    found, run, world = plan({**TTFT, "max": "1s"}), RunStatus(), World(random.Random(18), slower=slower)
    for _ in range(60):
        run = advance(found, run, Reading(10.0, world.pods(4, new=True)), StepFacts(3, compares=False))
    assert run.phase is phase


def test_before_the_first_request_of_the_new_version_nothing_is_judged() -> None:
    run = RunStatus()
    for _ in range(10):
        run = advance(plan({**TTFT, "max": "1s"}), run, Reading(10.0), StepFacts(3, compares=False))
    assert (run.phase, run.metrics[0].verdict) == (RunPhase.RUNNING, MetricVerdict.NO_DATA)
    assert "no samples of the new version yet" in run.message


def with_other_buckets(pods: tuple[PodSamples, ...]) -> tuple[PodSamples, ...]:
    """A version that counts the same latencies, about 0.2 s, in other buckets."""
    counts = Distribution(OTHER, (0.0, 5.0, 5.0, 0.0))
    return tuple(msgspec.structs.replace(one, counted={**one.counted, "ttft": counts}) for one in pods)


def test_versions_whose_histograms_differ_are_not_compared() -> None:
    """The same number of a bucket means other latencies in each."""
    found, run, world = plan(), RunStatus(), World(random.Random(19))
    for _ in range(40):
        reading = world.reading()
        run = advance(found, run, msgspec.structs.replace(reading, canary=with_other_buckets(reading.canary)), FACTS)
    assert (run.phase, run.reason) == (RunPhase.HELD, RunReason.SOURCE_ERROR)
    assert "different bucket boundaries" in run.message


@pytest.mark.parametrize(("limit", "phase"), [("0.8s", RunPhase.PASSED), ("0.05s", RunPhase.FAILED)])
def test_an_absolute_limit_is_judged_by_the_buckets_of_the_new_version(limit: str, phase: RunPhase) -> None:
    found, run, world = plan({"name": "ttft", "quantile": 0.95, "max": limit}), RunStatus(), World(random.Random(20))
    for _ in range(60):
        reading = world.reading()
        run = advance(found, run, msgspec.structs.replace(reading, canary=with_other_buckets(reading.canary)), FACTS)
    assert run.phase is phase
