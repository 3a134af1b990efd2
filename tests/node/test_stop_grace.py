"""How long a container may take to end, by the reason for which it is stopped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.node.stop_grace import (
    EVICTION_SECONDS,
    ProbeFailed,
    StopReason,
    limits_pod,
    stop_grace,
)
from kohort.objects.meta import ObjectMeta
from kohort.objects.node_pods import NodePod, NodePodSpec

SECONDS = st.none() | st.integers(0, 1000)


def pod(own: int | None = None, deletion: int | None = None) -> NodePod:
    return NodePod(
        metadata=ObjectMeta(name="a", deletion_grace_period_seconds=deletion),
        spec=NodePodSpec(termination_grace_period_seconds=own),
    )


@pytest.mark.parametrize(
    ("reason", "own", "deletion", "seconds"),
    [
        (StopReason.VANISHED, 60, 50, 0.0),
        (StopReason.ALL_RESTART, 60, None, 0.0),
        (StopReason.EVICTED, 60, None, EVICTION_SECONDS),
        (StopReason.EVICTED, 0, None, EVICTION_SECONDS),
        (StopReason.DELETED, 60, 5, 5.0),
        (StopReason.DELETED, 60, 0, 0.0),
        (StopReason.DELETED, 60, None, 60.0),
        (StopReason.DELETED, None, None, 30.0),
        (StopReason.POD_ENDS, 60, None, 60.0),
        (StopReason.POD_ENDS, None, None, 30.0),
        (StopReason.HOOK_FAILED, 0, None, 0.0),
        (StopReason.RESIZE, 60, 5, 60.0),
        (ProbeFailed(3), 60, None, 3.0),
        (ProbeFailed(0), 60, None, 0.0),
        (ProbeFailed(None), 60, None, 60.0),
        (ProbeFailed(None), None, None, 30.0),
    ],
)
def test_seconds_of_a_stop(
    reason: StopReason | ProbeFailed, own: int | None, deletion: int | None, seconds: float
) -> None:
    assert stop_grace(pod(own, deletion), reason) == seconds


@given(own=SECONDS, deletion=SECONDS, probe=SECONDS)
def test_every_reason_has_its_seconds(own: int | None, deletion: int | None, probe: int | None) -> None:
    given_seconds = {0.0, EVICTION_SECONDS, 30.0, own, deletion, probe}
    for reason in (*StopReason, ProbeFailed(probe)):
        assert stop_grace(pod(own, deletion), reason) in given_seconds


def test_only_the_end_of_a_pod_shortens_a_stop_that_has_begun() -> None:
    assert {reason for reason in StopReason if limits_pod(reason)} == {StopReason.DELETED, StopReason.VANISHED}
