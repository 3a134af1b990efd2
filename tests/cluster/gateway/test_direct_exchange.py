"""Requests without a task: the same bytes in both directions as by the general way, and what happens when they fail.

The first request to a backend always takes the general way, because no connection is idle yet. The second one goes
directly, the third one as well and with a head that is known.
"""

import asyncio
import socket
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.cluster.gateway.raw_backend import ANSWER, LAST, RawBackend, front, route, to

from kohort.cluster.gateway.http1_connection import HELD_LIMIT, read_simple_head
from kohort.cluster.gateway.route_table import Backend, HeaderChange
from kohort.rules import gateway_metrics

GET = b"GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\nServer: kohort\r\n\r\nhello"

# --- the same as by the general way

PATHS = st.lists(
    st.sampled_from(["/", "a", "B", ".", "..", "%2e", "%2F", "%2f", "%41", "%zz", "%00", ";", "\\", "~", "'", ":"]),
    max_size=6,
).map("".join)
QUERIES = st.sampled_from(["", "?", "?a=b", "?a=%2e%2F", "?a=/../b", "?a?b", "#x"])
NAMES = st.sampled_from(
    [
        *("Accept", "X-A", "x-a", "Cookie", "Authorization", "X-Forwarded-For", "x-forwarded-host", "X-Real-IP"),
        *("X_Real_IP", "Forwarded", "X-Forwarded-Port", "Keep-Alive", "Proxy-Authorization", "Content-Type"),
    ]
)
VALUES = st.sampled_from(["", "a", " a", "a ", "\ta\t", "a b", "a, b", "a: b", '"a"', "ä", "6.6.6.6", "for=6.6.6.6"])
SPECIAL = st.sampled_from(
    [
        *("Connection: close", "connection:keep-alive", "Connection: X-A", "Connection: keep-alive, close"),
        *("Expect: 100-continue", "Upgrade: h2c", "TE: trailers", "Host: b.example", "Host:", "Content-Length: 5"),
        *("Content-Length: 05", "Content-Length: 5, 5", "Content-Length: +5", "Content-Length: 5 ", "X-A : b", " b"),
    ]
)
LINES = st.one_of(st.builds("{}:{}".format, NAMES, VALUES), st.builds("{}: {}".format, NAMES, VALUES), SPECIAL)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from(["GET", "HEAD", "POST", "PUT", "OPTIONS", "get"]))
    target = "/" + draw(PATHS) + draw(QUERIES)
    host = draw(st.sampled_from(["Host: a.example", "host:a.example:80", "Host: [::1]:80", "Host: a/b", "HOST: A.b "]))
    lines = [f"{method} {target} HTTP/1.1", host, *draw(st.lists(LINES, max_size=4))]
    if draw(st.booleans()):
        lines.append("Content-Length: 5")
    body = b"a\r\n\r\n" if any("Length" in line for line in lines) else b""
    return "\r\n".join((*lines, "", "")).encode() + body


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, ...]:
    """In one part or in two."""
    status = draw(st.sampled_from(["200 OK", "200", "201 ", "204 No Content", "304 Not Modified", "404 Nö", "999 x"]))
    length = draw(st.sampled_from(["Content-Length: 5", "content-length:5", "Content-Length: 5\r\nContent-Length: 5"]))
    more = draw(
        st.lists(
            st.sampled_from(
                [
                    *(
                        "Server: x",
                        "Date: today",
                        "Connection: close",
                        "Connection: X-A",
                        "X-A: b",
                        "X-A:b ",
                        "x-a:\tc",
                    ),
                    *("Keep-Alive: timeout=5", "Set-Cookie: a=ä", "Set-Cookie: b", "Upgrade: h2c", "Trailer: x"),
                ]
            ),
            max_size=4,
        )
    )
    body = b"hello"
    if draw(st.integers(0, 4)) == 0:
        length, body = "Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"
    if status[:3] in ("204", "304"):
        body = b""
    lines = [f"HTTP/1.1 {status}", *draw(st.permutations([length, *more]))]
    data = "\r\n".join((*lines, "", "")).encode() + body
    # How a body without a length is divided into chunks depends on when its parts arrive.
    cut = draw(st.one_of(st.none(), st.integers(1, data.index(b"\r\n\r\n") + 3)))
    return (data,) if cut is None else (data[:cut], data[cut:])


