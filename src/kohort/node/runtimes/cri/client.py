"""Calls of a container runtime, each with its deadline.

A method that a runtime does not have is asked for once per connection: `Unsupported` is raised from then on without a
call. A connection that is made anew may lead to another version of the runtime, so the method is asked for again. Some
runtimes answer UNKNOWN with the words "not implemented" for such a method; that counts as the same.
"""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final, TypeVar

from kohort.node.grpc.client import Channel
from kohort.node.grpc.codec import Message
from kohort.node.grpc.status import Code, Method, RpcError
from kohort.node.runtimes.cri import messages as cri

SECONDS: Final = 120.0
SANDBOX_SECONDS: Final = 240.0

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


class Unsupported(RpcError):
    """The runtime is too old for a method."""


class CriClient:
    def __init__(self, socket: Path, images: Path | None = None) -> None:
        """`images` is the socket of the image service, if that is another one."""
        self._runtime = Channel(socket)
        self._images = Channel(images) if images is not None else self._runtime
        self._unsupported: dict[str, int] = {}
        """Methods that the runtime does not have, each with the number of the connection on which it said so."""

    @property
    def socket(self) -> Path:
        return self._runtime.socket

    @property
    def connection(self) -> int:
        """The number of the open connection to the runtime service; 0 if none is open."""
        return self._runtime.connection

    async def call(self, method: Method[Q, A], request: Q, *, timeout: float | None = SECONDS) -> A:
        """Raises RpcError."""
        self._check(method.path)
        try:
            return await self._channel(method.path).call(method, request, timeout=timeout)
        except RpcError as problem:
            raise self._noted(method.path, problem) from problem

    async def call_unless_gone(self, method: Method[Q, A], request: Q, *, timeout: float | None = SECONDS) -> None:
        """For stopping and removing: something that does not exist any more is not a failure. Raises RpcError."""
        try:
            await self.call(method, request, timeout=timeout)
        except RpcError as problem:
            if problem.code != Code.NOT_FOUND:
                raise

    async def events(self) -> AsyncGenerator[cri.ContainerEventResponse, None]:
        """What happens to containers and sandboxes from now on. Raises RpcError."""
        self._check(cri.CONTAINER_EVENTS.path)
        try:
            async for event in self._runtime.stream(cri.CONTAINER_EVENTS, cri.GetEventsRequest()):
                yield event
        except RpcError as problem:
            raise self._noted(cri.CONTAINER_EVENTS.path, problem) from problem

    async def close(self) -> None:
        await self._runtime.close()
        if self._images is not self._runtime:
            await self._images.close()

    def _channel(self, path: str) -> Channel:
        return self._images if path.startswith(cri.IMAGES) else self._runtime

    def _check(self, path: str) -> None:
        if path in self._unsupported and self._unsupported[path] == self._channel(path).connection:
            raise Unsupported(Code.UNIMPLEMENTED, "the runtime does not have this method", path.rpartition("/")[2])

    def _noted(self, path: str, problem: RpcError) -> RpcError:
        missing = problem.code == Code.UNKNOWN and "not implemented" in problem.detail
        if problem.code != Code.UNIMPLEMENTED and not missing:
            return problem
        if connection := self._channel(path).connection:
            self._unsupported[path] = connection
        return Unsupported(Code.UNIMPLEMENTED, problem.detail, path.rpartition("/")[2])
