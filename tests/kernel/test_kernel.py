"""The node agent on a pure cgroup v2 kernel: the machine's own if it has one, else user-mode-linux on its files."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.node.cgroups import find_parent

ROOT = Path(__file__).resolve().parents[2]
INSIDE = Path(__file__).with_name("inside.py")
CASES = (
    "inherited_limits_are_set",
    "cpu_is_throttled_at_the_limit_of_the_pod",
    "memory_ends_at_the_limit_of_the_pod",
    "resized_up_and_down_without_restart",
    "pod_level_resize_restarts_only_by_policy_and_effect",
    "writes_come_in_the_order_of_the_proposal",
    "memory_in_use_is_not_taken_away",
    "more_than_is_free_waits_until_it_is",
    "the_agent_may_die_before_any_write",
)
SECONDS = 400
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(SECONDS + 60)]

START = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir /run/tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
cd {root}
export PATH={path} PYTHONPATH={root}/src:{root} PYTHONDONTWRITEBYTECODE=1 KERNEL_TEST_DIRECTORY=/run/node
export HOME=/run TMPDIR=/run/tmp
{python} {inside}
echo o > /proc/sysrq-trigger
halt -f
"""


def natively() -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    done = subprocess.run(
        [sys.executable, str(INSIDE)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    return done.stdout + done.stderr


def in_user_mode_linux() -> str:
    script = Path(tempfile.mkdtemp(), "start.sh")
    script.write_text(START.format(root=ROOT, path=os.environ["PATH"], python=sys.executable, inside=INSIDE))
    script.chmod(0o755)
    command = ["linux.uml", "mem=1G", "rootfstype=hostfs", "rw", f"init={script}", "con=null", "con0=fd:0,fd:1"]
    machine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    timer = threading.Timer(SECONDS, machine.kill)
    timer.start()
    try:
        assert machine.stdout is not None
        return machine.stdout.read().decode(errors="replace")  # its standard input must stay open: it is the console
    finally:
        timer.cancel()
        machine.kill()
        machine.wait()
        shutil.rmtree(script.parent)


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, str]]:
    if os.geteuid() != 0:
        pytest.skip("the kernel tier needs root")
    if find_parent() is not None:
        output = natively()
    elif shutil.which("linux.uml") is not None:
        output = in_user_mode_linux()
    else:
        pytest.skip("the kernel tier needs cgroup v2 or user-mode-linux: apt-get install user-mode-linux")
    lines = [line.removeprefix("CASE ") for line in output.splitlines() if line.startswith("CASE ")]
    found = {each["name"]: each["problem"] for each in map(json.loads, lines)}
    assert found, f"nothing was tried:\n{output[-4000:]}"
    yield found


@pytest.mark.parametrize("case", CASES)
def test_on_a_real_kernel(results: dict[str, str], case: str) -> None:
    assert results.get(case, "it was not tried") == ""
