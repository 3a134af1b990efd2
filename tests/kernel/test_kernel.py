"""The node agent on a pure cgroup v2 kernel: the machine's own if it has one, else user-mode-linux on its files."""

from pathlib import Path

import pytest
from tests.kernel.machine import missing, results_of

INSIDE = Path(__file__).with_name("inside.py")
CASES = (
    "inherited_limits_are_set",
    "cpu_is_throttled_at_the_limit_of_the_pod",
    "containers_together_are_throttled_as_the_pod_before_and_after_a_resize",
    "containers_together_end_at_the_memory_of_the_pod",
    "a_container_that_runs_out_of_memory_ends_as_a_whole_and_does_not_swap",
    "memory_ends_at_the_limit_of_the_pod",
    "resized_up_and_down_without_restart",
    "pod_level_resize_restarts_only_by_policy_and_effect",
    "memory_in_use_goes_with_the_container_that_is_restarted",
    "writes_come_in_the_order_of_the_proposal",
    "a_first_block_of_the_pod_is_taken_up",
    "an_init_container_is_resized_while_it_runs",
    "memory_in_use_is_not_taken_away",
    "more_than_is_free_waits_until_it_is",
    "a_group_of_processes_is_resized_as_a_whole_or_not_at_all",
    "whole_agents_may_be_killed_at_any_write",
)
SECONDS = 1200
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(SECONDS + 60)]


@pytest.fixture(scope="module")
def results() -> dict[str, str]:
    if reason := missing():
        pytest.skip(reason)
    return results_of(INSIDE, SECONDS)


@pytest.mark.parametrize("case", CASES)
def test_on_a_real_kernel(results: dict[str, str], case: str) -> None:
    assert results.get(case, "it was not tried") == ""
