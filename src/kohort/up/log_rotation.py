"""The size bound of `kohort.log`.

The detached process and its supervisor both write to the file through their standard output, which they opened for
appending. So rotation copies the file to `kohort.log.1` and truncates it: writers need not reopen anything, and native
code such as faulthandler is covered as well. The price is that a line written between the copy and the truncation is
lost. Renaming the file instead would lose nothing, but every writer would have to open the new one.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LogBound:
    bytes: int = 32 << 20
    check_seconds: float = 30.0


def rotated_log(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")


def rotate(log: Path, bound: LogBound) -> bool:
    """Start the log anew if it has reached its bound; the text so far replaces that of the rotation before."""
    try:
        if log.stat().st_size < bound.bytes:
            return False
        _copy(log, rotated_log(log))
        os.truncate(log, 0)
    except OSError:
        return False  # A full disk, most likely. The log cannot grow on it, and the next check tries again.
    return True


def _copy(log: Path, copy: Path) -> None:
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(log, "rb") as source, open(descriptor, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
