"""Sends the requests of a client: headers, rate limit, metrics, and retries.

A request is repeated only when the server asked for it (429 or 5xx with `Retry-After`: it did not act on the request)
or when a read got no answer. A write without an answer is never repeated here, because it may have happened; the
reconciler that sent it reads the state again and decides.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Final, cast

from kohort.kube import errors
from kohort.kube.errors import ApiError
from kohort.kube.http import Request, Response, Transport
from kohort.kube.metrics import Metrics
from kohort.kube.object_identity import T
from kohort.kube.ratelimit import TokenBucket
from kohort.kube.request_encoding import Selection
from kohort.kube.watch_frames import Bookmark, FrameDecoder, LineSplitter, Unreadable, WatchEvent

JSON: Final = "application/json"
_METADATA: Final = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_METADATA_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_RETRIES: Final = 5
_TURN: Final = 100
"""Events after which a busy watch yields to other tasks: 100 of them take some milliseconds."""


class Exchange:
    def __init__(
        self,
        transport: Transport,
        *,
        user_agent: str,
        metrics: Metrics | None = None,
        limiter: TokenBucket | None = None,
    ) -> None:
        self.transport = transport
        self.user_agent = user_agent
        self.metrics = metrics
        self._limiter = limiter

    async def close(self) -> None:
        await self.transport.close()

    def headers(self, *, accept: str = JSON, content_type: str = "") -> dict[str, str]:
        headers = {"accept": accept, "user-agent": self.user_agent}
        if content_type:
            headers["content-type"] = content_type
        return headers

    async def send(self, request: Request) -> bytes:
        """The body of the response. Raises ApiError for a status other than 2xx."""
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._once(request)
            except errors.Unreachable:
                if request.method != "GET" or attempt > _RETRIES:
                    raise
                pause = 0.05 * 2**attempt
            else:
                if response.status < 400:
                    return cast(bytes, response.body)
                asked = _retry_after(response)
                if asked is None or attempt > _RETRIES:
                    raise _failure(response)
                pause = asked
            await asyncio.sleep(pause)

    async def _once(self, request: Request) -> Response:
        if self._limiter is not None:
            await self._limiter.take()
        clock = asyncio.get_running_loop().time
        start = clock()
        status = 0
        try:
            response = await self.transport.send(request)
            status = response.status
            return response
        finally:
            if self.metrics:
                self.metrics.request(request.method, status, clock() - start)

    async def list_bytes(self, selection: Selection, query: Mapping[str, str] = {}) -> bytes:
        """The undecoded answer to a list request."""
        parameters = selection.query() + tuple((name, value) for name, value in query.items() if value)
        headers = self.headers(accept=_METADATA_LIST if selection.metadata_only else JSON)
        return await self.send(Request("GET", selection.resource.path(selection.namespace), parameters, headers))

    async def watch_stream(
        self, selection: Selection, view: type[T], query: Mapping[str, str] = {}
    ) -> AsyncGenerator[WatchEvent[T] | Bookmark | Unreadable, None]:
        """Everything that one watch request brings, bookmarks included. ERROR frames are raised."""
        parameters = (
            ("watch", "true"),
            *selection.query(),
            *((name, value) for name, value in query.items() if value),
        )
        path = selection.resource.path(selection.namespace)
        headers = self.headers(accept=_METADATA if selection.metadata_only else JSON)
        decoder = FrameDecoder(view)
        count = self.metrics.watch_events(selection.resource.qualified) if self.metrics else None
        async with self.transport.stream(Request("GET", path, parameters, headers)) as stream:
            if self.metrics:
                self.metrics.request("WATCH", stream.status, 0.0)
            if stream.status != 200:
                raise errors.from_response(stream.status, b"".join([chunk async for chunk in stream]))
            busy = 0
            lines = LineSplitter()
            async for chunk in stream:
                for line in lines.feed(chunk):
                    event = decoder.decode(line)
                    if count:
                        count.inc()
                    yield event
                    busy += 1
                    if busy % _TURN == 0:
                        await asyncio.sleep(0)


def _retry_after(response: Response) -> float | None:
    """How long the server asked us to wait before trying again, if it did."""
    text = response.headers.get("retry-after", "")
    if text.isdigit() and (response.status == 429 or response.status >= 500):
        return float(text)
    return None


def _failure(response: Response) -> ApiError:
    return errors.from_response(response.status, cast(bytes, response.body))
