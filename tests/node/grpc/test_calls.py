"""Client and server with each other, on virtual time; hostile peers; loss and deadlines."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from hypothesis import given
from hypothesis import strategies as st
from tests.node.grpc.messages import COUNT, CRASH, ECHO, FAIL, MISSING, WAIT, Text

from kohort.node.grpc.client import Channel, channel
from kohort.node.grpc.http2 import LARGEST
from kohort.node.grpc.server import Server
from kohort.node.grpc.status import Code, Method, RpcError, escaped, parse_timeout, timeout_text, unescaped
from kohort.testing import virtual_time

Program = Callable[[Path], Awaitable[None]]


def on_virtual_time(program: Program, tmp_path: Path) -> None:
    async def run() -> None:
        await program(tmp_path / "s")

    virtual_time.run(run())


class Service:
    """A server with a method for every way in which a call can go."""

    def __init__(self) -> None:
        self.server = Server()
        self.cancelled: list[str] = []
        self.under_way = 0
        self.server.unary(ECHO, self.echo)
        self.server.streaming(COUNT, self.count)
        self.server.unary(WAIT, self.wait)
        self.server.unary(FAIL, self.fail)
        self.server.unary(CRASH, self.crash)

    async def echo(self, request: Text) -> Text:
        return request

    async def count(self, request: Text) -> AsyncGenerator[Text, None]:
        try:
            for number in range(int(request.text)):
                yield Text(str(number))
        finally:
            self.cancelled.append("count")

    async def wait(self, request: Text) -> Text:
        self.under_way += 1
        try:
            await asyncio.sleep(float(request.text))
        except asyncio.CancelledError:
            self.cancelled.append("wait")
            raise
        finally:
            self.under_way -= 1
        return Text("waited")

    async def fail(self, request: Text) -> Text:
        raise RpcError(Code.NOT_FOUND, request.text)

    async def crash(self, request: Text) -> Text:
        raise ZeroDivisionError("by zero")


@contextlib.asynccontextmanager
async def service(socket: Path) -> AsyncIterator[tuple[Service, Channel]]:
    made = Service()
    await made.server.listen(socket)
    async with channel(socket) as client:
        try:
            yield made, client
        finally:
            await made.server.close()


async def code_of_call(client: Channel, method: Method[Text, Text], text: str = "", timeout: float = 60.0) -> Code:
    with pytest.raises(RpcError) as caught:
        await client.call(method, Text(text), timeout=timeout)
    return caught.value.code


def test_calls_are_answered_also_many_at_once(tmp_path: Path) -> None:
    async def program(socket: Path) -> None:
        async with service(socket) as (_, client):
            calls = [client.call(ECHO, Text(f"é{number}"), timeout=10) for number in range(300)]
            assert [each.text for each in await asyncio.gather(*calls)] == [f"é{number}" for number in range(300)]

    on_virtual_time(program, tmp_path)


def test_more_calls_than_the_server_permits_wait_for_their_turn(tmp_path: Path) -> None:
    async def program(socket: Path) -> None:
        async with service(socket) as (made, client):
            await client.call(ECHO, Text(), timeout=1)  # the settings of the server have arrived with the answer
            calls = [asyncio.create_task(client.call(WAIT, Text("5"), timeout=60)) for _ in range(200)]
            await asyncio.sleep(1)
            assert made.under_way == 128
            await asyncio.gather(*calls)
            assert asyncio.get_running_loop().time() == pytest.approx(10, abs=1)

    on_virtual_time(program, tmp_path)


def test_a_stream_gives_every_answer_in_order_and_ends(tmp_path: Path) -> None:
    async def program(socket: Path) -> None:
        async with service(socket) as (_, client):
            found = [each.text async for each in client.stream(COUNT, Text("1000"))]
            assert found == [str(number) for number in range(1000)]

    on_virtual_time(program, tmp_path)


def test_a_stream_that_is_closed_ends_the_handler(tmp_path: Path) -> None:
    async def program(socket: Path) -> None:
        async with service(socket) as (made, client):
            async with contextlib.aclosing(client.stream(COUNT, Text("1000000000"))) as answers:
                assert (await anext(answers)).text == "0"
            await client.call(ECHO, Text(), timeout=5)
            while not made.cancelled:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            assert made.cancelled == ["count"]

    on_virtual_time(program, tmp_path)


def test_a_slow_reader_holds_up_the_server_and_not_its_memory(tmp_path: Path) -> None:
    large = Method("/test.Service/Large", Text, Text)
    sent = 0

    async def many(request: Text) -> AsyncGenerator[Text, None]:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield Text("x" * (1 << 20))

    async def program(socket: Path) -> None:
        async with service(socket) as (made, client):
            made.server.streaming(large, many)
            read = 0
            async with contextlib.aclosing(client.stream(large, Text())) as answers:
                await anext(answers)
                await asyncio.sleep(60)
                assert sent < 60
                async for _ in answers:
                    read += 1
            assert (read, sent) == (99, 100)

    on_virtual_time(program, tmp_path)


def test_failures_have_code_and_text(tmp_path: Path) -> None:
    async def program(socket: Path) -> None:
        async with service(socket) as (_, client):
            with pytest.raises(RpcError) as caught:
                await client.call(FAIL, Text("no such thing: ü%\n"), timeout=1)
            assert (caught.value.code, caught.value.detail) == (Code.NOT_FOUND, "no such thing: ü%\n")
            assert str(caught.value).startswith("Fail: NOT_FOUND: ")
            assert await code_of_call(client, MISSING) == Code.UNIMPLEMENTED
            assert await code_of_call(client, CRASH) == Code.INTERNAL
            assert (await client.call(ECHO, Text("still here"), timeout=1)).text == "still here"

    on_virtual_time(program, tmp_path)


def test_a_deadline_ends_the_call_on_both_sides(tmp_path: Path) -> None:
    async def program(socket: Path) -> None:
        async with service(socket) as (made, client):
            assert await code_of_call(client, WAIT, "100", timeout=3) == Code.DEADLINE_EXCEEDED
            assert asyncio.get_running_loop().time() == pytest.approx(3, abs=0.5)
            await client.call(ECHO, Text(), timeout=1)
            assert made.cancelled == ["wait"] and made.under_way == 0

    on_virtual_time(program, tmp_path)


def test_the_server_keeps_the_deadline_by_itself(tmp_path: Path) -> None:
    """A client may have gone to sleep."""

    async def program(socket: Path) -> None:
        async with service(socket) as (made, _):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            client = H2Connection(H2Configuration(client_side=True))
            client.initiate_connection()
            client.send_headers(1, [(":path", WAIT.path), *REQUEST, ("grpc-timeout", "2S")])
            client.send_data(1, bytes.fromhex("00 00000005 0a 03") + b"100", end_stream=True)
            writer.write(client.data_to_send())
            while b"grpc-status" not in str(client.receive_data(await reader.read(9999))).encode():
                pass
            assert made.cancelled == ["wait"]
            writer.close()

    on_virtual_time(program, tmp_path)


def test_a_caller_that_is_cancelled_ends_the_handler(tmp_path: Path) -> None:
    async def program(socket: Path) -> None:
        async with service(socket) as (made, client):
            call = asyncio.create_task(client.call(WAIT, Text("100"), timeout=None))
            await asyncio.sleep(1)
            call.cancel()
            await client.call(ECHO, Text(), timeout=1)
            assert made.cancelled == ["wait"]

    on_virtual_time(program, tmp_path)


def test_messages_of_sixteen_megabytes_pass_in_both_directions(tmp_path: Path) -> None:
    async def program(socket: Path) -> None:
        async with service(socket) as (_, client):
            text = "y" * (LARGEST - 5)
            for _ in range(3):  # the windows are given back
                assert (await client.call(ECHO, Text(text), timeout=600)).text == text
            assert await code_of_call(client, ECHO, text + "yyyy", timeout=600) == Code.RESOURCE_EXHAUSTED
            assert (await client.call(ECHO, Text("after"), timeout=60)).text == "after"

    on_virtual_time(program, tmp_path)


def test_without_a_server_calls_fail_at_once_and_later_ones_connect(tmp_path: Path) -> None:
    async def program(socket: Path) -> None:
        async with channel(socket) as client:
            with pytest.raises(RpcError, match=r"cannot connect to .*/s: No such file") as caught:
                await client.call(ECHO, Text(), timeout=60)
            assert caught.value.code == Code.UNAVAILABLE
            made = Service()
            await made.server.listen(socket)
            assert (await client.call(ECHO, Text("now"), timeout=60)).text == "now"
            await made.server.close()

    on_virtual_time(program, tmp_path)


def test_a_loss_fails_what_is_under_way_and_the_next_call_connects(tmp_path: Path) -> None:
    async def program(socket: Path) -> None:
        async with service(socket) as (made, client):
            calls = [asyncio.create_task(client.call(WAIT, Text("100"), timeout=None)) for _ in range(3)]
            await asyncio.sleep(1)
            await made.server.close()
            for found in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(found, RpcError) and found.code == Code.UNAVAILABLE
            assert await code_of_call(client, ECHO) == Code.UNAVAILABLE
            await made.server.listen(socket)
            assert (await client.call(ECHO, Text("back"), timeout=60)).text == "back"

    on_virtual_time(program, tmp_path)


# Hostile servers

REQUEST = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), ("content-type", "application/grpc")]
PREFACE = bytes.fromhex("000000 04 00 00000000")
"""Settings without a setting."""


@contextlib.asynccontextmanager
async def raw_server(socket: Path, serve: Callable[[bytes], bytes | None]) -> AsyncIterator[Channel]:
    """Answers everything that arrives with what `serve` returns; None closes the connection."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if (answer := serve(data)) is None:
                    break
                writer.write(answer)
        writer.close()

    listener = await asyncio.start_unix_server(accepted, str(socket))
    async with channel(socket) as client:
        try:
            yield client
        finally:
            listener.close()


