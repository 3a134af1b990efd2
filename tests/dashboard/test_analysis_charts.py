"""What the page of a release shows of an analysis."""

import pytest

from kohort.dashboard.analysis_charts import StepAnalysis
from kohort.rollouts.analysis.run_types import RunPhase, RunReason


@pytest.mark.parametrize(
    ("phase", "reason", "repeats"),
    [
        (RunPhase.WARMING_UP, "", False),
        (RunPhase.RUNNING, RunReason.JUDGED, True),
        (RunPhase.FAILED, RunReason.JUDGED, True),
        (RunPhase.FAILED, RunReason.CRITICAL, True),
        (RunPhase.HELD, RunReason.NO_DATA, True),
        (RunPhase.PASSED, RunReason.INCONCLUSIVE, True),
        (RunPhase.PASSED, RunReason.JUDGED, True),
        (RunPhase.HELD, RunReason.SOURCE_ERROR, False),
    ],
)
def test_a_message_that_is_made_of_those_of_metrics_is_shown_once(phase: str, reason: str, repeats: bool) -> None:
    found = StepAnalysis(1, phase, reason, "text", "", 0.0, 0, "", ())
    assert found.repeats_metrics is repeats
