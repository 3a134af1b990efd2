"""A cluster in the background.

It is a new process in a session of its own, not a fork: it starts from a clean interpreter. Its parent is the
`process_supervisor`. It reports through a pipe to the command that started both when it is ready, or why it cannot be;
everything else goes into its log file.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

from kohort.rules.python_command import python_command
from kohort.up.data_directory import DataDirectory
from kohort.up.startup_errors import CannotStart

REPORT_FD = "KOHORT_REPORT_FD"
"""Names, in the environment of a detached process, the pipe to report through."""
SUPERVISED = "KOHORT_SUPERVISED"
"""In the environment of a detached process, the pid of its supervisor."""
READY = "ready "


def start(data: DataDirectory, arguments: Sequence[str]) -> tuple[str, str]:
    """Run `kohort` with `arguments` in the background, supervised; returns, when it is ready, the server's address and
    a note on this start, if there is one."""
    data.create()
    reading, writing = os.pipe()
    with open(reading) as report:
        try:
            child = _spawn(data, arguments, writing)
        finally:
            os.close(writing)
        try:
            line = report.readline().strip()
        except KeyboardInterrupt:
            # The child is in a session of its own, so the terminal's SIGINT does not reach it.
            child.terminate()
            raise
    if line.startswith(READY):
        address, _, note = line.removeprefix(READY).partition(" ")
        return address, note
    raise CannotStart(line or f"kohort ended before it was ready; see {data.log}")


def is_detached() -> bool:
    return REPORT_FD in os.environ or SUPERVISED in os.environ


def report_ready(address: str, note: str) -> None:
    _report(f"{READY}{address} {note}")


def report_failure(message: str) -> None:
    _report(" ".join(message.split()))


def _report(line: str) -> None:
    """Write one line to the command that waits for it, or to the log: after a restart no command waits any more."""
    descriptor = os.environ.pop(REPORT_FD, "")
    if not descriptor:
        print(line, file=sys.stderr, flush=True)
        return
    with open(int(descriptor), "w") as pipe:
        pipe.write(line + "\n")


def _spawn(data: DataDirectory, arguments: Sequence[str], pipe: int) -> "subprocess.Popen[bytes]":
    log = data.open_log()
    try:
        return subprocess.Popen(
            python_command("kohort.up.process_supervisor", str(data.path), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, REPORT_FD: str(pipe)},
            pass_fds=(pipe,),
            start_new_session=True,
        )
    finally:
        os.close(log)
