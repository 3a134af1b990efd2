"""The reasons are those of the documentation of Kubernetes (pod disruption conditions)."""

import pytest
from tests.builders import pod

from kohort.objects.json_types import Json
from kohort.objects.pods import Pod
from kohort.rules.pod_disruption import disruption_reason, is_disrupted_by_control_plane


def disrupted(reason: str, *, type: str = "DisruptionTarget", status: str = "True") -> Pod:
    condition: Json = {"type": type, "status": status, "reason": reason}
    return pod("llm-0").but("status.conditions", [condition]).as_view(Pod)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("EvictionByEvictionAPI", True),
        ("DeletionByTaintManager", True),
        ("DeletionByPodGC", True),
        ("PreemptionByScheduler", True),
        ("PreemptionByKubeScheduler", True),
        ("TerminationByKubelet", False),
        ("", False),
        ("SomethingElse", False),
    ],
)
def test_only_disruptions_by_the_control_plane_leave_a_pod_without_blame(reason: str, expected: bool) -> None:
    assert disruption_reason(disrupted(reason)) == reason
    assert is_disrupted_by_control_plane(disrupted(reason)) is expected


@pytest.mark.parametrize(
    "calm",
    [
        pod("llm-0").as_view(Pod),
        disrupted("EvictionByEvictionAPI", status="False"),
        disrupted("EvictionByEvictionAPI", status="Unknown"),
        disrupted("EvictionByEvictionAPI", type="Ready"),
    ],
)
def test_a_pod_without_a_true_condition_is_not_disrupted(calm: Pod) -> None:
    assert disruption_reason(calm) == ""
    assert not is_disrupted_by_control_plane(calm)
