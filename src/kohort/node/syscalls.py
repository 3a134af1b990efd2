"""Calls to the kernel that Python has no function for."""

import ctypes
import errno
import os
import stat
import threading
from collections.abc import Callable
from typing import Final, TypeVar

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWCGROUP: Final = 0x02000000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
MS_PRIVATE, MS_RELATIME = 1 << 18, 1 << 21
MNT_DETACH: Final = 2
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
_OPENAT2: Final = 437
"""The same number on every architecture."""
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10

libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


class SyscallFailed(OSError):
    """A call to the kernel has failed; the message says which and why."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def checked(result: int, what: str) -> None:
    if result != 0:
        raise SyscallFailed(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "", *, what: str = "") -> None:
    """Raises SyscallFailed, which names `what` or the target."""
    result = libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode() or None, flags, os.fsencode(options) or None
    )
    checked(result, f"mount {what or target}")


def enter_namespace(path: str, kind: int) -> None:
    """Move this thread into the namespace at `path`. Raises SyscallFailed."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        checked(libc.setns(handle, kind), f"setns {path}")
    finally:
        os.close(handle)


def in_thread(work: Callable[[], T]) -> T:
    """Run something in a thread of its own, which takes the namespaces it has entered with it when it ends."""
    found: list[T] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return found[0]


def open_in_root(root: int, path: str, flags: int = os.O_PATH) -> int:
    """Open a path as a process whose root directory is the descriptor `root` would: links never lead out of it. Raises
    OSError."""
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    found = libc.syscall(_OPENAT2, root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return int(found)


def open_without_links(directory: str, path: str, flags: int = os.O_PATH) -> int:
    """Open a relative path below a directory, one part after the other; no part may be a link. Raises OSError."""
    *folders, name = path.split("/")
    at = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for each in folders:
            below = os.open(each, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        found = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)
    if stat.S_ISLNK(os.fstat(found).st_mode):  # O_PATH opens links themselves
        os.close(found)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return found


def make_in_root(root: int, path: str, *, directory: bool, links: int = 40) -> int:
    """A descriptor of a directory or file below `root`, made with all directories above it if it is not there. A link
    that leads to nothing is followed, inside of `root`, and what it leads to is made. Raises OSError."""
    parts = [part for part in path.split("/") if part]
    for count in range(1, len(parts) + 1):
        try:
            os.close(open_in_root(root, "/".join(parts[:count])))
        except FileNotFoundError:
            name, parent = parts[count - 1], open_in_root(root, "/".join(parts[: count - 1]) or ".")
            try:
                leads_to = _link_target(name, parent)
                if leads_to and links:
                    above = "" if leads_to.startswith("/") else "/".join(parts[: count - 1])
                    followed = os.path.normpath("/".join(("", above, leads_to, *parts[count:])))
                    return make_in_root(root, followed, directory=directory, links=links - 1)
                if count == len(parts) and not directory:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                    os.close(os.open(name, flags, 0o644, dir_fd=parent))
                else:
                    os.mkdir(name, 0o755, dir_fd=parent)
            finally:
                os.close(parent)
    return open_in_root(root, "/".join(parts) or ".")


def _link_target(name: str, directory: int) -> str:
    """Empty if it is not a link."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError:
        return ""
