"""A pure cgroup v2 kernel for whoever needs one: user-mode-linux on the files of this machine."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from kohort.node.cgroups import find_parent

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "linux.uml"
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
{command}
echo o > /proc/sysrq-trigger
halt -f
"""


def missing() -> str:
    """What keeps the kernel tier from running here, empty if nothing does."""
    if os.geteuid() != 0:
        return "the kernel tier needs root"
    if find_parent() is None and shutil.which(PROGRAM) is None:
        return "the kernel tier needs a writable cgroup v2 or user-mode-linux: apt-get install user-mode-linux"
    return ""


def in_user_mode_linux(words: Sequence[str], seconds: float) -> str:
    """Run a Python program in it; everything that the console has shown. It ends after `seconds` at the latest."""
    script = Path(tempfile.mkdtemp(), "start.sh")
    command = " ".join((sys.executable, *words))
    script.write_text(START.format(root=ROOT, path=os.environ["PATH"], command=command))
    script.chmod(0o755)
    kernel = [PROGRAM, "mem=1G", "rootfstype=hostfs", "rw", f"init={script}", "con=null", "con0=fd:0,fd:1"]
    machine = subprocess.Popen(kernel, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    timer = threading.Timer(seconds, machine.kill)
    timer.start()
    try:
        assert machine.stdout is not None
        return machine.stdout.read().decode(errors="replace")  # its standard input must stay open: it is the console
    finally:
        timer.cancel()
        machine.kill()
        machine.wait()
        shutil.rmtree(script.parent)
