"""The status of an AnalysisRun: what was counted in a step, and what follows from it."""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from enum import StrEnum

from kohort.objects.view import View
from kohort.rollouts.analysis.distributions import Distribution
from kohort.rollouts.analysis.metric_judgement import Check, CheckResult, MetricVerdict
from kohort.rollouts.analysis.metric_units import Unit


class RunPhase(StrEnum):
    WARMING_UP = "WarmingUp"
    RUNNING = "Running"
    PASSED = "Passed"
    FAILED = "Failed"
    HELD = "Held"
    ENDED = "Ended"
    """Without a verdict."""


class RunReason(StrEnum):
    """Why a run is in its phase."""

    JUDGED = "Judged"
    NO_DATA = "NoData"
    INCONCLUSIVE = "Inconclusive"
    SOURCE_ERROR = "SourceError"
    CRITICAL = "Critical"
    """A critical metric failed."""
    STEP_ENDED = "StepEnded"
    OVERRIDDEN = "Overridden"
    RETRIED = "Retried"
    SUPERSEDED = "Superseded"
    ROLLED_BACK = "RolledBack"
    ROLLOUT_DISABLED = "RolloutDisabled"
    ROLLOUT_DELETED = "RolloutDeleted"
    WORKLOAD_DELETED = "WorkloadDeleted"
    ANALYSIS_REMOVED = "AnalysisRemoved"


class Window(View, frozen=True):
    """Samples of both sets in some time, as the first check of a metric counts them."""

    until: float = 0.0
    canary_bad: float = 0.0
    canary_total: float = 0.0
    stable_bad: float = 0.0
    stable_total: float = 0.0

    def __add__(self, other: "Window") -> "Window":
        return Window(
            other.until,
            self.canary_bad + other.canary_bad,
            self.canary_total + other.canary_total,
            self.stable_bad + other.stable_bad,
            self.stable_total + other.stable_total,
        )


class MetricState(View, frozen=True):
    name: str = ""
    checks: tuple[Check, ...] = ()
    baseline: Distribution = Distribution()
    canary: Distribution = Distribution()
    stable: Distribution = Distribution()
    pods: dict[str, tuple[float, float]] = {}
    """Bad and all samples of pods of the stable set."""
    canary_pods: dict[str, tuple[float, float]] = {}
    windows: tuple[Window, ...] = ()
    results: tuple[CheckResult, ...] = ()
    verdict: MetricVerdict = MetricVerdict.RUNNING
    canary_value: float = 0.0
    stable_value: float = 0.0
    unit: Unit = Unit.NONE
    """Of both values."""
    critical: bool = False
    advisory: bool = False
    message: str = ""

    @property
    def fixed(self) -> bool:
        return bool(self.checks)


class RunStatus(View, frozen=True):
    phase: RunPhase = RunPhase.WARMING_UP
    reason: str = ""
    message: str = ""
    elapsed_seconds: float = 0.0
    readings: int = 0
    consecutive_errors: int = 0
    last_error: str = ""
    metrics: tuple[MetricState, ...] = ()
    observed_generation: int = 0
    """Of the ReleaseAnalysis that the limits are from."""
    mode: str = ""
    """Of the ReleaseAnalysis, which may be gone later."""
    overridden_by: str = ""
    finished_at: str = ""

    @property
    def decided(self) -> bool:
        return self.phase in (RunPhase.PASSED, RunPhase.FAILED)
