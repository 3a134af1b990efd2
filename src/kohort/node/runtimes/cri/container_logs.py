"""Rotation of log files that a runtime writes: the agent renames, the runtime opens the file anew.

Until it does, it writes on into the renamed file, so nothing is lost. Old files have the names that `LogWriter` gives
them, and readers go on into them.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kohort.node.runtimes.log_files import KEPT, LARGEST

__all__ = ["LARGEST", "is_full", "set_aside"]


def is_full(path: Path, largest: int = LARGEST) -> bool:
    try:
        return path.stat().st_size >= largest
    except OSError:
        return False


@contextlib.contextmanager
def set_aside(path: Path) -> Iterator[None]:
    """Rename a log file and move older ones along; if the runtime does not open another one, all of it is undone."""
    for number in range(KEPT, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            os.replace(_numbered(path, number), _numbered(path, number + 1))
    os.replace(path, _numbered(path, 1))
    try:
        yield
    finally:
        if path.exists():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_numbered(path, KEPT + 1))
        else:
            _move_back(path)


def _move_back(path: Path) -> None:
    os.replace(_numbered(path, 1), path)
    for number in range(1, KEPT + 1):
        with contextlib.suppress(FileNotFoundError):
            os.replace(_numbered(path, number + 1), _numbered(path, number))


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