HOSTILE = {
    "closes at once": b"",
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a frame of 16 MB that is not announced": PREFACE + bytes.fromhex("ffffff 00 00 00000001") + b"x" * 70000,
    "data without headers": PREFACE + bytes.fromhex("000005 00 01 00000001") + b"\0\0\0\0\0",
    "a stream of the server": PREFACE + bytes.fromhex("000001 01 05 00000002 88"),
    "header compression that cannot be read": PREFACE + bytes.fromhex("000003 01 05 00000001 ffffff"),
    "continuation without headers": PREFACE + bytes.fromhex("000001 09 04 00000001 88"),
    "a window beyond 2^31": PREFACE + bytes.fromhex("000004 08 00 00000000 7fffffff"),
    "settings that are cut": bytes.fromhex("000003 04 00 00000000 000000"),
    "an announced end": PREFACE + bytes.fromhex("000008 07 00 00000000 00000000 00000000"),
    "zeros": bytes(100),
}

UNFINISHED = ("text", "a frame of 16 MB that is not announced")
"""These announce a frame that does not come: 16 MB at most are kept of it, and the deadline ends the call."""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_server_that_breaks_the_protocol_fails_the_call_and_not_the_agent(tmp_path: Path, name: str) -> None:
    async def program(socket: Path) -> None:
        async with raw_server(socket, lambda data: HOSTILE[name] or None) as client:
            waits = name in UNFINISHED
            expected = Code.DEADLINE_EXCEEDED if waits else Code.UNAVAILABLE
            assert await code_of_call(client, ECHO, timeout=5) == expected

    on_virtual_time(program, tmp_path)


