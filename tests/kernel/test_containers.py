"""Pods in containerd on a pure cgroup v2 kernel: limits, memory, resizes, in the files of the kernel itself."""

import os
from pathlib import Path

import pytest
from tests.kernel.machine import missing, results_of
from tools.container_packages import missing as missing_packages

INSIDE = Path(__file__).with_name("containers_inside.py")
CASES = (
    "limits_are_those_of_processes",
    "resized_up_and_down_without_a_restart",
    "memory_in_use_is_not_taken_away",
    "a_container_that_runs_out_of_memory_says_so",
    "resources_of_the_pod_are_resized",
    "a_container_restarts_only_if_its_policy_says_so",
    "a_resize_is_finished_when_the_runtime_returns",
    "a_resize_leaves_devices_alone",
    "whole_agents_may_be_killed_at_any_step",
)
WITH_CRIO = os.environ.get("KOHORT_TEST_RUNTIME") == "crio"
SECONDS, MEMORY = (2400, "2G") if WITH_CRIO else (900, "1G")
"""CRI-O copies whole images for each container here, and starts a conmon for each."""
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(SECONDS + 60)]


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    if reason := missing() or missing_packages():
        pytest.skip(reason)
    return results_of(INSIDE, SECONDS, MEMORY)


@pytest.mark.parametrize("case", CASES)
def test_containers_on_a_real_kernel(results: dict[str, str], case: str) -> None:
    assert results.get(case, "it was not tried") == ""
