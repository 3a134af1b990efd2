"""Makes mount points in directories in which the process may create nothing.

A container with the machine's own root may want a volume at `/data`, where there is nothing to mount on. A user who is
not root may not make it, and root should not leave it behind on the machine. So the
nearest directory that is there is covered with one in memory that holds everything that it held, link by link and mount
by mount; in that one anything can be made, and no other process sees it. The root itself cannot be covered: it is put
together elsewhere, and becomes the root of the process.
"""

import contextlib
import os
from collections.abc import Callable, Iterable

Mount = Callable[[str, str, str], None]
"""Mount a source on a place: as a file system of a kind, or bind it with all that is mounted in it if there is none.
Raises OSError."""
shown: list[str] = []
"""What was put into directories that were opened up: of the process that did it, which is on its way to be another."""
opened: set[str] = set()
"""Directories that were opened up, by the same process."""


def nearest(path: str) -> str:
    """The part of a path that is there."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return os.path.realpath(path)


def open_up(directory: str, mount: Mount, stage: str) -> None:
    """Let anything be made in a directory; `stage` is one that no other process uses. Raises OSError."""
    opened.add(directory)
    if directory == "/":
        _open_up_root(mount, stage)
        return
    names, origin = os.listdir(directory), _held(directory)
    mount("tmpfs", directory, "tmpfs")
    _fill(origin, directory, names, mount)
    _take_mode(origin, directory)
    shown.extend(f"{directory}/{name}" for name in names)


def _open_up_root(mount: Mount, stage: str) -> None:
    names, origin = os.listdir("/"), _held("/")
    os.makedirs(stage, exist_ok=True)
    mount("tmpfs", stage, "tmpfs")
    _fill(origin, stage, names, mount)
    _take_mode(origin, stage)
    os.chroot(stage)
    os.chdir("/")
    shown.extend(f"/{name}" for name in names)


def _take_mode(origin: str, place: str) -> None:
    """Who may write to a directory does not change because it is covered."""
    found = os.stat(origin)
    with contextlib.suppress(OSError):
        os.chown(place, found.st_uid, found.st_gid)
        os.chmod(place, found.st_mode & 0o7777)


def _held(path: str) -> str:
    """A path that leads there whatever is mounted over it."""
    return f"/proc/self/fd/{os.open(path, os.O_PATH | os.O_CLOEXEC)}"


def _fill(origin: str, place: str, names: Iterable[str], mount: Mount) -> None:
    """What cannot be shown to this process stays hidden from it."""
    for name in names:
        source, target = f"{origin}/{name}", f"{place}/{name}"
        with contextlib.suppress(OSError):
            if os.path.islink(source):
                os.symlink(os.readlink(source), target)
                continue
            if os.path.isdir(source):
                os.mkdir(target)
            else:
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
            mount(source, target, "")