@given(st.binary(min_size=1, max_size=300))
def test_no_bytes_of_a_server_do_more_than_fail_the_call(data: bytes) -> None:
    import tempfile

    async def program() -> None:
        with tempfile.TemporaryDirectory() as directory:
            async with raw_server(Path(directory) / "s", lambda _: PREFACE + data) as client:
                with pytest.raises(RpcError):
                    await client.call(ECHO, Text(), timeout=1)

    virtual_time.run(program())


def h2_server(respond: Callable[[H2Connection, int], None]) -> Callable[[bytes], bytes | None]:
    """A server that speaks HTTP/2 properly and gRPC as `respond` does."""
    connections: list[H2Connection] = []

    def serve(data: bytes) -> bytes:
        if data.startswith(b"PRI"):
            connections.append(H2Connection(H2Configuration(client_side=False)))
            connections[-1].initiate_connection()
        connection = connections[-1]
        for event in connection.receive_data(data):
            if isinstance(event, StreamEnded) and event.stream_id is not None:
                respond(connection, event.stream_id)
        return connection.data_to_send()

    return serve


OK_HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
ANSWERED = bytes.fromhex("00 00000003 0a 01 61")


def no_trailers(connection: H2Connection, id: int) -> None:
    connection.send_headers(id, OK_HEADERS)
    connection.send_data(id, ANSWERED, end_stream=True)


