"""The transport behind `faults`: it asks before every request and every event which fault to inject."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, Protocol

import msgspec

from kohort.kube import errors
from kohort.kube.http import Request, Response, Stream, Transport
from kohort.kube.tasks import cancel_all
from kohort.kube.watch_frames import INITIAL_EVENTS_END, LineSplitter
from kohort.testing.request_matching import is_watch


class InjectedFault(msgspec.Struct, frozen=True):
    """What happens to a request instead of, or in addition to, its normal course."""

    error: errors.ApiError | None = None
    reaches_server: bool = False
    delay: float = 0.0


class FaultDecisions(Protocol):
    crashed: asyncio.Event

    def fault_for(self, request: Request) -> InjectedFault: ...
    def crash_point(self, request: Request) -> Literal["before", "after"] | None: ...
    def event_fault(self, request: Request) -> Literal["drop", "duplicate"] | None: ...
    def delay_of(self, request: Request) -> float: ...
    def holds(self, request: Request) -> bool: ...
    def crash(self) -> None: ...
    def opened(self, stream: "FaultyStream") -> None: ...
    def closed(self, stream: "FaultyStream") -> None: ...


class FaultyTransport:
    def __init__(self, inner: Transport, decisions: FaultDecisions) -> None:
        self._inner = inner
        self._decisions = decisions

    async def send(self, request: Request) -> Response:
        await self._block_if_crashed()
        crash_point = self._decisions.crash_point(request)
        if crash_point == "before":
            await self._crash()
        fault = self._decisions.fault_for(request)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        response = await self._inner.send(request) if fault.reaches_server else Response(0, {})
        if crash_point == "after":
            await self._crash()
        await self._block_if_crashed()
        return response if fault.error is None else _error_response(fault.error)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        await self._block_if_crashed()
        fault = self._decisions.fault_for(request)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.error is not None:
            yield _RejectedStream(_error_response(fault.error))
            return
        async with self._inner.stream(request) as inner:
            faulty = FaultyStream(inner, request, self._decisions)
            self._decisions.opened(faulty)
            try:
                yield faulty
            finally:
                self._decisions.closed(faulty)
                await faulty.close()

    async def close(self) -> None:
        """The caller closes the inner transport."""

    async def _block_if_crashed(self) -> None:
        if self._decisions.crashed.is_set():
            await asyncio.get_running_loop().create_future()

    async def _crash(self) -> None:
        self._decisions.crash()
        await self._block_if_crashed()


def _error_response(error: errors.ApiError) -> Response:
    if isinstance(error, errors.Unreachable):
        raise error
    headers = {"content-type": "application/json"}
    if error.retry_after:
        headers["retry-after"] = str(error.retry_after)
    return Response(error.code, headers, msgspec.json.encode(error.to_json()))


class _RejectedStream:
    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self._body, bytes)
        yield self._body


class FaultyStream:
    """Reads eagerly, so that the server does not take the client for a slow reader, and yields frames when they are
    due.

    Faults apply to live events only: a watch that begins with the whole state would never finish it otherwise.
    """

    def __init__(self, inner: Stream, request: Request, decisions: FaultDecisions) -> None:
        self.request = request
        self.status = inner.status
        self.headers = inner.headers
        self._decisions = decisions
        self._frames: deque[tuple[float, bytes]] = deque()
        self._ended = False
        self._problem: Exception | None = None
        self._changed = asyncio.Event()
        self._live = request.param("sendInitialEvents") != "true"
        self._reading = asyncio.create_task(self._read(inner), name=f"frames of {request.path}")

    def notify(self) -> None:
        self._changed.set()

    def cut(self) -> None:
        """The connection breaks; frames that were not yielded yet are lost."""
        self._frames.clear()
        self._ended = True
        self._problem = errors.Unreachable("connection reset")
        self._reading.cancel()
        self.notify()

    async def close(self) -> None:
        await cancel_all(self._reading)

    async def _read(self, inner: Stream) -> None:
        clock = asyncio.get_running_loop().time
        lines = LineSplitter()
        try:
            async for chunk in inner:
                frames = lines.feed(chunk) if is_watch(self.request) else (chunk,)
                self._frames.extend((clock(), frame) for frame in frames)
                self.notify()
        except errors.ApiError as problem:
            self._problem = problem
        self._ended = True
        self.notify()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while await self._until_due():
            _, frame = self._frames.popleft()
            if not is_watch(self.request):
                yield frame
                continue
            match self._fault(frame):
                case "drop":
                    self.cut()
                case "duplicate":
                    yield frame + b"\n" + frame + b"\n"
                case _:
                    yield frame + b"\n"
        if self._problem is not None:
            raise self._problem

    def _fault(self, frame: bytes) -> Literal["drop", "duplicate"] | None:
        if frame.startswith(b'{"type":"BOOKMARK"'):
            self._live = self._live or INITIAL_EVENTS_END.encode() in frame
            return None
        return self._decisions.event_fault(self.request) if self._live else None

    async def _until_due(self) -> bool:
        """True when a frame is due, False when there will be no more."""
        clock = asyncio.get_running_loop().time
        while True:
            self._changed.clear()
            wait: float | None = None
            if not self._decisions.crashed.is_set() and not self._decisions.holds(self.request):
                if self._frames:
                    wait = self._frames[0][0] + self._decisions.delay_of(self.request) - clock()
                    if wait <= 0:
                        return True
                elif self._ended:
                    return False
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue
