"""The parent of a detached cluster: a small process that starts it again after a crash.

    python -m kohort.up.process_supervisor DIRECTORY ARGUMENT ...

The child is `python -m kohort ARGUMENT ...`, in the same session. The first one reports to the command that the user
waits for (see `detached`); later ones keep the port of the first, so that kubeconfigs stay valid. When a child ends,
`restart_policy.after_exit` decides what follows. While a child runs, the supervisor rotates `kohort.log`. It passes
SIGTERM and SIGINT on to the child and ends after it, or at once while it waits to restart.

Signals are blocked and taken one by one with `sigtimedwait`: there is no moment in which a signal to stop, or the end
of the child, could be missed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from kohort.rules.python_command import python_command
from kohort.up import status_records
from kohort.up.data_directory import DataDirectory
from kohort.up.detached import REPORT_FD, SUPERVISED, report_failure
from kohort.up.log_rotation import LogBound, rotate
from kohort.up.restart_policy import PROCESS_RESTARTS, End, EndReason, Restart, after_exit, exit_words
from kohort.up.startup_errors import CannotStart
from kohort.up.status_records import ProcessRecord, RestartRecord, SupervisorRecord

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_AWAITED = (*STOP_SIGNALS, signal.SIGCHLD)
DEFAULT_LOG_BOUND = LogBound()
_REMEMBERED = 100
"""Restarts in the record."""


class Decide(Protocol):
    """What follows the end of a child: `restart_policy.after_exit`, or the same with other pauses."""

    def __call__(
        self, code: int, *, stopping: bool, was_ready: bool, restarts: Sequence[float], now: float
    ) -> Restart | End: ...


class Supervisor:
    def __init__(
        self,
        directory: Path,
        command: Sequence[str],
        decide: Decide = after_exit,
        log_bound: LogBound = DEFAULT_LOG_BOUND,
    ) -> None:
        self._directory = directory
        self._log = DataDirectory(directory).log
        self._log_bound = log_bound
        self._decide = decide
        self._command = [*command]
        self._record = SupervisorRecord(os.getpid(), "Running")
        self._restarts: list[float] = []
        self._stopping = False
        self.was_ready = False
        """Whether a child has become ready."""

    def run(self) -> int:
        """Until the child ends for good; returns its exit code."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
        self._write("Running")
        while True:
            code = self._run_child()
            decision = self._decide(
                code,
                stopping=self._stopping,
                was_ready=self.was_ready,
                restarts=self._restarts,
                now=time.monotonic(),
            )
            match decision:
                case Restart(seconds):
                    self._back_off(exit_words(code), seconds)
                    if self._stopping:
                        return self._end(End(EndReason.STOPPED), 0)
                case End():
                    return self._end(decision, code)

    def _run_child(self) -> int:
        pipe = [int(os.environ[REPORT_FD])] if REPORT_FD in os.environ else []
        child = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            env={**os.environ, SUPERVISED: str(os.getpid())},
            pass_fds=pipe,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED),
        )
        for descriptor in pipe:
            # The command that the user waits for learns from its closing that the child ended.
            os.close(descriptor)
            del os.environ[REPORT_FD]
        while (code := child.poll()) is None:
            received = signal.sigtimedwait(_AWAITED, self._log_bound.check_seconds)
            rotate(self._log, self._log_bound)
            if received is not None and received.si_signo in STOP_SIGNALS:
                self._stopping = True
                child.send_signal(received.si_signo)
        self._learn(child.pid)
        return code

    def _learn(self, pid: int) -> None:
        """Whether that child was ready, and on which port."""
        found = status_records.read(self._directory, status_records.STATUS, ProcessRecord)
        if found is None or found.pid != pid or not found.ready:
            return
        self.was_ready = True
        if (port := urlsplit(found.server).port) and "--port" in self._command:
            self._command[self._command.index("--port") + 1] = str(port)

    def _back_off(self, reason: str, seconds: float) -> None:
        self._restarts.append(time.monotonic())
        self._record.restarts = [*self._record.restarts, RestartRecord(_stamp(), reason)][-_REMEMBERED:]
        _log("warning", f"kohort {reason}, starting it again", seconds=seconds)
        self._write("BackOff", retry_at=_stamp(seconds))
        end = time.monotonic() + seconds
        while not self._stopping and (left := end - time.monotonic()) > 0:
            got = signal.sigtimedwait(_AWAITED, left)
            self._stopping = got is not None and got.si_signo in STOP_SIGNALS
        self._write("Running")

    def _end(self, decision: End, code: int) -> int:
        if decision.reason is EndReason.TOO_MANY_RESTARTS:
            last = f"kohort {exit_words(code)} after {PROCESS_RESTARTS} restarts in ten minutes, giving up"
            self._record.restarts.append(RestartRecord(_stamp(), last))
            _log("error", last)
        self._write(decision.reason.value)
        return code if code >= 0 else 128 - code

    def _write(self, state: str, retry_at: str = "") -> None:
        self._record.state, self._record.retry_at = state, retry_at
        status_records.write(self._directory, status_records.SUPERVISOR, self._record)


def _stamp(later: float = 0.0) -> str:
    return datetime.fromtimestamp(int(time.time() + later), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _log(level: str, event: str, **fields: float) -> None:
    """In the form of `kube.log`, which would bring the event loop into this process."""
    line = {"part": "supervisor", **fields, "event": event, "level": level, "time": _stamp()}
    print(msgspec.json.encode(line).decode(), file=sys.stderr, flush=True)


def main() -> int:
    directory, *arguments = sys.argv[1:]
    data = DataDirectory(Path(directory))
    # Before anything is made: a signal that came now would leave it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    try:
        with data.supervised() as new:
            supervisor = Supervisor(data.path, python_command("kohort", *arguments))
            code = supervisor.run()
            if supervisor.was_ready:
                new.keep()
            return code
    except CannotStart as failure:
        report_failure(str(failure))
        return failure.exit_code


if __name__ == "__main__":
    sys.exit(main())
