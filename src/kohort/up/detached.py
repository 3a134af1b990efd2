"""A cluster in the background.

It is a new process in a session of its own, not a fork: it starts from a clean interpreter. Its parent is the
`process_supervisor`. It reports through a pipe to the command that started both when it is ready, or why it cannot be;
everything else goes into its log file.
"""

import contextlib
import os
import signal
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
END_SECONDS = 30.0
"""How long a process in the background may take to end after a start that failed."""


def start(data: DataDirectory, arguments: Sequence[str]) -> tuple[str, str]:
    """Run `kohort` with `arguments` in the background, supervised; returns, when it is ready, the server's address and
    a note on this start, if there is one."""
    reading, writing = os.pipe()
    with open(reading) as report, data.logged() as (log, new):
        # Ctrl-C would be raised from `Popen` when the process runs already but is not known here yet. The supervisor
        # inherits the mask; it blocks this signal in any case.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            child = _spawn(data, arguments, log, writing)
        finally:
            os.close(writing)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            line = report.readline().strip()
        except KeyboardInterrupt:
            # The child is in a session of its own, so the terminal's SIGINT does not reach it.
            child.terminate()
            _wait(child)
            raise
        if line.startswith(READY):
            new.keep()
            address, _, note = line.removeprefix(READY).partition(" ")
            return address, note
        _wait(child)
        if not line:
            new.keep()
            raise CannotStart(f"kohort ended before it was ready; see {data.log}")
        raise CannotStart(line)


def _wait(child: "subprocess.Popen[bytes]") -> None:
    """Until it has removed what it made."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(END_SECONDS)


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


def _spawn(data: DataDirectory, arguments: Sequence[str], log: int, pipe: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        python_command("kohort.up.process_supervisor", str(data.path), *arguments),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env={**os.environ, REPORT_FD: str(pipe)},
        pass_fds=(pipe,),
        start_new_session=True,
    )
