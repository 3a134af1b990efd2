"""What a start adds to the data directory: a start that is refused or interrupted removes it again.

Each process of a start removes what it has made itself, the first one also what the others could not remove:

| process                      | makes                                | removes it                       |
|------------------------------|--------------------------------------|----------------------------------|
| the command, with `--detach` | the directory, `kohort.log`          | when the others have ended       |
| the supervisor               | `supervisor.lock`, `supervisor.json` | while it holds the former        |
| the cluster                  | everything else                      | while it holds the directory     |

Two things stay whatever happens: the directory of a cluster that was there before, whose objects may name what is new,
and the state of a node that has pods, which `kohort down` ends.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

STORE = "store.db"
PODS = Path("node", "pods")


class NewFiles:
    """Files and directories that one process has made in the data directory."""

    def __init__(self, directory: Path, made: Sequence[Path], find: Callable[[], Iterable[str]]) -> None:
        """`made` are the directories that were made for it, innermost first; `find` returns the names of what is new
        in the directory."""
        self._directory = directory
        self._made = made
        self._find = find
        self._kept = False

    def keep(self) -> None:
        """The start has succeeded."""
        self._kept = True

    def remove(self) -> None:
        """Remove what is new, unless the start has succeeded."""
        if not self._kept:
            remove_names(self._directory, self._find())
            remove_empty(self._made)


def new_names(directory: Path, before: Collection[str]) -> set[str]:
    """What a start that did not succeed may remove; `before` are the names that were in the directory."""
    if STORE in before or _names(directory / PODS):
        return set()
    return _names(directory) - set(before)


def missing_directories(path: Path) -> list[Path]:
    """The directories that have to be made for this one, innermost first."""
    return [one for one in (path, *path.parents) if not one.exists()]


def remove_empty(directories: Iterable[Path]) -> None:
    """Remove directories, innermost first; those that hold something stay."""
    for one in directories:
        with contextlib.suppress(OSError):
            one.rmdir()


def remove_names(directory: Path, names: Iterable[str]) -> None:
    """Remove files, and directories with all that is in them. What cannot be removed stays."""
    for path in (directory / name for name in names):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


def _names(directory: Path) -> set[str]:
    try:
        return set(os.listdir(directory))
    except OSError:
        return set()
