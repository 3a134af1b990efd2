"""Quality-of-service classes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resources.figures import container, init, pod, sidecar

from kohort.objects.pods import Pod
from kohort.resources import qos_class, stored_qos_class


@pytest.mark.parametrize(
    ("given_pod", "expected"),
    [
        (pod(container(), request="100/100", limit="100/100"), "Guaranteed"),
        (pod(container("50/50", "80/80"), container(), request="100/100", limit="100/100"), "Guaranteed"),
        (pod(container("1/1", "1/1"), request="50/50", limit="100/100"), "Burstable"),
        (pod(container("1/1"), request="100/100"), "Burstable"),
        (pod(container(), request="100", limit="100"), "Burstable"),
        (pod(container("50/50", "50/50"), container("1/1", "1/1")), "Guaranteed"),
        (pod(container("50/50", "50/50"), container()), "Burstable"),
        (pod(container("50/50", "50/50"), init()), "Burstable"),
        (pod(container("50/50", "50/50"), sidecar("1/1", "1/1")), "Guaranteed"),
        (pod(container("1"), request="", limit=""), "Burstable"),
        (pod(container()), "BestEffort"),
        (pod(container("0/0", "0/0")), "BestEffort"),
        (pod(container("100", "100")), "Burstable"),
        (pod(container(limit="100/100")), "Burstable"),
        (pod(container("- nvidia.com/gpu=1", "- nvidia.com/gpu=1")), "BestEffort"),
        (pod(container(), request="- hugepages-2Mi=2Mi", limit="- hugepages-2Mi=2Mi"), "BestEffort"),
    ],
)
def test_quality_of_service(given_pod: Pod, expected: str) -> None:
    assert qos_class(given_pod.spec) == expected


def test_the_stored_class_wins_over_the_computed_one() -> None:
    assert stored_qos_class(pod(container("1/1", "2/2"), quality="Guaranteed")) == "Guaranteed"
    assert stored_qos_class(pod(container("1/1", "2/2"))) == "Burstable"


figure = st.sampled_from([None, "0/0", "10/10", "20/20", "10", "-/10"])


@given(st.lists(st.builds(container, figure, figure), min_size=1, max_size=3))
def test_a_guaranteed_pod_has_limits_everywhere_and_a_best_effort_one_nowhere(parts: list[dict[str, object]]) -> None:
    any_pod = pod(*parts)
    quality = qos_class(any_pod.spec)
    blocks = [entry.resources for entry in any_pod.spec.main_containers]
    if quality == "Guaranteed":
        assert all({"cpu", "memory"} <= block.limits.keys() for block in blocks)
    if quality == "BestEffort":
        assert all({*block.requests.values(), *block.limits.values()} <= {"0m", "0Mi"} for block in blocks)
