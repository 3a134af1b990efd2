"""Which requests are plain, and that a complete HTTP parser would have read the same."""

import asyncio

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser
from hypothesis import example, given
from hypothesis import strategies as st

from kohort.cluster.apiserver.http.simple_request import LONG_BLOCK, MAX_BLOCK, read_simple_request

HEAD = b"POST /api/v1/namespaces?dryRun=All HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
BODY = b'{"kind":"Namespace"}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)


def get(*lines: bytes, target: bytes = b"/version") -> bytes:
    return b"".join([b"GET ", target, b" HTTP/1.1\r\nHost: x\r\n", *(line + b"\r\n" for line in lines), b"\r\n"])


def test_a_request_with_a_body() -> None:
    found = read_simple_request(HEAD + LENGTH + b"\r\n" + BODY)
    assert found is not None
    assert (found.method, found.target, found.body) == ("POST", "/api/v1/namespaces?dryRun=All", BODY)
    assert found.headers == {"host": "x", "content-type": "application/json", "content-length": str(len(BODY))}
    assert found.keep_alive


def test_a_request_ends_where_it_says() -> None:
    one = HEAD + LENGTH + b"\r\n" + BODY
    found = read_simple_request(one + get())
    assert found is not None
    assert (found.size, found.body) == (len(one), BODY)


@pytest.mark.parametrize(("line", "keep_alive"), [(b"Connection: close", False), (b"connection:keep-alive", True)])
def test_clients_may_say_whether_more_will_come(line: bytes, keep_alive: bool) -> None:
    found = read_simple_request(get(line))
    assert found is not None
    assert found.keep_alive is keep_alive


def test_repeated_headers_are_one_list() -> None:
    found = read_simple_request(get(b"Accept: a", b"X: \t y\t ", b"accept: b", b"Empty:"))
    assert found is not None
    assert found.headers == {"host": "x", "accept": "a, b", "x": "y", "empty": ""}


def test_headers_of_one_request_are_not_those_of_another() -> None:
    first, second = read_simple_request(get()), read_simple_request(get())
    assert first is not None
    assert second is not None
    first.headers["x"] = "y"
    assert second.headers == {"host": "x"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET /version HTTP/1.1\r\nHost: x\r\n",
        HEAD + LENGTH + b"\r\n" + BODY[:-1],
        b"HEAD /version HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /version HTTP/1.0\r\nHost: x\r\n\r\n",
        b"GET  /version HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET https://x/version HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /version HTTP/1.1\r\nAccept: x\r\n\r\n",
        b"GET /version HTTP/1.1\nHost: x\n\n",
        get(target=b"/\xc3\xbc"),
        get(target=b"/version#there"),
        get(b"Host: y"),
        get(b"Transfer-Encoding: chunked"),
        get(b"Expect: 100-continue"),
        get(b"Connection: Upgrade", b"Upgrade: websocket"),
        get(b"Connection: x"),
        get(b"Content-Length: 0", b"Content-Length: 0"),
        get(b"Content-Length: +0"),
        get(b"Content-Length: 0x0"),
        get(b"Content-Length: -1"),
        get(b"Content-Length:"),
        get(b"Content-Length : 0"),
        get(b" folded"),
        get(b"no colon"),
        get(b"X: a\0b"),
        get(b"X: \xe4"),
        get(b"X: a\rb"),
        get(b"X: a\nContent-Length: 1"),
        get(b"X: " + b"a" * MAX_BLOCK),
    ],
)
def test_what_is_incomplete_or_unusual_is_not_plain(data: bytes) -> None:
    assert read_simple_request(data) is None


def test_long_headers_are_read_each_time() -> None:
    found = read_simple_request(get(b"Authorization: Bearer " + b"a" * LONG_BLOCK))
    assert found is not None
    assert len(found.headers["authorization"]) == LONG_BLOCK + len("Bearer ")


PIECES = (
    *(b"GET ", b"POST ", b"/version", b"/a?b=c", b" HTTP/1.1", b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b","),
    *(b"Host: x\r\n", b"Accept: a\r\n", b"Accept: b\r\n", b"Content-Length: 3\r\n", b"Content-Length: 0\r\n", b"abc"),
    *(b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"X\xff: y\r\n", b"X: \x7f\r\n", b"0\r\n\r\n"),
)


@given(st.lists(st.sampled_from(PIECES)), st.lists(st.sampled_from(PIECES)), st.binary(max_size=4))
@example([], [b"Content-Length: 3\r\n", b"\r\n", b"abc"], b"GET ")
def test_a_complete_parser_reads_the_same(strange: list[bytes], usual: list[bytes], rest: bytes) -> None:
    data = b"GET /version HTTP/1.1\r\nHost: x\r\n" + b"".join([*strange, *usual, b"\r\n"]) + rest
    found = read_simple_request(data)
    if found is None:
        return

    async def parsed() -> tuple[str, str, dict[str, str], bytes, bool]:
        loop = asyncio.get_running_loop()
        parser = HttpRequestParser(BaseProtocol(loop), loop, 1 << 16)
        (message, payload), *_ = parser.feed_data(data[: found.size])[0]
        headers: dict[str, str] = {}
        for key, value in message.headers.items():
            headers[key.lower()] = f"{headers[key.lower()]}, {value}" if key.lower() in headers else value
        assert payload.is_eof()
        return message.method, message.path, headers, await payload.read(), not message.should_close

    assert asyncio.run(parsed()) == (found.method, found.target, found.headers, found.body, found.keep_alive)
