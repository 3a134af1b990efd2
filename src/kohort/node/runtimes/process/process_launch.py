"""Starts a process: namespaces, root file system, cgroup, user, rights, and the program.

What the agent has no right to do is left out, by this order of importance: a cgroup or a network namespace that was
asked for must be entered; mounts are made in a mount namespace of its own, as root or in a user namespace; if neither
is permitted the process runs without its mounts. A seccomp profile that was asked for must be applied. What was left
out is returned, so that it can be reported.

A container with an image has a process namespace: its first process is number 1 there, as with every other container
runtime, and signals that it has no handler for do not end it. One with the machine's root sees the machine's processes.
A process namespace is for children only, so the parent enters it for the moment of the fork.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import stat
import subprocess
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from kohort.node.runtimes.interface import CannotRun, CannotStart, Launch
from kohort.node.runtimes.process import rootfs, seccomp
from kohort.node.syscalls import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    PR_CAPBSET_DROP,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_NO_NEW_PRIVS,
    checked,
    enter_namespace,
    libc,
)

LONGEST_COMPLAINT: Final = 4096
HIGHEST_CAPABILITY: Final = 63


def spawn(launch: Launch, stdin: int, stdout: int, stderr: int, within: int = 0) -> tuple[int, tuple[str, ...]]:
    """Start it, and return its pid and what could not be done as asked; `within` is a process whose files and names it
    shall see. Raises CannotStart."""
    command = list(launch.command)
    complaints, error_pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        with _process_namespace(launch, within) as notes:
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=launch.env,
                close_fds=True,
                start_new_session=True,
                preexec_fn=_prepared(launch, within, error_pipe),
            )
        with contextlib.suppress(BlockingIOError):  # the program runs: these are no complaints
            notes += os.read(complaints, LONGEST_COMPLAINT).decode(errors="replace").splitlines()
    except FileNotFoundError as problem:
        raise CannotRun(f'exec: "{command[0]}": executable file not found in $PATH ({problem.filename})') from None
    except OSError as problem:
        raise CannotRun(f'exec: "{command[0]}": {problem.strerror or problem}') from None
    except subprocess.SubprocessError as problem:  # which does not say what went wrong
        message = os.read(complaints, LONGEST_COMPLAINT).decode(errors="replace") or str(problem)
        raise CannotStart(f'cannot prepare "{command[0]}": {message}') from None
    except ValueError as problem:  # a NUL byte somewhere
        raise CannotStart(f'cannot start "{command[0]}": {problem}') from None
    finally:
        os.close(complaints)
        os.close(error_pipe)
    process.returncode = 0  # reaped by the supervisor, not by this object
    return process.pid, tuple(notes)


@contextlib.contextmanager
def _process_namespace(launch: Launch, within: int) -> Iterator[list[str]]:
    """What is started in this context has a process namespace of its own, or that of `within`."""
    notes: list[str] = []
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    changed = False
    try:
        if within:
            changed = _entered_processes(within)
        elif launch.own_processes:
            changed = libc.unshare(CLONE_NEWPID) == 0
            if not changed:
                notes.append(f"processes of the machine are visible ({os.strerror(ctypes.get_errno())})")
        yield notes
    finally:
        if changed:
            checked(libc.setns(own, CLONE_NEWPID), "return to the process namespace of the supervisor")
        os.close(own)


def _entered_processes(pid: int) -> bool:
    try:
        if os.stat(f"/proc/{pid}/ns/pid").st_ino == os.stat("/proc/self/ns/pid").st_ino:
            return False
        handle = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return bool(libc.setns(handle, CLONE_NEWPID) == 0)
    finally:
        os.close(handle)


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
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _prepared(launch: Launch, within: int, error_pipe: int) -> Callable[[], None]:
    """What happens in the child between fork and exec. Simple calls only; errors are written to `error_pipe`."""

    def prepare() -> None:
        try:
            enter()
        except Exception as problem:
            os.write(error_pipe, str(problem).encode(errors="replace")[:LONGEST_COMPLAINT])
            raise

    def enter() -> None:
        if launch.cgroup:
            with open(f"{launch.cgroup}/cgroup.procs", "w") as procs:
                procs.write("0")
        if launch.oom_score_adj is not None:
            with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
                score.write(str(launch.oom_score_adj))
        if launch.netns:
            enter_namespace(launch.netns, CLONE_NEWNET)
        if not (within and _joined(within)):
            note(_isolate(launch))
        if launch.directory:
            with rootfs.named(f"working directory {launch.directory}"):
                os.chdir(launch.directory)
        os.umask(0o022)
        _restrict(launch)
        if launch.tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def note(lines: list[str]) -> None:
        if lines:
            os.write(error_pipe, "".join(f"{line}\n" for line in lines).encode(errors="replace")[:LONGEST_COMPLAINT])

    return prepare


def _joined(pid: int) -> bool:
    """See what another process sees: what was mounted for it may not be there to be mounted again."""
    names = (
        *(("user", CLONE_NEWUSER), ("mnt", CLONE_NEWNS), ("uts", CLONE_NEWUTS)),
        *(("ipc", CLONE_NEWIPC), ("cgroup", CLONE_NEWCGROUP)),
    )
    try:
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_CLOEXEC)
        found = [
            (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind)
            for name, kind in names
            if os.stat(f"/proc/{pid}/ns/{name}").st_ino != os.stat(f"/proc/self/ns/{name}").st_ino
        ]
    except OSError:
        return False
    if not all(libc.setns(handle, kind) == 0 for handle, kind in found):
        return False
    os.fchdir(root)
    with contextlib.nullcontext() if found else contextlib.suppress(PermissionError):  # then it is our own
        os.chroot(".")
    return True


def _isolate(launch: Launch) -> list[str]:
    """Namespaces, kernel settings and files of a container. Returns what could not be done as asked."""
    notes: list[str] = []
    needs_mounts = bool(launch.mounts or launch.read_only_root or launch.root)
    own_mounts = needs_mounts and rootfs.separate_mounts()
    if launch.own_ipc:
        checked(libc.unshare(CLONE_NEWIPC), "a namespace for shared memory")
    for name, value in launch.sysctls.items():
        with rootfs.named(f"sysctl {name}"), open(f"/proc/sys/{name.replace('.', '/')}", "w") as setting:
            setting.write(value)
    if launch.own_processes:
        libc.unshare(CLONE_NEWCGROUP)
    if needs_mounts and not own_mounts:
        notes.append("no volumes are mounted, for mount namespaces are not permitted here")
    if launch.root and own_mounts:
        notes += rootfs.enter_image(launch)
    elif launch.root:
        os.chroot(launch.root)
        os.chdir("/")
    elif own_mounts:
        rootfs.enter_machine_root(launch)
    if launch.hostname and libc.unshare(CLONE_NEWUTS) == 0:
        hostname = launch.hostname.encode()
        libc.sethostname(hostname, len(hostname))
    return notes


def _restrict(launch: Launch) -> None:
    """Give up rights. A filter needs the rights of root, or the promise never to gain any; the latter is kept by it."""
    if launch.capabilities is not None:
        for number in range(HIGHEST_CAPABILITY + 1):
            if number not in launch.capabilities:
                libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    before = bool(launch.seccomp) and os.geteuid() == 0 and not launch.no_new_privileges
    if before:
        seccomp.apply(launch.seccomp)
    _become(launch)
    if launch.no_new_privileges or (launch.seccomp and not before):
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if launch.seccomp and not before:
        seccomp.apply(launch.seccomp)


def _become(launch: Launch) -> None:
    if os.geteuid() != 0:
        return
    if launch.uid:
        for descriptor in (0, 1, 2):  # so that the program may open /dev/stdout again
            if not stat.S_ISCHR(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
                with contextlib.suppress(OSError):
                    os.fchown(descriptor, launch.uid, -1)
    try:
        os.setgroups(list(launch.groups))
    except PermissionError:
        if launch.groups or launch.uid or launch.gid:
            raise
        # A root without rights stays what it is, with the groups it has.
    if launch.gid is not None:
        os.setgid(launch.gid)
    if launch.uid is not None:
        os.setuid(launch.uid)