def no_message(connection: H2Connection, id: int) -> None:
    connection.send_headers(id, [*OK_HEADERS, ("grpc-status", "0")], end_stream=True)


def two_messages(connection: H2Connection, id: int) -> None:
    connection.send_headers(id, OK_HEADERS)
    connection.send_data(id, ANSWERED * 2)
    connection.send_headers(id, [("grpc-status", "0")], end_stream=True)


def half_a_message(connection: H2Connection, id: int) -> None:
    connection.send_headers(id, OK_HEADERS)
    connection.send_data(id, ANSWERED[:-1])
    connection.send_headers(id, [("grpc-status", "0")], end_stream=True)


def compressed(connection: H2Connection, id: int) -> None:
    connection.send_headers(id, OK_HEADERS)
    connection.send_data(id, b"\1" + ANSWERED[1:])


def too_large(connection: H2Connection, id: int) -> None:
    connection.send_headers(id, OK_HEADERS)
    connection.send_data(id, bytes.fromhex("00 ffffffff"))


def malformed(connection: H2Connection, id: int) -> None:
    connection.send_headers(id, OK_HEADERS)
    connection.send_data(id, bytes.fromhex("00 00000002 0a 05"))
    connection.send_headers(id, [("grpc-status", "0")], end_stream=True)


def unknown_code(connection: H2Connection, id: int) -> None:
    connection.send_headers(id, [*OK_HEADERS, ("grpc-status", "99")], end_stream=True)


def not_grpc(connection: H2Connection, id: int) -> None:
    connection.send_headers(id, [(":status", "404")], end_stream=True)


def trailers_only(connection: H2Connection, id: int) -> None:
    connection.send_headers(id, [*OK_HEADERS, ("grpc-status", "5"), ("grpc-message", "gone%21")], end_stream=True)


def refused(connection: H2Connection, id: int) -> None:
    connection.reset_stream(id, 7)


def reset(connection: H2Connection, id: int) -> None:
    connection.reset_stream(id, 2)


@pytest.mark.parametrize(
    ("respond", "code"),
    [
        (no_trailers, Code.INTERNAL),
        (no_message, Code.INTERNAL),
        (two_messages, Code.INTERNAL),
        (half_a_message, Code.UNAVAILABLE),
        (compressed, Code.RESOURCE_EXHAUSTED),
        (too_large, Code.RESOURCE_EXHAUSTED),
        (malformed, Code.INTERNAL),
        (unknown_code, Code.UNKNOWN),
        (not_grpc, Code.UNIMPLEMENTED),
        (trailers_only, Code.NOT_FOUND),
        (refused, Code.UNAVAILABLE),
        (reset, Code.INTERNAL),
    ],
)
def test_answers_that_are_not_as_they_should_be(
    tmp_path: Path, respond: Callable[[H2Connection, int], None], code: Code
) -> None:
    async def program(socket: Path) -> None:
        async with raw_server(socket, h2_server(respond)) as client:
            assert await code_of_call(client, ECHO, "a", timeout=5) == code

    on_virtual_time(program, tmp_path)