CHANGES = st.sampled_from(
    [
        HeaderChange(),
        HeaderChange(set=(("X-A", "set"), ("Server", "other"))),
        HeaderChange(add=(("X-A", "added"),), remove=("Accept", "Content-Type")),
        HeaderChange(remove=("Content-Length",)),
        HeaderChange(set=(("content-length", "3"),), add=(("Transfer-Encoding", "chunked"),)),
        HeaderChange(set=(("Connection", "close"),)),
    ]
)


async def three_times(request: bytes, answer: tuple[bytes, ...], backend: Backend) -> None:
    served = RawBackend(*answer)
    async with front(llm=served) as one:
        one.use(route(backend))
        if request.startswith(b"HEAD "):
            served.parts = (b"".join(answer).partition(b"\r\n\r\n")[0] + b"\r\n\r\n",)
        got = [await one.ask(request) for _ in range(3)]
        assert got[0] == got[1] == got[2]
        sent = served.requests
        assert len(sent) in (0, 3)
        assert not sent or sent[0] == sent[1] == sent[2]


@settings(max_examples=150)
@given(requests(), answers(), CHANGES, CHANGES)
@example(GET, (ANSWER,), HeaderChange(), HeaderChange())
@example(POST, (ANSWER[:10], ANSWER[10:]), HeaderChange(), HeaderChange())
def test_both_ways_send_and_answer_the_same(
    request: bytes, answer: tuple[bytes, ...], asked: HeaderChange, answered: HeaderChange
) -> None:
    asyncio.run(three_times(request, answer, Backend("default", "llm", 80, 1, asked, answered)))


def is_simple(request: bytes) -> bool:
    return read_simple_head(request.partition(b"\r\n\r\n")[0] + b"\r\n\r\n") is not None


@pytest.mark.parametrize(
    "line", [b"Content-Type: a\r\n", b"User-Agent: a\r\n", b"Content-Length: 5\r\n", b"ETag: a\r\n"]
)
def test_a_header_that_must_be_there_once_is_not_simple_twice(line: bytes) -> None:
    head = b"GET /x HTTP/1.1\r\nHost: a.example\r\nX-A: b\r\nX-A: b\r\n"
    assert is_simple(head + line + b"\r\n")
    assert not is_simple(head + line + line.lower() + b"\r\n")


async def by_both_readers(request: bytes) -> None:
    """aiohttp reads all requests that come after one that is not simple."""
    served = RawBackend()
    async with front(llm=served) as one:
        await one.ask(GET)
        await one.ask(request)
        directly = served.requests[1:]
        del served.requests[:]
        await one.ask(CHUNKED + request)
        read_by_aiohttp = served.requests[1:]
        assert directly == read_by_aiohttp


@settings(max_examples=150)
@given(requests().filter(is_simple))
@example(GET)
@example(POST)
@example(POST.replace(b": 5", b": 05"))
def test_simple_requests_are_what_a_complete_parser_reads(request: bytes) -> None:
    asyncio.run(by_both_readers(request))


# --- what needs no task


@pytest.mark.parametrize("request_", [GET, POST])
async def test_an_ordinary_request_needs_no_task(request_: bytes) -> None:
    async with front(llm=RawBackend()) as one:
        reader, writer = await one.connect()
        for number in range(4):
            writer.write(request_)
            assert await reader.readexactly(len(HELLO)) == HELLO
            if number == 0:
                one.count_tasks()
        assert one.tasks == 0
        writer.close()


@pytest.mark.parametrize(
    "parts",
    [
        (ANSWER[:-1], ANSWER[-1:]),
        (ANSWER[:30], ANSWER[30:]),
        (b"HTTP/1.1 100 Continue\r\n\r\n", ANSWER),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",),
    ],
)
async def test_a_task_goes_on_with_any_other_answer(parts: tuple[bytes, ...]) -> None:
    served = RawBackend()
    async with front(llm=served) as one:
        await one.ask(GET)
        served.parts = parts
        reader, writer = await one.connect()
        one.count_tasks()
        writer.write(GET + LAST)
        text = await reader.read()
        assert b"hello" in text and text.endswith(b"last")
        assert one.tasks == 1
        writer.close()
        assert len(served.connections) == 1


# --- what is counted


async def test_direct_requests_are_counted_as_others() -> None:
    async with front(llm=RawBackend()) as one:
        for _ in range(3):
            await one.ask(GET)
        assert one.value(gateway_metrics.REQUESTS, pod="pod-of-llm", code="200") == 6
        assert one.value(f"{gateway_metrics.DURATION}_count", pod="pod-of-llm") == 6
        assert one.value(f"{gateway_metrics.FIRST_BYTE}_count", pod="pod-of-llm") == 6
        assert one.value(gateway_metrics.IN_FLIGHT) == 0


async def test_turns_between_backends_are_exact() -> None:
    stable, canary = RawBackend(), RawBackend()
    async with front(stable=stable, canary=canary) as one:
        one.use(route(to("stable", weight=17), to("canary", weight=3)))
        reader, writer = await one.connect()
        for _ in range(200):
            writer.write(GET)
            await reader.readexactly(len(HELLO))
        assert (len(stable.requests), len(canary.requests)) == (170, 30)
        writer.close()


# --- what is remembered


async def test_a_known_head_follows_the_routes() -> None:
    stable, canary = RawBackend(), RawBackend()
    async with front(llm=stable, canary=canary) as one:
        reader, writer = await one.connect()
        for _ in range(3):
            writer.write(GET)
            await reader.readexactly(len(HELLO))
        one.use(route(to("canary")))
        for _ in range(3):
            writer.write(GET)
            await reader.readexactly(len(HELLO))
        assert (len(stable.requests), len(canary.requests)) == (3, 3)
        writer.close()


async def test_a_known_head_says_nothing_about_another_client() -> None:
    served = RawBackend()
    async with front(llm=served) as one:
        for address in ("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.1"):
            await one.ask(GET, address)
            assert b"\r\nX-Forwarded-For: %b\r\nX-Real-IP: %b\r\n" % ((address.encode(),) * 2) in served.requests[-1]


# --- what goes wrong


async def test_a_connection_that_is_lost_before_an_answer_is_replaced() -> None:
    served = RawBackend()
    async with front(llm=served) as one:
        await one.ask(GET)
        (idle,) = served.connections
        idle.transport.abort()
        assert (await one.ask(GET)).startswith(HELLO)
        assert len(served.requests) == 2


async def test_a_request_that_may_not_be_repeated_is_not() -> None:
    served = RawBackend()
    async with front(llm=served) as one:
        await one.ask(GET)
        served.parts, served.close = (b"HTTP/1.1 2",), True
        assert (await one.ask(POST)).startswith(b"HTTP/1.1 502")
        assert len(served.requests) == 2
        assert one.value(gateway_metrics.IN_FLIGHT) == 0


async def test_an_answer_that_does_not_come_in_time() -> None:
    served = RawBackend()
    async with front(llm=served) as one:
        one.use(route(timeout=0.05))
        await one.ask(GET)
        served.parts = (b"",)
        assert (await one.ask(GET)).startswith(b"HTTP/1.1 504")
        assert one.value(gateway_metrics.REQUESTS, code="504") == 1


async def test_an_answer_whose_rest_does_not_come_in_time() -> None:
    served = RawBackend()
    async with front(llm=served) as one:
        one.use(route(timeout=0.05))
        await one.ask(GET)
        served.parts = (b"HTTP/1.1 2",)
        assert (await one.ask(GET)).startswith(b"HTTP/1.1 504")


