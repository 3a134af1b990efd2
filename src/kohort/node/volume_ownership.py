"""Gives the files of a volume to the pod's `fsGroup`.

| what is found | what it gets                                                        |
|---------------|---------------------------------------------------------------------|
| a directory   | the group; the group may read, write and enter; new files inherit it |
| a file        | the group, which may read and write                                  |
| a link        | the group                                                            |

`fsGroupChangePolicy: OnRootMismatch` leaves a volume alone whose root directory already is as the table says: a volume
with a million files is not visited at every start.

A volume may hold links that a pod has put there. Every file is opened before it is changed, without following links, so
that nothing outside of the volume changes, even if a file is replaced by a link meanwhile.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ON_ROOT_MISMATCH: Final = "OnRootMismatch"
_FILE: Final = 0o660
_DIRECTORY: Final = 0o2770


def give_to_group(volume: str, group: int, policy: str | None = None) -> None:
    """Raises OSError."""
    if policy == ON_ROOT_MISMATCH and belongs_to(volume, group):
        return
    root = os.open(volume, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _, directories, files, place in os.fwalk(".", topdown=False, follow_symlinks=False, dir_fd=root):
            for name in (*files, *directories):
                _change(name, group, place)
        _change(".", group, root)  # last: it says that the rest is done
    finally:
        os.close(root)


def belongs_to(volume: str, group: int) -> bool:
    """Whether the root directory of a volume is as it would be made."""
    found = os.stat(volume)
    return found.st_gid == group and found.st_mode & _DIRECTORY == _DIRECTORY


def _change(name: str, group: int, directory: int) -> None:
    """A file that was deleted meanwhile needs no group."""
    try:
        with _opened(name, directory) as file:
            mode = os.fstat(file).st_mode
            if stat.S_ISLNK(mode):
                os.chown(name, -1, group, dir_fd=directory, follow_symlinks=False)
                return
            path = f"/proc/self/fd/{file}"
            os.chown(path, -1, group)
            os.chmod(path, stat.S_IMODE(mode) | (_DIRECTORY if stat.S_ISDIR(mode) else _FILE))
    except FileNotFoundError:
        return


@contextmanager
def _opened(name: str, directory: int) -> Iterator[int]:
    file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        yield file
    finally:
        os.close(file)
