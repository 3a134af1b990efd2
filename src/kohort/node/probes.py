"""Probes of containers: one attempt (`run_probe`), thresholds (`Counter`, pure), and all of them while a container runs
(`ProbeRunner`).

| probe     | before it, a container counts as | enough failures in a row   | enough successes in a row   |
|-----------|----------------------------------|----------------------------|-----------------------------|
| startup   | not started                      | it is killed               | started; the others begin   |
| liveness  | alive                            | it is killed               | -                           |
| readiness | not ready                        | not ready                  | ready                       |

An attempt that says nothing about the container has no result (`NoProbeResult`), and changes nothing: the runtime could
not be asked to run the command, there is no port of that name, this process cannot open a connection. An event says so.
"""

import asyncio
import contextlib
import errno
import random
import re
import ssl
import string
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

import msgspec

from kohort.node.container_order import ContainerRun
from kohort.objects.node_pods import GrpcCheck, HttpGet, NodeContainer, Probe, TcpSocket

Execute = Callable[[tuple[str, ...]], Awaitable[tuple[int, bytes]]]
"""Run a command in the container: exit code and output. Raises NoProbeResult if it could not be run."""
GRPC_STATES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
REDIRECTS: Final = 10
SHOWN: Final = 256
BODY: Final = 10 << 10
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_HEADER: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
"""Why this process cannot open a connection, whatever the container does."""
_ENDS_REQUEST: Final = ("content-length", "transfer-encoding", "trailer", "connection")


class ProbeFailed(Exception):
    """The probe has failed; the message says what was seen."""


class NoProbeResult(Exception):
    """Nothing is known of the container: the node or its runtime could not probe it; the message says why."""


class Counter(msgspec.Struct):
    """Results in a row; `add` returns the result when its threshold is reached, else None."""

    successes_needed: int
    failures_allowed: int
    last: bool | None = None
    row: int = 0

    def add(self, success: bool) -> bool | None:
        self.row = self.row + 1 if success == self.last else 1
        self.last = success
        needed = self.successes_needed if success else self.failures_allowed
        return success if self.row >= needed else None


def port_number(container: NodeContainer, port: int | str) -> int:
    if isinstance(port, int):
        return port
    for each in container.ports:
        if each.name == port:
            return each.container_port
    if port.isdigit():
        return int(port)
    raise NoProbeResult(f"there is no port {port!r}")


async def run_probe(probe: Probe, container: NodeContainer, address: str, execute: Execute) -> str:
    """A warning about a probe that counts as success, empty if there is none. Raises ProbeFailed, also when there is no
    answer in time, and NoProbeResult."""
    try:
        async with asyncio.timeout(probe.timeout_seconds or 1):
            if probe.exec is not None:
                code, output = await execute(probe.exec.command)
                if code != 0:
                    raise ProbeFailed(output.decode(errors="replace").strip()[:SHOWN] or f"exit code {code}")
            elif probe.http_get is not None:
                return await http_get(probe.http_get, container, address)
            elif probe.tcp_socket is not None:
                await tcp_connect(probe.tcp_socket, container, address)
            elif probe.grpc is not None:
                await grpc_check(probe.grpc, address)
    except TimeoutError:
        raise ProbeFailed(_too_late(probe, container, address)) from None
    except OSError as problem:
        raise ProbeFailed(problem.strerror or str(problem)) from None
    return ""


def _too_late(probe: Probe, container: NodeContainer, address: str) -> str:
    """In the words of Kubernetes."""
    seconds = probe.timeout_seconds or 1
    if probe.exec is not None:
        return f'command timed out: "{" ".join(probe.exec.command)}" timed out after {seconds}s'
    if probe.http_get is not None:
        url = _url(probe.http_get, container, address)
        return f'Get "{url}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    if probe.tcp_socket is not None:
        to = f"{probe.tcp_socket.host or address}:{port_number(container, probe.tcp_socket.port)}"
        return f"dial tcp {to}: i/o timeout"
    assert probe.grpc is not None
    to = f"{address}:{probe.grpc.port}"
    return f'timeout: failed to connect service "{to}" within {seconds}s: context deadline exceeded'


def _url(check: HttpGet, container: NodeContainer, address: str, path: str = "") -> str:
    scheme, port = (check.scheme or "http").lower(), port_number(container, check.port)
    return f"{scheme}://{check.host or address}:{port}{path or _path(check)}"


def _path(check: HttpGet) -> str:
    """Escaped, so that what a pod's author writes stays one line of the request.

    >>> _path(HttpGet(path="a b?x=%20\\r\\nHost: evil#part"))
    '/a%20b?x=%20%0D%0AHost:%20evil'
    """
    path = check.path.removeprefix("/").partition("#")[0]
    return f"/{quote(path, safe=string.punctuation, errors='replace')}"


