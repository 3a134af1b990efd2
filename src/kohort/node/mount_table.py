"""What is mounted below a directory, and how to remove a directory without deleting what is mounted in it.

Volumes in memory, parts of volumes on their way to a container, and whatever a privileged container has mounted in a
volume are mounted below the directory of a pod. Deleting that directory with its content would delete the files of
others, so everything is unmounted first, and a directory below which a mount is left is kept.

`os.path.ismount` does not see a directory that is mounted elsewhere in the same file system; the kernel's table does.
"""

import os
import re
import shutil
from pathlib import Path

from kohort.kube.log import Log
from kohort.node.syscalls import MNT_DETACH, MS_PRIVATE, MS_REC, libc

_log = Log(part="node")
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def mounts_below(directory: Path) -> list[str]:
    """Mount points at or below a directory, the newest last; one that is mounted on twice is named twice."""
    base = os.path.realpath(directory)
    with open("/proc/self/mountinfo", "rb") as table:
        points = [_unescaped(line.split(b" ")[4]) for line in table]
    return [point for point in points if point == base or point.startswith(f"{base}/")]


def unmount_below(directory: Path) -> None:
    """Unmount everything at or below a directory. Other places that show the same files keep what is mounted in them:
    all is made private first, because the kernel would otherwise unmount at those places what is unmounted here."""
    points = [os.fsencode(point) for point in mounts_below(directory)]
    for point in points:
        libc.mount(None, point, None, MS_REC | MS_PRIVATE, None)
    for point in reversed(points):
        libc.umount2(point, MNT_DETACH)


def remove_directory(directory: Path) -> bool:
    """Remove a directory with its content, but nothing that is mounted there. False if it had to be kept."""
    unmount_below(directory)
    if left := mounts_below(directory):
        _log.error("kept a directory because something is mounted below it", directory=str(directory), mounts=left)
        return False
    shutil.rmtree(directory, ignore_errors=True)
    return True


def _unescaped(path: bytes) -> str:
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), path))
