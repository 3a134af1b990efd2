"""The data directory of a cluster, and the lock that makes it belong to one process.

    store.db         all objects                      pki/        certificates, keys, the administrator's token
    store.db-reserve room for writes to a full disk
    kubeconfig       for kubectl                      kohort.log  log of a detached process, see `log_rotation`
    kohort.lock      pid of the running process       volumes/    provisioned volumes
    supervisor.lock  pid of its supervisor            *.json      see `status_records`
    node/            state of this machine's pods     nodes       nodes that the last start ran

The kernel releases a lock when its process ends, in whatever way, so there is no stale lock to clean up. The lock file
holds the pid of its owner. The directory itself is locked as well: if the lock file is deleted while the process runs,
a second process is refused all the same, and `/proc` says which process holds the lock. Pods outlive a process that was
killed; the next process adopts them, or `kohort down` ends them.
"""

import contextlib
import errno
import fcntl
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from kohort.kube.private_files import NotPrivate, private_directory
from kohort.up.lock_holder import flock_holder, is_running
from kohort.up.new_files import NewFiles, missing_directories, new_names, remove_empty
from kohort.up.startup_errors import CannotStart
from kohort.up.status_records import SUPERVISOR

MARKERS = ("store.db", "kohort.lock", "pki", "node")
"""One of these is in every directory that a cluster has used."""
STOP_SECONDS = 30.0
KILL_SECONDS = 10.0
"""Until a killed process is gone: the kernel may have to finish what it waits for."""
LEAST_ROOM = 1 << 20
"""Bytes on the disk below which a write that fails needs no other explanation."""
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_POLL_SECONDS = 0.02
_TRIES = 5
_HOLDER_TRIES = 100


def default_directory() -> Path:
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "share") / "kohort"


def directory_in_use(kubeconfigs: Sequence[Path]) -> Path | None:
    """The data directory of the cluster whose kubeconfig is in use; None if that is not one of a data directory. Of
    several files the first one names the current context."""
    if not kubeconfigs:
        return None
    file = kubeconfigs[0].expanduser().resolve()
    found = DataDirectory(file.parent)
    used = any((found.path / marker).exists() for marker in MARKERS)
    return found.path if file == found.kubeconfig and used else None


class Stopped(msgspec.Struct, frozen=True):
    pid: int
    killed: tuple[int, ...] = ()
    """Processes that did not end when they were asked to: the cluster, its supervisor, or both."""


class DataDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.store = self.path / "store.db"
        self.pki = self.path / "pki"
        self.kubeconfig = self.path / "kubeconfig"
        self.log = self.path / "kohort.log"
        self.volumes = self.path / "volumes"
        self.node = self.path / "node"
        self._lock = self.path / "kohort.lock"
        self._supervisor_lock = self.path / "supervisor.lock"

    def create(self) -> list[Path]:
        """Make the directory if it is not there; returns the directories that were made, innermost first."""
        missing = missing_directories(self.path)
        try:
            private_directory(self.path, MARKERS)
        except OSError as error:
            remove_empty(missing)
            raise self._not_usable(error) from error
        return missing

    def _not_usable(self, error: OSError) -> CannotStart:
        match error:
            case NotPrivate():
                return CannotStart(f"the data directory cannot be used: {error} (--data-dir)")
            case FileExistsError() | NotADirectoryError():
                return CannotStart(f"{self.path} is not a directory; choose another with --data-dir")
            case _:
                return self.unusable(error)

    @contextlib.contextmanager
    def owned(self) -> Iterator[NewFiles]:
        """Hold the directory: no other process can use it meanwhile. What was made in it is removed if the body raises
        before it calls `keep`."""
        made = self.create()
        with contextlib.ExitStack() as stack:
            stack.callback(remove_empty, made)
            descriptor, is_new = self._take(self._lock)
            stack.callback(os.close, descriptor)
            if (supervisor := self.supervisor()) not in (None, os.getppid()):
                raise self._in_use(f"pid {supervisor}, which is about to restart it")
            stack.callback(os.close, self._lock_directory())
            before = set(os.listdir(self.path)) - ({self._lock.name} if is_new else set())
            new = NewFiles(self.path, made, partial(new_names, self.path, before))
            _write_pid(descriptor)
            try:
                yield new
            except BaseException:
                new.remove()
                raise

    @contextlib.contextmanager
    def supervised(self) -> Iterator[NewFiles]:
        """Hold the lock of the supervisor, which restarts the owner of this directory after a crash. What the
        supervisor has made is removed if the body does not call `keep`."""
        made = self.create()
        with contextlib.ExitStack() as stack:
            stack.callback(remove_empty, made)
            if (owner := self.owner()) is not None:
                raise self._in_use(f"pid {owner}")
            has_record = (self.path / SUPERVISOR).exists()
            descriptor, is_new = self._take(self._supervisor_lock)
            stack.callback(os.close, descriptor)
            _write_pid(descriptor)
            names = ([] if has_record else [SUPERVISOR]) + ([self._supervisor_lock.name] if is_new else [])
            new = NewFiles(self.path, made, lambda: names)
            try:
                yield new
            finally:
                new.remove()

    def _take(self, lock: Path) -> tuple[int, bool]:
        """A descriptor that holds the exclusive lock of this file, and whether the file is new. A start that was
        refused may have removed the file before its lock was released; then there is another file to lock."""
        while True:
            is_new = not lock.exists()
            with contextlib.ExitStack() as stack:
                descriptor = self._open(lock, os.O_RDWR)
                stack.callback(os.close, descriptor)
                try:
                    self._lock_exclusively(descriptor)
                except BlockingIOError as error:
                    raise self._in_use(f"pid {self._read_pid(descriptor)}") from error
                if _has_name(descriptor, lock):
                    stack.pop_all()
                    return descriptor, is_new

    def _lock_exclusively(self, descriptor: int) -> None:
        """`owner` takes a shared lock for a moment, so a refusal counts only if it repeats."""
        for _ in range(_TRIES):
            with contextlib.suppress(BlockingIOError):
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            time.sleep(_POLL_SECONDS)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _in_use(self, by: str) -> CannotStart:
        return CannotStart(
            f"a cluster runs on {self.path} already ({by}): "
            f"{self.export}; stop it with {self._down()}, or choose another --data-dir"
        )

    def _lock_directory(self) -> int:
        try:
            descriptor = os.open(self.path, _OPEN_DIRECTORY)
        except OSError as error:
            raise self.unusable(error) from error
        try:
            self._lock_exclusively(descriptor)
        except BlockingIOError as error:
            os.close(descriptor)
            holder = self._directory_holder()
            raise self._in_use(f"pid {holder}" if holder else "a process that ends now") from error
        except OSError:
            pass  # Some network file systems cannot lock directories; there the lock file has to do.
        return descriptor

    @property
    def export(self) -> str:
        """The line that lets kubectl find this cluster."""
        return f"export KUBECONFIG={shlex.quote(str(self.kubeconfig))}"

    def _down(self) -> str:
        return f"kohort down{self._option}"

    @property
    def start_command(self) -> str:
        return f"kohort up --detach{self._option}"

    @property
    def _option(self) -> str:
        """What commands need in order to be about this directory."""
        return f" --data-dir {shlex.quote(str(self.path))}" if self.path != default_directory() else ""

    def owner(self) -> int | None:
        """The pid of the running process, None when none runs."""
        return self._holder(self._lock) or self._directory_holder()

    def supervisor(self) -> int | None:
        """The pid of the process that restarts the owner, None when there is none."""
        return self._holder(self._supervisor_lock)

    def _holder(self, lock: Path) -> int | None:
        try:
            descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._read_pid(descriptor)
        finally:
            os.close(descriptor)
        return None

    def _directory_holder(self) -> int | None:
        """The pid of the process that holds the lock of the directory: the owner, though its lock file was deleted."""
        try:
            descriptor = os.open(self.path, _OPEN_DIRECTORY)
        except OSError:
            return None
        try:
            for _ in range(_HOLDER_TRIES):
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    if (pid := flock_holder(self.path)) is not None:
                        return pid
                    # A process that ends shows no open files any more, and the kernel releases its locks after that.
                    time.sleep(_POLL_SECONDS)
                else:
                    return None
        except OSError:
            return None
        finally:
            os.close(descriptor)
        raise CannotStart(
            f"a cluster runs on {self.path}, but its {self._lock.name} was deleted and /proc shows no process that "
            "holds the directory: end that process (SIGTERM), or choose another --data-dir"
        )

    def stop_owner(self, seconds: float = STOP_SECONDS) -> Stopped | None:
        """Ask the running process to end and wait until it has; None when none runs. What has not ended after
        `seconds` is killed.

        The supervisor, if there is one, gets the signal first: it passes it on and does not start another process. It
        waits for the process that it supervises, so one that hangs makes it wait as well; it is killed first, or it
        would start another process."""
        owner, supervisor = self.owner(), self.supervisor()
        killed: list[int] = []
        if supervisor is not None and not self._stop(supervisor, self.supervisor, signal.SIGTERM, seconds):
            self._kill(supervisor, self.supervisor)
            killed.append(supervisor)
        left = owner if owner is not None and self.owner() == owner else None
        if left is not None and (killed or not self._stop(left, self.owner, signal.SIGTERM, seconds)):
            self._kill(left, self.owner)
            killed.append(left)
        pid = owner or supervisor
        return None if pid is None else Stopped(pid, tuple(killed))

    def _kill(self, pid: int, holder: Callable[[], int | None]) -> None:
        if not self._stop(pid, holder, signal.SIGKILL, KILL_SECONDS):
            raise CannotStart(f"kohort (pid {pid}) does not end although it was killed; see {self.log}")

    def _stop(self, pid: int, holder: Callable[[], int | None], number: signal.Signals, seconds: float) -> bool:
        """Whether the process has ended in time after this signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while holder() == pid or is_running(pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def end_leftovers(self) -> int:
        """End the pods that a killed process has left, and give back what they held; returns how many there were."""
        if not self.node.is_dir() or self.owner() is not None:
            return 0
        import asyncio

        with self.owned():
            return asyncio.run(self.end_pods())

    def give_up_containers(self) -> str:
        """Forget pods in a container runtime that does not answer; says in words what is left."""
        if not self.node.is_dir() or self.owner() is not None:
            return ""
        import asyncio

        from kohort.node import stale_state_cleanup

        try:
            with self.owned():
                return asyncio.run(stale_state_cleanup.give_up_containers(self.node))
        except OSError as error:
            raise CannotStart(f"cannot give up the containers of {self.node}: {error}") from error

    async def end_pods(self) -> int:
        """As `end_leftovers`, for a process that holds the directory and runs no pods."""
        from kohort.node import stale_state_cleanup

        try:
            return await stale_state_cleanup.end(self.node)
        except OSError as error:
            raise CannotStart(f"cannot end what a killed kohort has left in {self.node}: {error}") from error

    @contextlib.contextmanager
    def logged(self) -> Iterator[tuple[int, NewFiles]]:
        """A descriptor that appends to the log, for a process in the background. If the body raises before it calls
        `keep`, the directory and the log are removed again if they are new, and what the process has left with them
        (it may have been ready a moment before it was stopped), unless another process uses them."""
        if (user := self._user()) is not None:
            raise self._in_use(f"pid {user}")
        made = self.create()
        before = set(os.listdir(self.path))
        log = {self.log.name} - before
        new = NewFiles(self.path, made, lambda: log | new_names(self.path, before) if self._user() is None else ())
        with contextlib.ExitStack() as stack:
            stack.callback(remove_empty, made)
            descriptor = self._open(self.log, os.O_WRONLY | os.O_APPEND)
            stack.callback(os.close, descriptor)
            try:
                yield descriptor, new
            except BaseException:
                new.remove()
                raise

    def _user(self) -> int | None:
        """The pid of a process that uses the directory."""
        return self.owner() or self.supervisor()

    def _open(self, path: Path, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self.unusable(error) from error

    def _read_pid(self, descriptor: int) -> int:
        """The pid in the lock file. Its owner writes it right after taking the lock, so wait for it if need be."""
        for _ in range(100):
            if text := os.pread(descriptor, 32, 0).decode().strip():
                return int(text)
            time.sleep(_POLL_SECONDS)
        raise CannotStart(f"{self._lock} is locked, but no pid is recorded in it; remove it if no kohort is running")

    def unready(self, problem: str) -> CannotStart:
        """The error of a cluster that cannot be set up here: a full disk if it is full, else `problem`."""
        if shutil.disk_usage(self.path).free < LEAST_ROOM:
            return self._full()
        return CannotStart(f"the cluster in {self.path} cannot be set up: {problem}")

    def _full(self) -> CannotStart:
        return CannotStart(f"the disk that holds {self.path} is full; make room and start again")

    def unusable(self, error: OSError) -> CannotStart:
        """The error of a start that cannot use the directory."""
        if error.errno == errno.ENOSPC:
            return self._full()
        return CannotStart(
            f"cannot write to the data directory {self.path}: {error.strerror}; "
            "make it writable, or choose another with --data-dir"
        )


def _write_pid(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def _has_name(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
