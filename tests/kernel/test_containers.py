"""Pods in containerd on a pure cgroup v2 kernel: limits, memory, resizes, in the files of the kernel itself."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.machine import ROOT, in_user_mode_linux, missing
from tools.container_packages import missing as missing_packages

from kohort.node.cgroups import find_parent

INSIDE = Path(__file__).with_name("containers_inside.py")
CASES = (
    "limits_are_those_of_processes",
    "resized_up_and_down_without_a_restart",
    "memory_in_use_is_not_taken_away",
    "a_container_that_runs_out_of_memory_says_so",
    "resources_of_the_pod_are_resized",
    "a_container_restarts_only_if_its_policy_says_so",
    "a_resize_is_finished_when_the_runtime_returns",
)
SECONDS = 900
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(SECONDS + 60)]


def natively() -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    done = subprocess.run(
        [sys.executable, str(INSIDE)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, str]]:
    if reason := missing() or missing_packages():
        pytest.skip(reason)
    output = natively() if find_parent() is not None else in_user_mode_linux([str(INSIDE)], SECONDS)
    lines = [line.removeprefix("CASE ") for line in output.splitlines() if line.startswith("CASE ")]
    found = {each["name"]: each["problem"] for each in map(json.loads, lines)}
    assert found, f"nothing was tried:\n{output[-4000:]}"
    yield found


@pytest.mark.parametrize("case", CASES)
def test_containers_on_a_real_kernel(results: dict[str, str], case: str) -> None:
    assert results.get(case, "it was not tried") == ""
