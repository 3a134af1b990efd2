"""What Ctrl-C does to a command.

| when                                  | SIGINT                                                                |
|---------------------------------------|-----------------------------------------------------------------------|
| while the command line is imported    | ends the process at once: nothing has been done yet                   |
| while a command runs                  | raises KeyboardInterrupt; `cli.main` ends the process                 |
| while `kohort up` runs                | see `up.process`                                                      |

The exit code is INTERRUPTED each time. An exception in the middle of an import would be printed with the stack of the
import system, or be lost in one of its callbacks. This module imports little, because a signal that comes before is
answered by the interpreter.
"""

import os
import signal
from types import FrameType

INTERRUPTED = 130


def end_at_once() -> None:
    """From now on SIGINT ends the process."""
    signal.signal(signal.SIGINT, _end)


def raise_exception() -> None:
    """From now on SIGINT raises KeyboardInterrupt, if it was `end_at_once` that kept it from that."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
