"""Which process holds the flock of a file, from /proc.

`/proc/locks` names files by device and inode, and overlay file systems show others there than `stat` does. So the open
files of processes are searched instead: `/proc/PID/fd` has their paths, `/proc/PID/fdinfo` their locks.
"""

from collections.abc import Iterator
from pathlib import Path


def flock_holder(path: Path) -> int | None:
    """The pid of the process that took the exclusive lock, None if it is not to be seen from here."""
    wanted = str(path.resolve())
    return next((pid for pid in _pids() if _holds(pid, wanted)), None)


def is_running(pid: int) -> bool:
    """Whether a process still runs: it releases its locks a moment before it has ended. A zombie has ended."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def _pids() -> Iterator[int]:
    return (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())


def _holds(pid: int, wanted: str) -> bool:
    try:
        opened = [one.name for one in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False  # It has ended, or belongs to another user.
    return any(_is_locked(pid, descriptor) for descriptor in opened if _target(pid, descriptor) == wanted)


def _target(pid: int, descriptor: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/fd/{descriptor}").readlink())
    except OSError:
        return ""


def _is_locked(pid: int, descriptor: str) -> bool:
    """A forked process has the descriptor of its parent, and so the lock; the line names the one that took it.

    lock:   1: FLOCK  ADVISORY  WRITE 4711 08:02:1312 0 EOF
    """
    try:
        lines = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines()
    except OSError:
        return False
    locks = (line.split() for line in lines if line.startswith("lock:"))
    return any(fields[2] == "FLOCK" and fields[4] == "WRITE" and fields[5] == str(pid) for fields in locks)