async def test_a_client_that_goes_away_takes_its_request_along() -> None:
    served = RawBackend()
    async with front(llm=served) as one:
        await one.ask(GET)
        served.parts = (b"",)
        served.arrived.clear()
        served.lost.clear()
        _, writer = await one.connect()
        writer.write(GET)
        async with asyncio.timeout(10):
            await served.arrived.wait()
            assert one.value(gateway_metrics.IN_FLIGHT) == 1
            writer.transport.abort()
            await served.lost.wait()
        assert one.value(gateway_metrics.IN_FLIGHT) == 0
        assert one.value(gateway_metrics.REQUESTS, code="499") == 1


async def test_a_client_that_goes_away_as_its_answer_begins() -> None:
    """The task that would go on with the answer is cancelled before it begins."""
    served = RawBackend()
    async with front(llm=served) as one:
        await one.ask(GET)
        served.parts = (b"",)
        served.arrived.clear()
        served.lost.clear()
        with socket.create_connection(("127.0.0.1", one.proxy.port)) as client:
            client.sendall(GET)
            async with asyncio.timeout(10):
                await served.arrived.wait()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        served.send(b"HTTP/1.1 2")
        async with asyncio.timeout(10):
            await served.lost.wait()
        assert one.value(gateway_metrics.IN_FLIGHT) == 0
        assert one.value(gateway_metrics.REQUESTS, code="499") == 1


async def test_bytes_beyond_an_answer_end_the_connection_to_the_backend() -> None:
    """They could be taken for the answer to another client's request."""
    served = RawBackend()
    async with front(llm=served) as one:
        await one.ask(GET)
        served.parts = (ANSWER + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",)
        assert b"evil" not in await one.ask(GET)
        served.parts = (ANSWER,)
        assert (await one.ask(GET)).startswith(HELLO)


async def test_a_proxy_that_stops_waits_for_the_answer() -> None:
    served = RawBackend()
    async with front(llm=served) as one:
        await one.ask(GET)
        served.parts = (b"",)
        served.arrived.clear()
        reader, writer = await one.connect()
        writer.write(GET)
        async with asyncio.timeout(10):
            await served.arrived.wait()
            stopping = asyncio.ensure_future(one.proxy.close())
            await asyncio.sleep(0)
            served.send(ANSWER)
            assert await reader.read() == HELLO
            await stopping
        writer.close()


async def test_a_client_that_does_not_read_is_not_read_from() -> None:
    """Answers wait in memory until the client takes them; requests that come after them wait in the client's memory."""
    body = bytes(60_000)
    served = RawBackend(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    async with front(llm=served) as one:
        await one.ask(GET)
        reader, writer = await one.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        before = len(served.requests)
        many = 2000
        writer.write(GET * many)
        quiet = 0
        while quiet < 50:
            seen = len(served.requests)
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(served.requests) == seen else 0
        assert len(served.requests) - before < many / 2
        assert all(len(each._held) <= HELD_LIMIT + 256 * 1024 for each in one.proxy.connections)
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        writer.write(LAST)
        assert (await reader.read()).count(b"HTTP/1.1 200 OK") == many + 1
        writer.close()


@pytest.mark.parametrize("sent", [POST, CHUNKED])
@pytest.mark.parametrize(
    "change",
    [
        HeaderChange(remove=("Content-Length", "Transfer-Encoding")),
        HeaderChange(set=(("content-length", "1"),)),
        HeaderChange(add=(("Content-Length", "1"), ("Transfer-Encoding", "identity"))),
    ],
)
async def test_a_route_cannot_change_where_a_message_ends(sent: bytes, change: HeaderChange) -> None:
    """Otherwise a part of a body would be read as a request, or as the answer to another one."""
    plain, changed = RawBackend(), RawBackend()
    async with front(llm=plain, changed=changed) as one:
        expected = [await one.ask(sent) for _ in range(3)]
        one.use(route(Backend("default", "changed", 80, 1, change, change)))
        assert [await one.ask(sent) for _ in range(3)] == expected
        assert changed.requests == plain.requests
