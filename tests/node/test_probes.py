"""Probes against real sockets on loopback."""

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import pod as build

from kohort.node.probes import Counter, NoProbeResult, ProbeFailed, run_probe
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodeContainer, NodePod, Probe

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[int]:
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def made(port: int, **probe: JsonObject | int) -> tuple[Probe, NodeContainer]:
    container = {"name": "c", "ports": [{"name": "web", "containerPort": port}], "livenessProbe": probe}
    spec = build("p").containers(container).as_view(NodePod).spec
    assert spec.containers is not None and spec.containers[0].liveness_probe is not None
    return spec.containers[0].liveness_probe, spec.containers[0]


async def nothing(command: tuple[str, ...]) -> tuple[int, bytes]:
    return (0, b"") if command == ("good",) else (3, b"bad luck")


async def outcome(port: int, **probe: JsonObject | int) -> str:
    question, container = made(port, **probe)
    try:
        return await run_probe(question, container, "127.0.0.1", nothing) or "fine"
    except ProbeFailed as problem:
        return str(problem)


def http(status: str, *headers: str) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).decode()
        moved = status.startswith("302") and " /end " in asked
        answer = "200 OK" if moved else status
        writer.write(f"HTTP/1.1 {answer}\r\n{''.join(each + chr(13) + chr(10) for each in headers)}\r\nbody".encode())
        writer.close()

    return handle


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        ("200 OK", (), "fine"),
        ("204 No Content", (), "fine"),
        ("404 Not Found", (), "HTTP probe failed with statuscode: 404"),
        ("500 Oh", (), "HTTP probe failed with statuscode: 500"),
        ("302 Found", ("Location: /end",), "fine"),
        (
            "302 Found",
            ("Location: https://elsewhere.example.com/",),
            "Probe terminated redirects, Response body: body",
        ),
    ],
)
async def test_http(status: str, headers: tuple[str, ...], expected: str) -> None:
    async with serving(http(status, *headers)) as port:
        assert await outcome(port, httpGet={"path": "/", "port": "web"}) == expected


@pytest.mark.parametrize(
    ("status", "expected"), [("200 OK", "fine"), ("500 Oh", "HTTP probe failed with statuscode: 500")]
)
async def test_a_redirect_to_the_same_host_may_be_a_complete_address(status: str, expected: str) -> None:
    async with serving(http(status)) as target:
        redirect = http("302 Found", f"Location: http://127.0.0.1:{target}/elsewhere")
        async with serving(redirect) as port:
            assert await outcome(port, httpGet={"path": "/", "port": "web"}) == expected


async def test_tcp_probes_with_and_without_a_listener() -> None:
    async with serving(http("200 OK")) as port:
        assert await outcome(port, tcpSocket={"port": port}) == "fine"
    refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert await outcome(port, tcpSocket={"port": port}) == refused
    assert await outcome(port, httpGet={"port": port}) == f'Get "http://127.0.0.1:{port}/": {refused}'


@pytest.mark.parametrize("handler", ["tcpSocket", "httpGet"])
async def test_a_port_that_does_not_exist_has_no_result(handler: str) -> None:
    with pytest.raises(NoProbeResult, match="there is no port 'other'"):
        await outcome(1, **{handler: {"port": "other"}})


@pytest.mark.parametrize("probe", [{"tcpSocket": {"port": 80}}, {"httpGet": {"port": 80}}, {"grpc": {"port": 80}}])
async def test_a_node_without_free_descriptors_has_no_result(probe: JsonObject) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(NoProbeResult, match="Too many open files"):
            await outcome(80, **probe)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_commands() -> None:
    assert await outcome(1, exec={"command": ["good"]}) == "fine"
    assert await outcome(1, exec={"command": ["other"]}) == "bad luck"


async def test_no_answer_is_a_failure() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with serving(silent) as port:
        late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        found = await outcome(port, httpGet={"port": port, "path": "slow"}, timeoutSeconds=1)
        assert found == f'Get "http://127.0.0.1:{port}/slow": {late}'


def grpc(status: int) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(24)
        writer.write(bytes.fromhex("000000040000000000"))
        message = b"\x00\x00\x00\x00\x02\x08" + bytes([status])
        writer.write(len(message).to_bytes(3, "big") + b"\x00\x00\x00\x00\x00\x01" + message)
        await writer.drain()
        writer.close()

    return handle


@pytest.mark.parametrize(("status", "expected"), [(1, "fine"), (2, 'service unhealthy (responded with "NOT_SERVING")')])
async def test_grpc(status: int, expected: str) -> None:
    async with serving(grpc(status)) as port:
        assert await outcome(port, grpc={"port": port, "service": "s"}) == expected


@given(st.lists(st.booleans()), st.integers(1, 4), st.integers(1, 4))
def test_a_verdict_needs_a_row_of_answers(answers: list[bool], successes: int, failures: int) -> None:
    counter = Counter(successes, failures)
    for index, answer in enumerate(answers):
        verdict = counter.add(answer)
        needed = successes if answer else failures
        row = answers[max(0, index + 1 - needed) : index + 1]
        assert (verdict == answer) == (len(row) == needed and set(row) == {answer})
