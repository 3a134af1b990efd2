"""Bodies take memory only when their sender may send them, only for a time, and only so much of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.cluster.apiserver.caller import AllowAll

from kohort.cluster.apiserver.auth.model import ANONYMOUS, User
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.http.body_budget import BodyBudget, ReadDeadlines
from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.errors import ApiError

PATH = "/api/v1/namespaces/default/configmaps"


def authenticate(headers: object, _: object) -> User:
    assert isinstance(headers, dict)
    name = headers.get("x-test-user", "")
    return User(name) if name else ANONYMOUS


@pytest.fixture
async def front() -> AsyncIterator[HttpsServer]:
    authorizer = AllowAll()
    authorizer.refused.add(ANONYMOUS.name)
    server = ApiServer(open_store(None), Catalog(builtin_kinds()), authorizer)
    front = HttpsServer(server, authenticate, deadlines=ReadDeadlines(head=0.05, body=0.05))
    await front.start()
    yield front
    await front.stop()
    await server.close()


class Sender:
    """One connection that sends the head of a request and as much of the body as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, front: HttpsServer) -> "Sender":
        return cls(*await asyncio.open_connection("127.0.0.1", front.port))

    async def head(self, user: str = "", *, framing: str = "Content-Length: 3000000") -> None:
        who = f"X-Test-User: {user}\r\n" if user else ""
        self.writer.write(f"POST {PATH} HTTP/1.1\r\nHost: h\r\n{who}{framing}\r\n\r\n".encode())
        await self.writer.drain()

    async def answer(self) -> bytes:
        return await self.reader.read(65536)

    def close(self) -> None:
        self.writer.close()


@pytest.mark.parametrize(
    "framing", ["Content-Length: 3000000", "Transfer-Encoding: chunked", "Content-Length: 9999999"]
)
async def test_a_sender_without_permission_is_refused_before_the_body_is_read(front: HttpsServer, framing: str) -> None:
    sender = await Sender.to(front)
    await sender.head(framing=framing)
    answer = await sender.answer()
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"connection: close" in answer
    sender.close()


async def test_a_body_that_does_not_end_has_a_deadline(front: HttpsServer) -> None:
    sender = await Sender.to(front)
    await sender.head("jane")
    sender.writer.write(b"{")
    assert (await sender.answer()).startswith(b"HTTP/1.1 408 ")
    sender.close()


async def test_a_head_that_does_not_end_has_a_deadline(front: HttpsServer) -> None:
    sender = await Sender.to(front)
    sender.writer.write(b"GET / HTTP/1.1\r\nHost: ")
    with contextlib.suppress(ConnectionResetError):
        assert await sender.answer() == b"", "closed without an answer"
    sender.close()


async def test_a_sender_with_permission_is_answered_after_the_body(front: HttpsServer) -> None:
    sender = await Sender.to(front)
    body = b'{"metadata":{"name":"x"}}'
    await sender.head("jane", framing=f"Content-Length: {len(body)}")
    sender.writer.write(body)
    assert (await sender.answer()).startswith(b"HTTP/1.1 201 ")
    sender.close()


def test_one_user_cannot_take_the_memory_of_the_others() -> None:
    budget = BodyBudget(total=100, of_user=40)
    budget.take("a", 40)
    with pytest.raises(ApiError) as refused:
        budget.take("a", 1)
    assert refused.value.code == 429
    assert refused.value.retry_after == 1
    budget.take("b", 40)
    with pytest.raises(ApiError):
        budget.take("c", 21)
    budget.take("c", 20)
    budget.give_back("a", 40)
    budget.take("c", 20)
    assert budget.taken == 80
