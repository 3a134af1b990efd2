"""Metrics of releases, for dashboards and alerts. Each Rollout has its series, which are removed with it."""

from typing import TYPE_CHECKING, Final

from kohort.kube.metrics import Metrics
from kohort.rollouts.messages import EventReason, ReleaseOutcome
from kohort.rollouts.release_state import State
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import rollout_labels
from kohort.rules.rollout_labels import FinalisingStep, RolloutPhase, StepState

if TYPE_CHECKING:
    from prometheus_client import Gauge

_LABELS: Final = ("namespace", "rollout", "workload_kind", "strategy")
_PHASES: Final = tuple(phase.value for phase in RolloutPhase)
_STATES: Final = tuple(state.value for state in StepState)
_ENDS: Final = tuple(step.value for step in FinalisingStep if step is not FinalisingStep.END)
_BUCKETS: Final = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400)


class RolloutMetrics:
    def __init__(self, metrics: Metrics) -> None:
        import prometheus_client as prometheus

        into = metrics.registry

        def gauge(name: str, text: str, *more: str) -> "Gauge":
            return prometheus.Gauge(name, text, [*_LABELS, *more], registry=into)

        self._phase = gauge("rollout_phase", "1 for the phase that a Rollout is in", "phase")
        self._index = gauge("rollout_step_index", "Current step, from 1")
        self._count = gauge("rollout_step_count", "Steps of the plan")
        self._state = gauge("rollout_step_state", "1 for the state that the current step is in", "state")
        self._groups = gauge("rollout_canary_groups", "Replicas of the new version", "state")
        self._weight = gauge("rollout_traffic_weight_percent", "Share of requests that goes to the new version")
        self._finalising = gauge("rollout_finalising_step", "1 for the finalising step that is being done", "step")
        self._paused = gauge("rollout_paused", "1 while spec.strategy.paused holds a release")
        self._waiting = gauge("rollout_waiting_for_approval", "1 while a step waits for a person")
        self._duration = prometheus.Histogram(
            "rollout_step_duration_seconds",
            "From the start of a step to its end",
            _LABELS,
            registry=into,
            buckets=_BUCKETS,
        )
        self._outcomes = prometheus.Counter(
            "rollout_outcomes_total", "Releases that ended, by how", [*_LABELS, "outcome"], registry=into
        )
        self._hold_lost = prometheus.Counter(
            "rollout_hold_lost_total", "Holds that had to be put back", _LABELS, registry=into
        )
        self._uncontrolled = prometheus.Counter(
            "rollout_uncontrolled_total", "Versions that were rolled out past their Rollout", _LABELS, registry=into
        )
        self._timeouts = prometheus.Counter(
            "rollout_step_timeouts_total", "Steps that took longer than allowed", _LABELS, registry=into
        )
        self._route_errors = prometheus.Counter(
            "rollout_route_errors_total", "Traffic operations that failed", ["provider"], registry=into
        )
        self._began: dict[tuple[str, ...], tuple[int, float]] = {}

    def observe(self, rollout: Rollout, state: State, desired: int, now: float) -> None:
        labels = _values(rollout)
        progress = state.progress
        for phase in _PHASES:
            self._phase.labels(*labels, phase).set(phase == state.phase)
        self._count.labels(*labels).set(len(rollout.strategy.steps))
        self._paused.labels(*labels).set(rollout.spec.strategy.paused)
        if progress is None:
            return
        self._index.labels(*labels).set(progress.current_step_index)
        running = state.phase == rollout_labels.PROGRESSING and state.reason != rollout_labels.INITIALIZING
        self._time_step(labels, progress.current_step_index, running, now)
        for one in _STATES:
            self._state.labels(*labels, one).set(one == progress.current_step_state)
        for one in _ENDS:
            self._finalising.labels(*labels, one).set(one == progress.finalising_step)
        # The canary of a release that is over is gone, whatever the last words about it were.
        there = state.phase not in (rollout_labels.HEALTHY, rollout_labels.DISABLED, rollout_labels.INITIAL)
        for name, value in (("desired", desired), ("updated", progress.replicas), ("ready", progress.ready_replicas)):
            self._groups.labels(*labels, name).set(value if there else 0)
        waiting = state.phase == rollout_labels.PROGRESSING and progress.current_step_state == rollout_labels.PAUSED
        self._waiting.labels(*labels).set(waiting)
        self._weight.labels(*labels).set(_weight(rollout, state))

    def _time_step(self, labels: tuple[str, ...], index: int, running: bool, now: float) -> None:
        began = self._began.get(labels)
        if began is not None and (not running or began[0] != index):
            self._duration.labels(*labels).observe(now - began[1])
            del self._began[labels]
        if running and labels not in self._began:
            self._began[labels] = (index, now)

    def count_outcome(self, rollout: Rollout, outcome: ReleaseOutcome) -> None:
        self._outcomes.labels(*_values(rollout), outcome).inc()

    def count_event(self, rollout: Rollout, reason: EventReason) -> None:
        """Count what is also reported by an event."""
        labels = _values(rollout)
        match reason:
            case EventReason.HOLD_LOST:
                self._hold_lost.labels(*labels).inc()
            case EventReason.RELEASE_NOT_CONTROLLED:
                self._uncontrolled.labels(*labels).inc()
            case EventReason.STEP_TIMEOUT:
                self._timeouts.labels(*labels).inc()
            case EventReason.ROUTE_FAILED:
                self._route_errors.labels(_provider(rollout)).inc()

    def forget(self, rollout: Rollout) -> None:
        labels = _values(rollout)
        self._began.pop(labels, None)
        for gauge in (self._index, self._count, self._weight, self._paused, self._waiting):
            _remove(gauge, labels)
        for gauge, names in (
            (self._phase, _PHASES),
            (self._state, _STATES),
            (self._finalising, _ENDS),
            (self._groups, ("desired", "updated", "ready")),
        ):
            for name in names:
                _remove(gauge, (*labels, name))


def _remove(gauge: "Gauge", labels: tuple[str, ...]) -> None:
    try:
        gauge.remove(*labels)
    except KeyError:
        return


def _values(rollout: Rollout) -> tuple[str, ...]:
    metadata = rollout.metadata
    return metadata.namespace, metadata.name, rollout.spec.workload_ref.kind, rollout.style


def _weight(rollout: Rollout, state: State) -> int:
    progress = state.progress
    steps = rollout.strategy.steps
    if (
        progress is None
        or state.phase != rollout_labels.PROGRESSING
        or not 1 <= progress.current_step_index <= len(steps)
    ):
        return 0
    if progress.finalising_step in (rollout_labels.RESTORE_STABLE, rollout_labels.RESUME, rollout_labels.TO_NEW):
        return 100
    if progress.current_step_state in (rollout_labels.BEFORE_UPGRADE, rollout_labels.UPGRADE, rollout_labels.ROUTING):
        steps = steps[: progress.current_step_index - 1]
        return steps[-1].traffic_step.weight or 0 if steps else 0
    return steps[progress.current_step_index - 1].traffic_step.weight or 0


def _provider(rollout: Rollout) -> str:
    for ref in rollout.strategy.traffic_routings:
        if ref.ingress is not None:
            return "ingress"
        return "gateway" if ref.gateway is not None else "custom"
    return "none"
