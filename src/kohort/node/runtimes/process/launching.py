"""Starting a process: namespaces, mounts, cgroup, user, and the program.

What needs rights that are not there is left out in this order of importance: a cgroup or a network namespace that was
asked for must be entered; mounts are made in a mount namespace of its own, as root or in a user namespace; if neither
is permitted the process runs without its mounts.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from kohort.node.runtimes.interface import CannotRun, CannotStart, Launch, Mount
from kohort.node.runtimes.process import openings

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MS_RELATIME: Final = 1 << 21
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38

LONGEST_COMPLAINT: Final = 4096

_libc = ctypes.CDLL(None, use_errno=True)


class Failed(OSError):
    """Something that was to be done for a process; its text says what and why."""


def spawn(launch: Launch, stdin: int, stdout: int, stderr: int, within: int = 0) -> int:
    """Start it, and return its pid; `within` is a process whose files and names it shall see. Raises CannotStart."""
    command = list(launch.command)
    complaints, complain = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=launch.env,
            close_fds=True,
            start_new_session=True,
            preexec_fn=_prepared(launch, within, complain),
        )
    except FileNotFoundError as problem:
        raise CannotRun(f'exec: "{command[0]}": executable file not found in $PATH ({problem.filename})') from None
    except OSError as problem:
        raise CannotRun(f'exec: "{command[0]}": {problem.strerror or problem}') from None
    except subprocess.SubprocessError as problem:  # which does not say what went wrong
        words = os.read(complaints, LONGEST_COMPLAINT).decode(errors="replace") or str(problem)
        raise CannotStart(f'cannot prepare "{command[0]}": {words}') from None
    except ValueError as problem:  # a NUL byte somewhere
        raise CannotStart(f'cannot start "{command[0]}": {problem}') from None
    finally:
        os.close(complaints)
        os.close(complain)
    process.returncode = 0  # reaped by the supervisor, not by this object
    return process.pid


def birth(pid: int) -> int | None:
    """When a process was started, as the kernel counts it; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def become_subreaper() -> None:
    """Orphans of our processes become ours, so that they can be ended."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def enter_namespace(path: str, kind: int) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.setns(handle, kind), f"setns {path}")
    finally:
        os.close(handle)


def _prepared(launch: Launch, within: int, complain: int) -> Callable[[], None]:
    """What happens in the child between fork and exec. Simple calls only. What goes wrong is written to `complain`."""

    def prepare() -> None:
        try:
            enter()
        except Exception as problem:
            os.write(complain, str(problem).encode(errors="replace")[:LONGEST_COMPLAINT])
            raise

    def enter() -> None:
        if launch.cgroup:
            with open(f"{launch.cgroup}/cgroup.procs", "w") as procs:
                procs.write(str(os.getpid()))
        if launch.oom_score_adj is not None:
            with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
                score.write(str(launch.oom_score_adj))
        if launch.netns:
            enter_namespace(launch.netns, CLONE_NEWNET)
        joined = bool(within) and _joined(within)
        if not joined:
            if (launch.mounts or launch.read_only_root) and _own_mounts():
                _mount_all(launch)
            if launch.hostname and _libc.unshare(CLONE_NEWUTS) == 0:
                name = launch.hostname.encode()
                _libc.sethostname(name, len(name))
        if launch.root and launch.root != "/" and not joined:
            os.chroot(launch.root)
            os.chdir("/")
        if launch.directory:
            with _naming(f"working directory {launch.directory}"):
                os.chdir(launch.directory)
        for number in launch.dropped_capabilities:
            _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
        _become(launch)
        if launch.no_new_privileges:
            _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if launch.tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    return prepare


def _joined(pid: int) -> bool:
    """See what another process sees: what was mounted for it may not be there to be mounted again."""
    names = (("user", CLONE_NEWUSER), ("mnt", CLONE_NEWNS), ("uts", CLONE_NEWUTS))
    try:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_CLOEXEC)
        found = [
            (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind)
            for name, kind in names
            if os.stat(f"/proc/{pid}/ns/{name}").st_ino != os.stat(f"/proc/self/ns/{name}").st_ino
        ]
    except OSError:
        return False
    if not all(_libc.setns(handle, kind) == 0 for handle, kind in found):
        return False
    os.fchdir(root)
    with contextlib.nullcontext() if found else contextlib.suppress(PermissionError):  # then it is our own
        os.chroot(".")
    return True


def _own_mounts() -> bool:
    """A mount namespace of its own: nobody else sees what is mounted in it."""
    if _libc.unshare(CLONE_NEWNS) != 0:
        uid, gid = os.geteuid(), os.getegid()
        if _libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
            return False
        for file, content in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with contextlib.suppress(OSError), open(f"/proc/self/{file}", "w") as table:
                table.write(content)
    return bool(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0)


def _mount_all(launch: Launch) -> None:
    """What is mounted, and then the root itself, read-only: mounts stay what they are."""
    root = launch.root or "/"
    # A mount may cover the place where another one comes from: `/tmp`, when the node keeps its volumes below that.
    sources = [_opened(mount) for mount in launch.mounts]
    stage = os.path.join(os.path.dirname(launch.log) or f"/tmp/kohort-{os.geteuid()}", ".root")
    if launch.read_only_root and root != "/":
        _bind(Mount(root, root), "")  # only what is a mount can be made read-only
    for mount, source in zip(launch.mounts, sources, strict=True):
        if source:
            with contextlib.suppress(OSError) if mount.optional else contextlib.nullcontext():
                _bind(mount, launch.root, source, stage)
    if launch.read_only_root:
        _checked(_read_only(root), f"read-only {root}")
        for place in openings.shown:
            if not os.path.islink(place):
                _read_only(place)


def _read_only(place: str) -> int:
    """What else is forbidden at a mount must be said again, or it cannot be changed."""
    found = os.statvfs(place).f_flag
    kept = found & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
    kept |= MS_RELATIME if found & os.ST_RELATIME else 0
    flags = MS_BIND | MS_REMOUNT | MS_RDONLY | kept
    return int(_libc.mount(None, os.fsencode(place), None, flags, None))


def _opened(mount: Mount) -> str:
    """A path to its source that stays one, whatever is mounted later; empty when it is missing and may be. Programs do
    not inherit what is opened here."""
    try:
        with _naming(f"mount {mount.target}"):
            return f"/proc/self/fd/{os.open(mount.source, os.O_PATH | os.O_CLOEXEC)}"
    except OSError:
        if mount.optional:
            return ""
        raise


def _bind(mount: Mount, root: str, path: str = "", stage: str = "") -> None:
    target = f"{root.rstrip('/')}{mount.target}" if root else mount.target
    path = path or mount.source
    source = os.fsencode(path)
    with _naming(f"mount {mount.target}"):
        _make_place(path, target, stage)
    place = os.fsencode(target)
    _checked(_libc.mount(source, place, None, MS_BIND | MS_REC, None), f"mount {mount.target}")
    if mount.read_only:
        _libc.mount(source, place, None, MS_BIND | MS_REC | MS_REMOUNT | MS_RDONLY, None)


def _make_place(source: str, target: str, stage: str) -> None:
    """Somewhere to mount on, in a directory that is not ours if need be."""
    if os.path.exists(target):
        return
    try:
        _make(source, target)
    except PermissionError:
        openings.open_up(openings.nearest(target), _mount, stage)
        _make(source, target)


def _mount(source: str, place: str, kind: str) -> None:
    flags = 0 if kind else MS_BIND | MS_REC
    result = _libc.mount(os.fsencode(source), os.fsencode(place), kind.encode() or None, flags, None)
    _checked(result, f"mount {place}")


def _make(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "a"):
            pass


def _become(launch: Launch) -> None:
    if os.geteuid() != 0:
        return
    if launch.groups or launch.gid is not None or launch.uid is not None:
        os.setgroups(list(launch.groups))
    if launch.gid is not None:
        os.setgid(launch.gid)
    if launch.uid is not None:
        os.setuid(launch.uid)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise Failed(f"{what}: {os.strerror(number)}")


@contextlib.contextmanager
def _naming(what: str) -> Iterator[None]:
    """Say what it was that failed."""
    try:
        yield
    except OSError as problem:
        raise Failed(f"{what}: {problem.strerror or problem}") from problem
