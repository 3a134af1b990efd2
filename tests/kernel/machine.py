"""A pure cgroup v2 kernel for tests: the machine's own if it has one, else user-mode-linux on its files."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tools.go_programs import only_builder
from tools.kubernetes.build import cache_folder

from kohort.node.cgroups import find_parent

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "linux.uml"
REGISTERS = Path(__file__).with_name("wide_registers.c")
CLOCK = Path(__file__).with_name("slow_clock.c")
START = """#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir /run/tmp
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /var/log
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
modules=/usr/lib/uml/modules/$(uname -r)/kernel
{python} {root}/tests/kernel/load_module.py $modules/drivers/net/veth.ko
{python} {root}/tests/kernel/load_module.py $modules/fs/overlayfs/overlay.ko
cd {root}
export PATH={path} PYTHONPATH={root}/src:{root} PYTHONDONTWRITEBYTECODE=1 KERNEL_TEST_DIRECTORY=/run/node
export HOME=/run TMPDIR=/run/tmp XDG_CACHE_HOME={cache} KOHORT_TEST_RUNTIME={runtime}
{command}
echo o > /proc/sysrq-trigger
halt -f
"""


def missing(*, native: bool = True) -> str:
    """What keeps the kernel tier from running here, empty if nothing does. `native` says whether the kernel of this
    machine will do."""
    if os.geteuid() != 0:
        return "the kernel tier needs root"
    if (not native or find_parent() is None) and shutil.which(PROGRAM) is None:
        return "the kernel tier needs a writable cgroup v2 or user-mode-linux: apt-get install user-mode-linux"
    if (not native or find_parent() is None) and _has_tiles() and shutil.which("cc") is None:
        return "user-mode-linux needs a C compiler on a processor with AMX: apt-get install gcc"
    return ""


def _has_tiles() -> bool:
    return "amx_tile" in Path("/proc/cpuinfo").read_text()


def _environment(slowness: int) -> dict[str, str]:
    """That of user-mode-linux. Where the processor has registers that it does not know, a library sets them; where its
    clock is to run slowly, another library sees to that."""
    libraries = [REGISTERS] * _has_tiles() + [CLOCK] * (slowness > 1)
    loaded = {"LD_PRELOAD": ":".join(str(compiled(each)) for each in libraries)} if libraries else {}
    return {**os.environ, **loaded, "KERNEL_SLOWNESS": str(slowness)}


def compiled(source: Path) -> Path:
    """The library of a file in C, in the cache folder. RuntimeError without a compiler."""
    if shutil.which("cc") is None:
        raise RuntimeError(f"{source.name} needs a C compiler: apt-get install gcc")
    library = cache_folder().parent / "user-mode-linux" / f"{source.stem}.so"
    with only_builder(library.parent):
        if not library.is_file() or library.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


def results_of(cases: Path, seconds: float, memory: str = "1G") -> dict[str, str]:
    """What went wrong in each case of a program that runs on such a kernel; empty for a case that passed."""
    if find_parent() is None:
        output = in_user_mode_linux([str(cases)], seconds, memory)
    else:
        output = natively(cases, seconds)
    lines = [line.removeprefix("CASE ") for line in output.splitlines() if line.startswith("CASE ")]
    found = {each["name"]: each["problem"] for each in map(json.loads, lines)}
    assert found, f"nothing was tried:\n{output[-4000:]}"
    return found


def natively(cases: Path, seconds: float) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    done = subprocess.run(
        [sys.executable, str(cases)], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds
    )
    return done.stdout + done.stderr


def in_user_mode_linux(
    words: Sequence[str], seconds: float, memory: str = "1G", console: Path | None = None, slowness: int = 1
) -> str:
    """Run a Python program in it; everything that the console has shown, which `console` shows meanwhile. It ends
    after `seconds` at the latest. Its clock runs slower than that of the machine by the factor `slowness`."""
    script = Path(tempfile.mkdtemp(), "start.sh")
    command, cache = shlex.join((sys.executable, *words)), cache_folder().parents[1]
    script.write_text(
        START.format(
            python=sys.executable,
            root=ROOT,
            path=os.environ["PATH"],
            cache=cache,
            runtime=os.environ.get("KOHORT_TEST_RUNTIME", ""),
            command=command,
        )
    )
    script.chmod(0o755)
    kernel = [PROGRAM, f"mem={memory}", "rootfstype=hostfs", "rw", f"init={script}", "con=null", "con0=fd:0,fd:1"]
    machine = subprocess.Popen(
        kernel,
        env=_environment(slowness),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    timer = threading.Timer(seconds, _kill, (machine.pid,))
    timer.start()
    try:
        assert machine.stdout is not None
        with (console or Path(os.devnull)).open("wb") as copy:
            return _copied(machine.stdout, copy).decode(errors="replace")  # its input must stay open: it is the console
    finally:
        timer.cancel()
        _kill(machine.pid)
        machine.wait()
        shutil.rmtree(script.parent)


def _copied(source: IO[bytes], target: IO[bytes]) -> bytes:
    """All that there is in `source`; line after line also in `target`."""
    lines = []
    for line in source:
        lines.append(line)
        target.write(line)
        target.flush()
    return b"".join(lines)


def _kill(group: int) -> None:
    """Each process in the kernel is one outside as well, and holds the console open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
