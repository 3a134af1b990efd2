"""Logs, line by line, however their bytes arrive."""

from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube.client import Client
from kohort.kube.errors import ApiError, NotFound
from kohort.kube.http import Request, Response
from kohort.kube.pod_logs import MOST_BYTES, log_lines
from kohort.kube.transport import InProcessTransport
from kohort.testing import virtual_time


async def read(chunks: Sequence[bytes], status: int = 200, seen: list[Request] | None = None) -> list[str]:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def handle(request: Request) -> Response:
        if seen is not None:
            seen.append(request)
        return Response(status, {}, body())

    client = Client(InProcessTransport(handle), user_agent="test")
    return [line async for line in log_lines(client, "n", "web-0", (("follow", "true"), ("container", "main")))]


async def test_the_request_is_that_of_the_api() -> None:
    seen: list[Request] = []
    await read([], seen=seen)
    (request,) = seen
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/n/pods/web-0/log")
    assert request.query == (("follow", "true"), ("container", "main"))
    assert (request.headers["accept"], request.headers["user-agent"]) == ("*/*", "test")


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([], []),
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"o", b"ne\nt", b"wo\n"], ["one", "two"]),
        ([b"one\n\ntwo"], ["one", "", "two"]),
        ([b"\n"], [""]),
        ([b"no end"], ["no end"]),
        ([b"gr\xc3", b"\xbcn\n"], ["gr\u00fcn"]),
        ([b"\xff\n"], ["\ufffd"]),
    ],
)
async def test_lines(chunks: list[bytes], lines: list[str]) -> None:
    assert await read(chunks) == lines


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=9)), st.data())
def test_where_the_chunks_end_does_not_matter(lines: list[str], data: st.DataObject) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert virtual_time.run(read(chunks)) == lines


async def test_a_line_without_an_end_comes_in_pieces() -> None:
    """A program that never ends its line must not fill the memory of the reader."""
    piece = b"x" * (MOST_BYTES // 2 + 1)
    found = await read([piece] * 5)
    assert [len(one) for one in found] == [2 * len(piece), 2 * len(piece), len(piece)]


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        ([b"\nnext\n"], ["next"]),
        ([b"\n\nnext\n"], ["", "next"]),
        ([b"rest\nnext\n"], ["rest", "next"]),
        ([b"rest\n\n"], ["rest", ""]),
        ([b""], []),
    ],
)
async def test_a_line_in_pieces_is_followed_by_no_empty_line_of_its_own(after: list[bytes], lines: list[str]) -> None:
    long = b"x" * (MOST_BYTES + 1)
    assert await read([long, *after]) == [long.decode(), *lines]


async def test_a_pod_without_a_log_is_an_error_with_the_servers_words() -> None:
    status = b'{"kind":"Status","code":404,"reason":"NotFound","message":"pods \\"web-0\\" not found"}'
    with pytest.raises(NotFound, match='pods "web-0" not found'):
        await read([status[:10], status[10:]], status=404)
    with pytest.raises(ApiError):
        await read([b"container main is waiting to start"], status=400)