def test_an_answer_in_single_bytes_is_put_together(tmp_path: Path) -> None:
    def respond(connection: H2Connection, id: int) -> None:
        connection.send_headers(id, OK_HEADERS)
        for byte in ANSWERED:
            connection.send_data(id, bytes([byte]))
        connection.send_headers(id, [("grpc-status", "0")], end_stream=True)

    async def program(socket: Path) -> None:
        async with raw_server(socket, h2_server(respond)) as client:
            assert (await client.call(ECHO, Text(), timeout=5)).text == "a"

    on_virtual_time(program, tmp_path)


# Hostile clients


@pytest.mark.parametrize("name", HOSTILE)
def test_a_client_that_breaks_the_protocol_is_dropped_and_others_are_served(tmp_path: Path, name: str) -> None:
    async def program(socket: Path) -> None:
        async with service(socket) as (_, client):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HOSTILE[name])
            writer.write_eof()
            while await reader.read(65536):
                pass
            writer.close()
            assert (await client.call(ECHO, Text("served"), timeout=5)).text == "served"

    on_virtual_time(program, tmp_path)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "12"),
        (bytes.fromhex("00 00000000") * 2, "12"),
        (bytes.fromhex("00 00000002 0a 05"), "13"),
        (bytes.fromhex("01 00000000"), "8"),
        (bytes.fromhex("00 ffffffff"), "8"),
    ],
)
def test_requests_that_are_not_one_message_are_refused(tmp_path: Path, body: bytes, code: str) -> None:
    async def program(socket: Path) -> None:
        async with service(socket):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            client = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
            client.initiate_connection()
            client.send_headers(1, [(":path", ECHO.path), *REQUEST])
            client.send_data(1, body, end_stream=True)
            writer.write(client.data_to_send())
            seen = ""
            while f"('grpc-status', '{code}')" not in seen:
                data = await reader.read(9999)
                assert data, seen
                seen += str([getattr(each, "headers", "") for each in client.receive_data(data)])
            writer.close()

    on_virtual_time(program, tmp_path)


# The peers of others


def test_a_server_gets_what_a_client_of_h2_sends(tmp_path: Path) -> None:
    """What our client sends is what the tests of other peers expect: path, headers and one message."""
    seen: list[object] = []

    def serve(data: bytes) -> bytes | None:
        if data.startswith(b"PRI"):
            connection.initiate_connection()
        for event in connection.receive_data(data):
            if isinstance(event, RequestReceived):
                seen.append(dict(event.headers or ()))
            if isinstance(event, DataReceived):
                seen.append(event.data)
            if isinstance(event, StreamEnded) and event.stream_id is not None:
                no_message(connection, event.stream_id)
        return connection.data_to_send()

    connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))

    async def program(socket: Path) -> None:
        async with raw_server(socket, serve) as client:
            await code_of_call(client, ECHO, "a", timeout=5)

    on_virtual_time(program, tmp_path)
    headers, body = seen
    assert isinstance(headers, dict)
    assert (headers[":path"], headers["te"], headers["grpc-timeout"]) == (ECHO.path, "trailers", "5000000u")
    assert body == ANSWERED


@given(st.floats(1e-9, 1e9))
def test_timeouts_are_never_sent_shorter_than_they_are(seconds: float) -> None:
    text = timeout_text(seconds)
    read = parse_timeout(text)
    assert len(text) <= 9 and read is not None and seconds * (1 - 1e-9) <= read <= seconds * 1.0001 + 1e-9


@pytest.mark.parametrize("text", ["", "S", "1", "-1S", "123456789S", "1s", "1.5S", "٣S"])
def test_a_text_that_is_not_a_timeout_counts_as_none(text: str) -> None:
    assert parse_timeout(text) is None


@given(st.text())
def test_messages_of_errors_survive_a_trailer(text: str) -> None:
    trailer = escaped(text)
    assert unescaped(trailer) == text and trailer.isascii() and "\n" not in trailer
