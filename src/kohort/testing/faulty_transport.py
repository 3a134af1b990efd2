"""The mechanics behind `faults`: a transport that asks before every step what shall go wrong."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, Protocol

import msgspec

from kohort.kube import errors
from kohort.kube.http import Request, Response, Stream, Transport
from kohort.kube.tasks import cancel_all
from kohort.kube.watch_frames import INITIAL_EVENTS_END, Lines
from kohort.testing.request_matching import is_watch


class Answer(msgspec.Struct, frozen=True):
    """What happens to a request."""

    error: errors.ApiError | None = None
    reaches_server: bool = False
    delay: float = 0.0


class Decisions(Protocol):
    crashed: asyncio.Event

    def answer_to(self, request: Request) -> Answer: ...
    def dies_at(self, request: Request) -> Literal["before", "after"] | None: ...
    def event_fault(self, request: Request) -> Literal["drop", "duplicate"] | None: ...
    def delay_of(self, request: Request) -> float: ...
    def holds(self, request: Request) -> bool: ...
    def crash(self) -> None: ...
    def opened(self, stream: "BrokenStream") -> None: ...
    def closed(self, stream: "BrokenStream") -> None: ...


class FaultyTransport:
    def __init__(self, inner: Transport, decisions: Decisions) -> None:
        self._inner = inner
        self._decisions = decisions

    async def send(self, request: Request) -> Response:
        await self._survive()
        death = self._decisions.dies_at(request)
        if death == "before":
            await self._die()
        answer = self._decisions.answer_to(request)
        if answer.delay:
            await asyncio.sleep(answer.delay)
        response = await self._inner.send(request) if answer.reaches_server else Response(0, {})
        if death == "after":
            await self._die()
        await self._survive()
        return response if answer.error is None else _refusal(answer.error)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        await self._survive()
        answer = self._decisions.answer_to(request)
        if answer.delay:
            await asyncio.sleep(answer.delay)
        if answer.error is not None:
            yield _Refused(_refusal(answer.error))
            return
        async with self._inner.stream(request) as inner:
            broken = BrokenStream(inner, request, self._decisions)
            self._decisions.opened(broken)
            try:
                yield broken
            finally:
                self._decisions.closed(broken)
                await broken.close()

    async def close(self) -> None:
        """The inner transport belongs to whoever made it."""

    async def _survive(self) -> None:
        if self._decisions.crashed.is_set():
            await asyncio.get_running_loop().create_future()

    async def _die(self) -> None:
        self._decisions.crash()
        await self._survive()


def _refusal(error: errors.ApiError) -> Response:
    if isinstance(error, errors.Unreachable):
        raise error
    headers = {"content-type": "application/json"}
    if error.retry_after:
        headers["retry-after"] = str(error.retry_after)
    return Response(error.code, headers, msgspec.json.encode(error.to_json()))


class _Refused:
    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self._body = response.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self._body, bytes)
        yield self._body


class BrokenStream:
    """Reads eagerly, so that the server never takes its reader for slow, and hands out when it is time.

    Faults concern live events only: a watch that begins with the whole state would never get through it otherwise.
    """

    def __init__(self, inner: Stream, request: Request, decisions: Decisions) -> None:
        self.request = request
        self.status = inner.status
        self.headers = inner.headers
        self._decisions = decisions
        self._frames: deque[tuple[float, bytes]] = deque()
        self._ended = False
        self._problem: Exception | None = None
        self._wakeup = asyncio.Event()
        self._live = request.param("sendInitialEvents") != "true"
        self._pump = asyncio.create_task(self._read(inner), name=f"frames of {request.path}")

    def wake(self) -> None:
        self._wakeup.set()

    def cut(self) -> None:
        """The connection breaks; what is on its way is lost with it."""
        self._frames.clear()
        self._ended = True
        self._problem = errors.Unreachable("connection reset")
        self._pump.cancel()
        self.wake()

    async def close(self) -> None:
        await cancel_all(self._pump)

    async def _read(self, inner: Stream) -> None:
        clock = asyncio.get_running_loop().time
        lines = Lines()
        try:
            async for chunk in inner:
                frames = lines.feed(chunk) if is_watch(self.request) else (chunk,)
                self._frames.extend((clock(), frame) for frame in frames)
                self.wake()
        except errors.ApiError as problem:
            self._problem = problem
        self._ended = True
        self.wake()

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
        """True when a frame may be handed out, False when there will be none."""
        clock = asyncio.get_running_loop().time
        while True:
            self._wakeup.clear()
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
                    await self._wakeup.wait()
            except TimeoutError:
                continue
