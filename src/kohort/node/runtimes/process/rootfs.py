"""The files that a container sees, in a mount namespace of its own. Nothing is ever made in an image or on the machine.

*With an image*, the root is an overlay: the image below, and above it a layer that belongs to this start of the
container alone. Mount points are made in that layer. /proc, /sys and /dev are new. The old root is out of reach
afterwards (`pivot_root`; a process that may call `chroot` could leave a mere `chroot`). Paths in an image may be links
(`/var/run -> /run`); they are followed inside of it only.

*With the machine's own root*, mounts are made in place, invisible to all others. Where there is nothing to mount on,
the nearest directory that is there is covered with one in memory that shows the same content (`mount_points`).

Where the kernel has no overlays for us, the image is mounted read-only, with /tmp, /var/tmp and /run in memory: several
containers may use it, so none may change it. What could not be done as asked is returned, to be reported.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Final

from kohort.node.runtimes.interface import Launch, Mount
from kohort.node.runtimes.process import mount_points
from kohort.node.sub_paths import open_sub_path
from kohort.node.syscalls import (
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MNT_DETACH,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_RELATIME,
    MS_REMOUNT,
    SyscallFailed,
    checked,
    libc,
    make_in_root,
    mount,
    open_in_root,
)

DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS: Final = (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"))
_HIDDEN: Final = (
    *("/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list"),
    *("/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/proc/interrupts", "/sys/firmware"),
    "/sys/devices/virtual/powercap",
)
_FIXED: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_IN_MEMORY: Final = ("/tmp", "/var/tmp", "/run")


def separate_mounts() -> bool:
    """A mount namespace of its own: no other process sees what is mounted in it. False if that is not permitted."""
    if libc.unshare(CLONE_NEWNS) != 0 and not (_may_be_in_user_namespace() and _enter_user_namespace()):
        return False
    return bool(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0)


def _may_be_in_user_namespace() -> bool:
    """Tried by another process, since there is no way back. Root that may not set file capabilities cannot have its own
    user there, and without its user a process can create nothing, not even in directories in memory."""
    child = os.fork()
    if child == 0:
        os._exit(0 if _enter_user_namespace() else 1)
    return os.waitpid(child, 0)[1] == 0


def _enter_user_namespace() -> bool:
    """A user namespace with this user and group alone, and a mount namespace that belongs to it."""
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
        return False
    try:
        for file, content in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{file}", "w") as table:
                table.write(content)
    except OSError:
        return False
    return True


def enter_machine_root(launch: Launch) -> None:
    """Mount everything in the machine's root, and then make that read-only if asked to: mounts stay what they are."""
    # A mount may cover the place where another one comes from: `/tmp`, when the node keeps its volumes below that.
    sources = [_opened(each) for each in launch.mounts]
    volumes: list[str] = []
    for each, source in zip(launch.mounts, sources, strict=True):
        if source:
            with contextlib.suppress(OSError) if each.optional else contextlib.nullcontext():
                with named(f"mount {each.target}"):
                    _make_place(
                        source,
                        each.target,
                        volumes,
                        os.path.join(_layer(launch), "root"),
                    )
                _bind(each, source, each.target, privileged=True)
                volumes.append(os.path.realpath(each.target))
    if launch.read_only_root:
        checked(_read_only("/"), "read-only /")
        for place in mount_points.shown:
            if not os.path.islink(place):
                _read_only(place)


def enter_image(launch: Launch) -> list[str]:
    """Make the root of a container from its image, mount everything in it, and enter it. Returns what could not be done
    as asked."""
    sources = [_opened(each) for each in launch.mounts]
    stage = os.path.join(_layer(launch), "root")
    notes = _layered(launch, stage)
    root = os.open(stage, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    notes += _kernel_files(launch, root)
    for each, source in zip(launch.mounts, sources, strict=True):
        if source:
            with contextlib.suppress(OSError) if each.optional else contextlib.nullcontext():
                with named(f"mount {each.target}"):
                    place = make_in_root(root, each.target, directory=os.path.isdir(source))
                _bind(each, source, _path(place), privileged=launch.privileged)
    if launch.directory:
        with contextlib.suppress(OSError):  # a file, or a read-only image: entering it says so
            os.close(make_in_root(root, launch.directory, directory=True))
    if launch.read_only_root:
        checked(_read_only(stage), "read-only root")
    _switch(stage)
    return notes


def _layer(launch: Launch) -> str:
    if not launch.layer and not launch.log:
        raise SyscallFailed("a container with files of its own needs a directory for them")
    return launch.layer or f"{launch.log}.layer"


def _layered(launch: Launch, stage: str) -> list[str]:
    """Mount the image at `stage`, with a layer of this container's own above it."""
    upper, work = (os.path.join(_layer(launch), name) for name in ("upper", "work"))
    for place in (stage, upper, work):
        os.makedirs(place, mode=0o755, exist_ok=True)
    flags = 0 if launch.privileged else MS_NODEV
    try:
        _overlay(launch.root, upper, work, stage, flags)
        return []
    except SyscallFailed:  # this file system may not be able to hold a layer; memory is
        pass
    memory = os.path.join(_layer(launch), "memory")
    os.makedirs(memory, exist_ok=True)
    try:
        mount("tmpfs", memory, "tmpfs", 0, "mode=0755")
        upper, work = f"{memory}/upper", f"{memory}/work"
        for place in (upper, work):
            os.mkdir(place, 0o755)
        _overlay(launch.root, upper, work, stage, flags)
        return []
    except OSError as problem:
        mount(launch.root, stage, "", MS_BIND | MS_REC)
        checked(_read_only(stage), "read-only root")
        for name in _IN_MEMORY:
            with contextlib.suppress(OSError):
                mount("tmpfs", f"{stage}{name}", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
        return [f"the root file system is read-only, for there is no overlay file system ({problem})"]


def _overlay(image: str, upper: str, work: str, stage: str, flags: int) -> None:
    """By descriptors: paths with commas or colons would be cut there."""
    opened = [os.open(place, os.O_PATH | os.O_CLOEXEC) for place in (image, upper, work)]
    try:
        options = ",".join(
            f"{name}={_path(descriptor)}"
            for name, descriptor in zip(("lowerdir", "upperdir", "workdir"), opened, strict=True)
        )
        user = "" if os.geteuid() == 0 and _in_first_user_namespace() else ",userxattr"
        mount("overlay", stage, "overlay", flags, options + user, what="overlay")
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _in_first_user_namespace() -> bool:
    with open("/proc/self/uid_map") as table:
        return table.read().split() == ["0", "0", "4294967295"]


def _kernel_files(launch: Launch, root: int) -> list[str]:
    """/proc, /sys and /dev. Without the right to mount new ones, those of the machine are shown."""
    notes: list[str] = []
    for name, kind, flags in (
        ("/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC),
        ("/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | (0 if launch.privileged else MS_RDONLY)),
    ):
        with _place(root, name) as place:
            if place:
                try:
                    mount(kind, place, kind, flags)
                except SyscallFailed as problem:
                    notes.append(f"{name} is the machine's own ({problem})")
                    with contextlib.suppress(SyscallFailed):
                        mount(name, place, "", MS_BIND | MS_REC)
    with _place(root, "/sys/fs/cgroup") as place, contextlib.suppress(SyscallFailed):
        if place and os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            read_only = 0 if launch.privileged else MS_RDONLY
            mount("cgroup2", place, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC | read_only)
    with _place(root, "/dev") as place:
        if place:
            _devices(launch, place)
    if not launch.privileged and not launch.unmasked_proc:
        _mask(root)
    return notes


def _devices(launch: Launch, place: str) -> None:
    if launch.privileged:
        mount("/dev", place, "", MS_BIND | MS_REC, what="/dev")
        memory = f"{place}/shm"
        if os.path.isdir(memory):
            mount(
                "tmpfs", memory, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=67108864", what="/dev/shm"
            )
        return
    mount("tmpfs", place, "tmpfs", MS_NOSUID, "mode=0755,size=65536k", what="/dev")
    # the descriptor behind `place` still leads to the directory below: open what is mounted there now
    with open_directory(os.path.realpath(place)) as dev:
        for name in DEVICES:
            with contextlib.suppress(OSError):
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=dev))
                mount(f"/dev/{name}", f"{_path(dev)}/{name}", "", MS_BIND, what=f"/dev/{name}")
        for name, leads_to in _LINKS:
            os.symlink(leads_to, name, dir_fd=dev)
        for name, kind, flags, options in (
            ("shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=67108864"),
            ("pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"),
        ):
            os.mkdir(name, 0o755, dir_fd=dev)
            with contextlib.suppress(SyscallFailed):
                mount(kind, f"{_path(dev)}/{name}", kind, flags, options)
        os.symlink("pts/ptmx", "ptmx", dir_fd=dev)


def _mask(root: int) -> None:
    """Files of the kernel that say too much are empty, and those that change the machine cannot be written."""
    for name in _HIDDEN:
        with _place(root, name, made=False) as place, contextlib.suppress(SyscallFailed):
            if place and os.path.isdir(place):
                mount("tmpfs", place, "tmpfs", MS_RDONLY, "size=0")
            elif place:
                mount("/dev/null", place, "", MS_BIND)
    for name in _FIXED:
        with _place(root, name, made=False) as place, contextlib.suppress(SyscallFailed):
            if place:
                mount(place, place, "", MS_BIND | MS_REC)
        with _place(root, name, made=False) as place:  # what was just mounted, not what is below it
            if place:
                _read_only(place)


def _switch(stage: str) -> None:
    """Make `stage` the root, and put the old one out of reach."""
    os.chdir(stage)
    if libc.pivot_root(b".", b".") == 0:
        checked(libc.umount2(b".", MNT_DETACH), "unmount the root of the machine")
    else:  # the machine runs from its first file system in memory, which cannot be moved
        os.chroot(".")
    os.chdir("/")


@contextlib.contextmanager
def _place(root: int, path: str, *, made: bool = True) -> Iterator[str]:
    """A path to something in a root that stays one; empty if it is not there and cannot be made."""
    try:
        found = make_in_root(root, path, directory=True) if made else open_in_root(root, path)
    except OSError:
        yield ""
        return
    try:
        yield _path(found)
    finally:
        os.close(found)


@contextlib.contextmanager
def open_directory(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _read_only(place: str) -> int:
    """The kernel requires that a remount repeats the restrictions that a mount has."""
    return _remounted(place, MS_RDONLY)


def _remounted(place: str, more: int) -> int:
    found = os.statvfs(place).f_flag
    kept = found & (os.ST_RDONLY | os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME)
    kept |= MS_RELATIME if found & os.ST_RELATIME else 0
    return int(libc.mount(None, os.fsencode(place), None, MS_BIND | MS_REMOUNT | kept | more, None))


def _opened(wanted: Mount) -> str:
    """A path to its source that stays one, whatever is mounted later; empty when it is missing and may be. Programs do
    not inherit what is opened here."""
    try:
        with named(f"mount {wanted.target}"):
            return _path(open_sub_path(wanted))
    except OSError:
        if wanted.optional:
            return ""
        raise


def _bind(wanted: Mount, source: str, target: str, *, privileged: bool) -> None:
    """A device that root makes in a volume is of no use, except to privileged containers."""
    where = os.path.realpath(target)
    mount(source, target, "", MS_BIND | MS_REC, what=wanted.target)
    more = (MS_RDONLY if wanted.read_only else 0) | (0 if privileged or _is_device(source) else MS_NODEV)
    if more:
        result = _remounted(where, more)
        if wanted.read_only:
            checked(result, f"read-only {wanted.target}")


def _is_device(path: str) -> bool:
    mode = os.stat(path).st_mode
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _make_place(source: str, target: str, volumes: list[str], stage: str) -> None:
    """Somewhere to mount on: in a volume if that is where it is, else in a directory in memory that covers the one of
    the machine."""
    if os.path.exists(target):
        return
    nearest = mount_points.nearest(target)
    in_volume = any(nearest == volume or nearest.startswith(f"{volume}/") for volume in volumes)
    if not in_volume and nearest not in mount_points.opened:
        mount_points.open_up(nearest, _mount_whole, stage)
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "a"):
            pass


def _mount_whole(source: str, place: str, kind: str) -> None:
    mount(source, place, kind, 0 if kind else MS_BIND | MS_REC)


@contextlib.contextmanager
def named(what: str) -> Iterator[None]:
    """Say what it was that failed."""
    try:
        yield
    except OSError as problem:
        raise SyscallFailed(f"{what}: {problem.strerror or problem}") from problem
