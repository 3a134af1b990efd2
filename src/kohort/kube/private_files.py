"""Files and directories that only their owner may read; files are replaced atomically and survive a power failure.

`private_directory` decides what to do with a directory that is there already:

| owner      | mode    | content                            | result                         |
|------------|---------|------------------------------------|--------------------------------|
| this user  | 0700    | anything                           | used                           |
| this user  | wider   | empty, or with a file of `markers` | used, after `chmod 700`        |
| this user  | wider   | anything else                      | refused: it may be `/tmp`      |
| other user | any     | anything                           | refused: that user could enter |
"""

import os
import stat
from collections.abc import Collection
from pathlib import Path


class NotPrivate(OSError):
    """A directory that other users may enter, or that belongs to one of them. The message says what to do."""


def make_private_directory(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def private_directory(path: Path, markers: Collection[str] = ()) -> None:
    """Make a directory for this user alone; `markers` are names that tell an earlier one of ours from any other.
    Raises NotPrivate."""
    make_private_directory(path)
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise NotPrivate(f"{path} belongs to uid {found.st_uid}, not to uid {os.geteuid()}: choose another directory")
    if not stat.S_IMODE(found.st_mode) & 0o077:
        return
    names = os.listdir(path)
    if names and not any(marker in names for marker in markers):
        raise NotPrivate(
            f"{path} has mode {stat.S_IMODE(found.st_mode):04o}, so that other users may enter it, and it holds files "
            f"of other programs: choose another directory, or run 'chmod 700 {path}' if it is only used by kohort"
        )
    path.chmod(0o700)


def open_private(path: Path, flags: int = os.O_WRONLY | os.O_CREAT | os.O_TRUNC) -> int:
    """A descriptor of a file that has mode 0600 from its first moment, also if it was wider before."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically and durably; it has mode 0600."""
    write_durably(path, content, 0o600)


def write_durably(path: Path, content: bytes, mode: int) -> None:
    """Replace a file atomically: it has its content, on the disk, and its mode before it gets its name. Then its name
    is on the disk, too."""
    scratch = path.with_name(f".{path.name}.new")
    with open(open_private(scratch), "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    os.replace(scratch, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Bring the names of new and replaced files to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
