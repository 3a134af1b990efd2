"""Parts of volumes (`subPath`) for containers, safe against containers that change the volume meanwhile.

A container that may write to a volume can replace a directory in it by a link at any time, also between a check of a
path and its use: a path that was inside of the volume then leads to any file of the machine. So a path is checked
once, and from then on only its descriptor is used:

1. `find_sub_path` follows the links of a path as they are now and refuses one that leads out of the volume. The answer
   is a path without links. It is only a guess: the volume may change.
2. `open_sub_path` opens that path one directory after the other, starting at the volume, and follows no link. What it
   opens is in the volume, or it fails and the start of the container is tried again. Directories that are missing are
   made the same way.
3. A container runtime takes paths, not descriptors. `bind_sub_paths` mounts what the descriptors lead to in a directory
   that no container can write to, and names that to the runtime. The runtime has mounts of its own as soon as the
   container has started; then `unbind` removes the agent's. An agent that is killed in between leaves them to the
   next one. The process runtime needs none of this: it opens the path itself, as in 2.
"""

import os
import stat
from pathlib import Path

import msgspec

from kohort.node.mount_table import remove_directory
from kohort.node.runtimes.interface import Launch, Mount
from kohort.node.syscalls import MS_BIND, MS_REC, mount, open_without_links


def find_sub_path(volume: str, below: str) -> tuple[str, str]:
    """The volume and a path in it, both without links; the path is empty if it is the volume itself. Raises
    ValueError."""
    base = os.path.realpath(volume)
    found = os.path.realpath(os.path.join(base, below))
    if ".." in Path(below).parts or below.startswith("/") or os.path.commonpath((base, found)) != base:
        raise ValueError(f"{below!r} leads out of its volume")
    relative = os.path.relpath(found, base)
    return base, "" if relative == "." else relative


def make_sub_path(volume: str, path: str) -> None:
    """Make the directories of a path without links that are missing, with the rights and the group of the volume: a
    user who may write to the volume may write to them. Raises OSError."""
    facts = os.stat(volume)
    at = os.open(volume, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in path.split("/"):
            below = _open_or_make_directory(name, at, facts)
            os.close(at)
            at = below
    finally:
        os.close(at)


def _open_or_make_directory(name: str, at: int, like: os.stat_result) -> int:
    made = True
    try:
        os.mkdir(name, 0o700, dir_fd=at)
    except FileExistsError:
        made = False
    found = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    if made:
        if os.geteuid() == 0:
            os.fchown(found, -1, like.st_gid)
        os.fchmod(found, stat.S_IMODE(like.st_mode) | stat.S_IRWXU)
    return found


def open_sub_path(source: Mount) -> int:
    """A descriptor of what is to be mounted (O_PATH). Raises OSError."""
    if not source.sub_path:
        return os.open(source.source, os.O_PATH | os.O_CLOEXEC)
    return open_without_links(source.source, source.sub_path)


def bind_sub_paths(launch: Launch, directory: Path) -> Launch:
    """The launch with parts of volumes replaced by mounts of them below `directory`, which is the container's own. What
    an earlier start has left there is unmounted. Raises OSError."""
    if not any(each.sub_path for each in launch.mounts):
        return launch
    unbind(directory)
    directory.mkdir(parents=True, mode=0o700)
    bound = [_bound(each, directory / str(index)) for index, each in enumerate(launch.mounts)]
    return msgspec.structs.replace(launch, mounts=tuple(bound))


def _bound(wanted: Mount, place: Path) -> Mount:
    if not wanted.sub_path:
        return wanted
    descriptor = open_sub_path(wanted)
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            place.mkdir(mode=0o700)
        else:
            place.touch(mode=0o600)
        mount(f"/proc/self/fd/{descriptor}", str(place), "", MS_BIND | MS_REC, what=wanted.target)
    finally:
        os.close(descriptor)
    return msgspec.structs.replace(wanted, source=str(place), sub_path="")


def unbind(directory: Path) -> None:
    """Unmount what `bind_sub_paths` has mounted. Files in volumes stay as they are."""
    if directory.exists():
        remove_directory(directory)