def request_head(host: str, port: int, path: str, headers: Mapping[str, str]) -> bytes:
    """The lines of a GET request. Headers of the pod's author replace the usual ones, whatever their case; those that
    say where a request ends are left out. Raises ProbeFailed for a header that would be more than one line: the node
    must not send what a pod's author likes to addresses that the pod may not reach."""
    lines = {"host": ("Host", f"{_bracketed(host)}:{port}"), "user-agent": ("User-Agent", "kube-probe/1.36")}
    lines |= {"accept": ("Accept", "*/*")}
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ProbeFailed(f"net/http: invalid header field name {name!r}")
        if _NOT_IN_HEADER.search(value):
            raise ProbeFailed(f'net/http: invalid header field value for "{name}"')
        if name.lower() not in _ENDS_REQUEST:
            lines[name.lower()] = (name, value)
    lines["connection"] = ("Connection", "close")
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.values())
    return f"GET {path} HTTP/1.1\r\n{head}\r\n".encode()


async def _connected(
    host: str, port: int, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Raises ProbeFailed, NoProbeResult."""
    try:
        return await asyncio.open_connection(host, port, ssl=tls)
    except ConnectionRefusedError:
        raise ProbeFailed(f"dial tcp {host}:{port}: connect: connection refused") from None
    except OSError as problem:
        failed = NoProbeResult if problem.errno in _OUT_OF_RESOURCES else ProbeFailed
        raise failed(f"dial tcp {host}:{port}: {problem.strerror or problem}") from None


async def tcp_connect(check: TcpSocket, container: NodeContainer, address: str) -> None:
    _, writer = await _connected(check.host or address, port_number(container, check.port))
    writer.close()


async def http_get(check: HttpGet, container: NodeContainer, address: str) -> str:
    """A plain request of our own: importing a client library for this would cost every node its memory. Redirects to
    another host are not followed: they count as success with a warning, which is the result."""
    host, port = check.host or address, port_number(container, check.port)
    own = host
    scheme, path = check.scheme, _path(check)
    headers = {each.name: each.value for each in check.http_headers}
    for _ in range(REDIRECTS):
        try:
            code, location, body = await _request(scheme, host, port, path, headers)
        except ProbeFailed as problem:
            raise ProbeFailed(f'Get "{_url(check, container, address, path)}": {problem}') from None
        if code not in (301, 302, 303, 307, 308) or not location:
            if not 200 <= code < 400:
                raise ProbeFailed(f"HTTP probe failed with statuscode: {code}")
            return ""
        try:
            target = urlsplit(urljoin(f"{(scheme or 'http').lower()}://{_bracketed(host)}:{port}{path}", location))
            port = target.port or (443 if target.scheme == "https" else 80)
        except ValueError:
            raise ProbeFailed(f"failed to parse Location header {location[:SHOWN]!r}") from None
        if target.hostname != own.lower():
            return f"Probe terminated redirects, Response body: {body}"
        query = f"?{target.query}" if target.query else ""
        scheme, path = target.scheme, quote(target.path + query or "/", safe=string.punctuation)
    raise ProbeFailed(f"stopped after {REDIRECTS} redirects")


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _request(scheme: str, host: str, port: int, path: str, headers: dict[str, str]) -> tuple[int, str, str]:
    """Status, the header Location and the beginning of the body."""
    tls = None
    if scheme.upper() == "HTTPS":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    head = request_head(host, port, path, headers)
    reader, writer = await _connected(host, port, tls)
    try:
        writer.write(head)
        await writer.drain()
        status = (await reader.readline()).split()
        if len(status) < 2 or not status[1].isdigit():
            raise ProbeFailed("the answer is not HTTP")
        location = ""
        while line := (await reader.readline()).strip():
            name, _, value = line.decode("latin-1").partition(":")
            if name.lower() == "location":
                location = value.strip()
        body = await reader.read(BODY)  # a server may complain of a client that does not listen
        return int(status[1]), location, body.decode(errors="replace")[:SHOWN]
    except ValueError:  # a line without an end, a number that is none
        raise ProbeFailed("malformed HTTP response") from None
    finally:
        writer.close()


async def grpc_check(check: GrpcCheck, address: str) -> None:
    """grpc.health.v1.Health/Check over cleartext HTTP/2, written by hand: one request, one answer."""
    reader, writer = await _connected(address, check.port)
    try:
        writer.write(_grpc_request(f"{address}:{check.port}", check.service))
        await writer.drain()
        while True:
            head = await reader.readexactly(9)
            length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
            payload = await reader.readexactly(length)
            if kind == 4 and not flags & 1:
                writer.write(_h2(4, 1, 0, b""))
            if kind == 6 and not flags & 1:
                writer.write(_h2(6, 1, 0, payload))
            if kind in (3, 7):
                raise ProbeFailed("the gRPC server refused the stream")
            if kind == 0 and length >= 5:
                status = payload[6] if payload[5:6] == b"\x08" and length >= 7 else 0
                if status == GRPC_STATES.index("SERVING"):
                    return
                state = GRPC_STATES[status] if status < len(GRPC_STATES) else status
                raise ProbeFailed(f'service unhealthy (responded with "{state}")')
            if kind == 1 and flags & 1:
                raise ProbeFailed("the gRPC server did not answer the health check")
    except asyncio.IncompleteReadError:
        raise ProbeFailed("the gRPC server closed the connection") from None
    finally:
        writer.close()


def _grpc_request(authority: str, service: str) -> bytes:
    fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", authority),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    headers = b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields)
    name = service.encode()
    body = b"\x0a" + _varint(len(name)) + name if name else b""
    message = b"\x00" + len(body).to_bytes(4, "big") + body
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _h2(4, 0, 0, b"") + _h2(1, 4, 1, headers) + _h2(0, 1, 1, message)


def _varint(number: int) -> bytes:
    """As protobuf writes it."""
    *more, last = (number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7))
    return bytes([*(each | 0x80 for each in more), last])


def _h2(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _text(value: str) -> bytes:
    encoded = value.encode()
    return bytes([len(encoded)]) + encoded


class ProbeFailure(msgspec.Struct, frozen=True):
    """A probe of a container has failed."""

    container: NodeContainer
    kind: str
    """Startup, Liveness or Readiness."""
    message: str
    restart: bool
    """It has failed so often that the container must be restarted."""
    grace: int | None
    """Seconds that the probe gives the container to end, if it says so."""


class ProbeRunner:
    """Runs the probes of one container until it is stopped."""

    def __init__(
        self,
        container: NodeContainer,
        run: ContainerRun,
        address: str,
        execute: Execute,
        failed: Callable[[ProbeFailure], None],
        changed: Callable[[], None],
        warned: Callable[[str, str], None] = lambda kind, message: None,
        errored: Callable[[str, str], None] = lambda kind, message: None,
    ) -> None:
        """`warned` is called with the kind of a probe and what is odd about its success, `errored` with why it has no
        result."""
        self._container = container
        self._run = run
        self._address = address
        self._execute = execute
        self._failed = failed
        self._changed = changed
        self._warned = warned
        self._errored = errored
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        self._stopped.set()

    async def run(self) -> None:
        """Probe until stopped."""
        container, run = self._container, self._run
        startup = container.startup_probe if not run.started else None
        if startup is not None and not await self._until_started(startup):
            return
        run.started = True
        if container.readiness_probe is None:
            run.ready = True
        self._changed()
        loops = []
        if container.liveness_probe is not None:
            loops.append(self._liveness(container.liveness_probe))
        if container.readiness_probe is not None:
            loops.append(self._readiness(container.readiness_probe))
        await asyncio.gather(*loops)

    async def _until_started(self, probe: Probe) -> bool:
        counter = Counter(probe.success_threshold or 1, probe.failure_threshold or 3)
        await self._pause(probe.initial_delay_seconds)
        while not self._stopped.is_set():
            result = await self._attempt(probe, "Startup", counter)
            if result:
                return True
            if result is False:
                self._stopped.set()
                return False
            await self._pause(probe.period_seconds or 10)
        return False

    async def _liveness(self, probe: Probe) -> None:
        counter = Counter(1, probe.failure_threshold or 3)
        await self._pause(probe.initial_delay_seconds or random.uniform(0, min(probe.period_seconds or 10, 1)))
        while not self._stopped.is_set():
            if await self._attempt(probe, "Liveness", counter) is False:
                self._stopped.set()
                return
            await self._pause(probe.period_seconds or 10)

    async def _readiness(self, probe: Probe) -> None:
        counter = Counter(probe.success_threshold or 1, probe.failure_threshold or 3)
        await self._pause(probe.initial_delay_seconds)
        while not self._stopped.is_set():
            result = await self._attempt(probe, "Readiness", counter)
            if result is not None and result != self._run.ready:
                self._run.ready = result
                self._changed()
            await self._pause(probe.period_seconds or 10)

    async def _attempt(self, probe: Probe, kind: str, counter: Counter) -> bool | None:
        """The result when its threshold is reached, else None."""
        result = await self._result(probe, kind, counter)
        return None if result is None else counter.add(result)

    async def _result(self, probe: Probe, kind: str, counter: Counter) -> bool | None:
        """Whether one attempt succeeds; None if it has no result."""
        try:
            warning = await run_probe(probe, self._container, self._address, self._execute)
        except NoProbeResult as problem:
            if not self._stopped.is_set():
                self._errored(kind, str(problem))
            return None
        except ProbeFailed as problem:
            if self._stopped.is_set():
                return True
            row = counter.row + 1 if counter.last is False else 1
            fatal = kind != "Readiness" and row >= counter.failures_allowed
            grace = probe.termination_grace_period_seconds
            self._failed(ProbeFailure(self._container, kind, str(problem), fatal, grace))
            return False
        if warning:
            self._warned(kind, warning)
        return True

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)
