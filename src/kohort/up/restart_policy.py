"""When a part or the whole process is started again after a failure.

Both rules are functions of the times of earlier failures; the caller keeps the clock and acts.
"""

import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

PART_FIRST_SECONDS, PART_LONGEST_SECONDS = 1.0, 60.0
PART_FORGET_SECONDS = 300.0
"""A part that ran this long without a failure is treated like one that never failed."""

PROCESS_FIRST_SECONDS = 1.0
PROCESS_RESTARTS = 5
PROCESS_WINDOW_SECONDS = 600.0

INTERRUPTED = 130
"""The exit code after a second SIGTERM or SIGINT, and after a SIGINT before the cluster was ready."""
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class EndReason(Enum):
    """Why a process is not started again."""

    STOPPED = "Stopped"
    """It was asked to end."""
    START_FAILED = "StartFailed"
    """It never became ready: the first start failed, and the command that started it has printed the reason."""
    TOO_MANY_RESTARTS = "TooManyRestarts"


@dataclass(frozen=True, slots=True)
class Restart:
    seconds: float
    """How long to wait first."""


@dataclass(frozen=True, slots=True)
class End:
    reason: EndReason


def part_pause(failures: Sequence[float]) -> float:
    """Seconds to wait before a part is started again; `failures` are the times of all its failures, the last one now.

    | earlier failures, each less than 5 minutes after the one before | 0 | 1 | 2 | 3 | 4  | 5  | 6 and more |
    |-----------------------------------------------------------------|---|---|---|---|----|----|------------|
    | seconds                                                         | 1 | 2 | 4 | 8 | 16 | 32 | 60         |
    """
    row = 0
    for later, earlier in zip(reversed(failures), reversed(failures[:-1]), strict=False):
        if later - earlier >= PART_FORGET_SECONDS:
            break
        row += 1
    return min(PART_LONGEST_SECONDS, math.ldexp(PART_FIRST_SECONDS, min(row, 10)))


def after_exit(code: int, *, stopping: bool, was_ready: bool, restarts: Sequence[float], now: float) -> Restart | End:
    """What follows when the process of a detached cluster has ended with this code, as `subprocess` gives it.

    | asked to stop | one was ready | ended with                  | restarts in 10 min. | then                |
    |---------------|---------------|-----------------------------|---------------------|---------------------|
    | yes           | any           | anything                    | any                 | end                 |
    | no            | no            | anything                    | any                 | end: start failed   |
    | no            | yes           | 0, 130, SIGTERM, INT or HUP | any                 | end                 |
    | no            | yes           | anything else               | n < 5               | restart after 2^n s |
    | no            | yes           | anything else               | 5                   | end: too many       |
    """
    if stopping or (was_ready and (code in (0, INTERRUPTED) or -code in _STOP_SIGNALS)):
        return End(EndReason.STOPPED)
    if not was_ready:
        return End(EndReason.START_FAILED)
    recent = sum(now - when < PROCESS_WINDOW_SECONDS for when in restarts)
    if recent >= PROCESS_RESTARTS:
        return End(EndReason.TOO_MANY_RESTARTS)
    return Restart(math.ldexp(PROCESS_FIRST_SECONDS, recent))


def exit_words(code: int) -> str:
    """
    >>> exit_words(-11), exit_words(3)
    ('ended by signal SIGSEGV', 'ended with exit code 3')
    """
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"ended by signal {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"
