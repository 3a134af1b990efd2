"""The slow clock of user-mode-linux, loaded into a program of this machine."""

import os
import shutil
import subprocess
import sys

import pytest
from tests.kernel.machine import CLOCK, compiled

PROGRAM = """
import time
def uptime():
    return float(open("/proc/uptime").read().split()[0])
def read():
    return uptime(), time.monotonic(), time.time(), uptime()
before = read()
while uptime() - before[-1] < 0.3:
    pass
after = read()
print(after[0] - before[-1], after[-1] - before[0], after[1] - before[1], after[2] - before[2])
"""
TICK = 0.011
"""The machine says how long it runs in hundredths of a second."""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("slowness", [1, 10])
def test_clocks_run_slower_by_the_given_factor(slowness: int) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(compiled(CLOCK)), "KERNEL_SLOWNESS": str(slowness)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True, capture_output=True, text=True)
    least, most, *measured = map(float, done.stdout.split())
    for each in measured:
        assert least - TICK <= each * slowness <= most + TICK
