"""An event loop whose clock jumps.

Nothing here waits: when no callback is ready to run, the clock moves to the next timer at once. An hour of back-off,
lease renewal and pod start-up takes milliseconds, and takes the same course every time: timers fire in the order of
their times, callbacks in the order in which they were scheduled, and `random` starts from a fixed seed.

    from kohort.testing import virtual_time

    def test_lease_expires() -> None:
        async def program() -> None:
            await asyncio.sleep(3600)
        virtual_time.run(program())

The clock stands still while work handed to a thread is unfinished; and while pipes, child
processes or connections to other processes are open it does not jump but runs, `speed` times as fast as a real one. On
a machine with more work than processors it runs slower, because other processes do, too: a timeout leaves them the same
processor time.
Connections that both begin and end in this process (a webhook server and its caller, say) do not count: nothing arrives
there that the program has not sent itself. Programs that use none of these are exactly reproducible.

A test that waits for something that cannot happen any more (no timer, no thread, no file descriptor) does not hang:
`Stuck` is raised and names the tasks with the line each of them waits at.

How it works: asyncio computes how long it may sleep and passes this to the selector. The selector here moves the clock
by that amount instead of sleeping. So all of asyncio is used as it is: timeouts, task groups, streams, subprocesses.
"""

import asyncio
import os
import random
import selectors
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from kohort.objects.json_types import Json
from kohort.testing import open_sockets

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

EPOCH = 1_767_225_600.0
"""2026-01-01T00:00:00Z: the wall time at which every virtual day begins."""
DAY = 24 * 3600.0
_FOREIGN_THREAD_SECONDS = 5.0
_STEP_SECONDS = 0.01
_DELIVERY_SECONDS = 0.0001
"""How long a busy kernel may take to move bytes between two sockets of this process."""
_MOST_SLOWDOWN = 4.0
"""Some tests let much time pass while a process runs; on a busy machine they must still end."""
_ASYNCIO = asyncio.__file__.removesuffix("__init__.py")


class Stuck(RuntimeError):
    """Every task waits and nothing can wake any of them, or the program runs for too long."""


def slowdown(load: float, processors: int) -> float:
    """How many times longer other processes need for their work than on a quiet machine.

    >>> slowdown(load=1.5, processors=2), slowdown(load=5.0, processors=2), slowdown(load=100.0, processors=2)
    (1.0, 2.5, 4.0)
    """
    return min(max(1.0, load / processors), _MOST_SLOWDOWN)


def machine_load() -> float:
    """How many processes ran or wanted to, on average over the last minute."""
    return os.getloadavg()[0]


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(
        self,
        *,
        epoch: float = EPOCH,
        speed: float = 10.0,
        limit: float = 30 * DAY,
        load: Callable[[], float] = machine_load,
    ) -> None:
        self._now = 0.0
        self._epoch = epoch
        self._limit = limit
        self._in_threads = 0
        super().__init__(_JumpingSelector(self, speed, load))

    def time(self) -> float:
        return self._now

    def wall_time(self) -> float:
        """Seconds since 1970, as `kohort.kube.clock` sees them."""
        return self._epoch + self._now

    def jump(self, seconds: float) -> None:
        """Move the clock by hand; timers in between fire late, as after a suspend."""
        self._now += seconds
        if self._now > self._limit:
            self._limit = float("inf")
            raise Stuck(f"still running after {self._now / DAY:.0f} virtual days:\n{_describe_tasks(self)}")

    def jump_to_next_timer(self, distance: float) -> None:
        """`distance` is what asyncio computed as time - now; adding it to now again would miss the time by a rounding
        error, and a timer would fire a little before its time."""
        self.jump(distance)
        timers: Json = getattr(self, "_scheduled", ())
        if timers and abs(timers[0].when() - self._now) < 1e-6:
            self._now = timers[0].when()

    @property
    def wake_up_pipe(self) -> int:
        pipe: Json = getattr(self, "_ssock", None)
        return -1 if pipe is None else int(pipe.fileno())

    @property
    def busy_threads(self) -> int:
        return self._in_threads

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], R], *args: *Ts) -> "asyncio.Future[R]":
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: "asyncio.Future[R]") -> None:
        self._in_threads -= 1


class _JumpingSelector(selectors.BaseSelector):
    """A real selector that does not sleep, but moves the loop's clock."""

    def __init__(self, loop: VirtualTimeLoop, speed: float, load: Callable[[], float]) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()
        self._speed = speed
        self._load = load
        self._processors = os.cpu_count() or 1

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or timeout == 0:
            return ready
        if self._loop.busy_threads:
            return self._real.select(None)
        if self._watches_something():
            return self._run_fast(timeout)
        if len(self._real.get_map()) > 1 and (ready := self._real.select(_DELIVERY_SECONDS)):
            return ready
        if timeout is None:
            return self._nothing_left()
        self._loop.jump_to_next_timer(timeout)
        return ready

    def _run_fast(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """In short steps: the descriptor that keeps the clock from jumping may be closed at any moment, and the thread
        that waits for a process may be one of an earlier loop, which does not wake this one."""
        if timeout is None:
            return self._real.select(_STEP_SECONDS)
        speed = self._speed / slowdown(self._load(), self._processors)
        step = min(timeout, _STEP_SECONDS * speed)
        start = time.monotonic()
        ready = self._real.select(step / speed)
        passed = (time.monotonic() - start) * speed if ready else step
        self._loop.jump_to_next_timer(min(passed, step))
        return ready

    def _watches_something(self) -> bool:
        """Whether another process or the outside may cause an event."""
        if threading.active_count() > 1 and any(
            thread.name.startswith("asyncio-waitpid") for thread in threading.enumerate()
        ):
            return True
        registered = self._real.get_map()
        # The pipe through which threads wake the loop is always there.
        return len(registered) > 1 and open_sockets.may_receive_from_outside(
            key.fd for key in registered.values() if key.fd != self._loop.wake_up_pipe
        )

    def _nothing_left(self) -> list[tuple[selectors.SelectorKey, int]]:
        # A thread that has just ended may have written to the wake-up pipe since the last select.
        wait = _FOREIGN_THREAD_SECONDS if threading.active_count() > 1 else 0
        if ready := self._real.select(wait):
            return ready
        raise Stuck(f"nothing is left that could wake any of these tasks:\n{_describe_tasks(self._loop)}")

    def register(self, fileobj: "FileDescriptorLike", events: int, data: object = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: "FileDescriptorLike", events: int, data: object = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> "Mapping[FileDescriptorLike, selectors.SelectorKey]":
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


def _describe_tasks(loop: asyncio.AbstractEventLoop) -> str:
    return "\n".join(sorted(f"  {task.get_name()} at {_place(task)}" for task in asyncio.all_tasks(loop)))


def _place(task: "asyncio.Task[object]") -> str:
    """The innermost line outside of asyncio at which a task waits."""
    awaited: Json = task.get_coro()
    place = "its beginning"
    while (frame := getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)) is not None:
        if _ASYNCIO not in frame.f_code.co_filename:
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return place


def new_loop(seed: int = 0) -> VirtualTimeLoop:
    """A loop with its clock at zero, and the `random` module at a known state."""
    random.seed(seed)
    return VirtualTimeLoop()


def run(program: Coroutine[object, None, R], *, seed: int = 0) -> R:
    """Run a coroutine on a fresh virtual loop."""
    state = random.getstate()
    try:
        with asyncio.Runner(loop_factory=partial(new_loop, seed)) as runner:
            return runner.run(program)
    finally:
        random.setstate(state)
