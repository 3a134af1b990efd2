"""Requests that no honest client sends, written to the socket byte by byte."""

import contextlib
import re
import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import Kohort

pytestmark = pytest.mark.e2e


class Wire:
    """A TLS connection to the server, and a token that is allowed everything."""

    def __init__(self, kohort: "Kohort") -> None:
        self._address = urlsplit(kohort.server)
        self._context = ssl.create_default_context(cafile=str(kohort.data / "pki" / "ca.crt"))
        self.token = (kohort.data / "pki" / "token").read_text()

    def exchange(self, request: bytes, limit: int = 1 << 20) -> bytes:
        """Send exactly this, read until the server closes or has nothing more to say."""
        received = b""
        with self.connection() as plain, self._context.wrap_socket(plain, server_hostname="localhost") as wire:
            wire.settimeout(2)
            with contextlib.suppress(TimeoutError, ConnectionError, ssl.SSLError):
                wire.sendall(request)
                while len(received) < limit and (data := wire.recv(65536)):
                    received += data
        return received

    def connection(self) -> socket.socket:
        return socket.create_connection((self._address.hostname, self._address.port or 443), timeout=10)

    def get(self, target: str, *headers: str, authorized: bool = True) -> int:
        """The status of a GET that is sent as it stands."""
        lines = [f"GET {target} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
        if authorized:
            lines.append(f"Authorization: Bearer {self.token}")
        answer = self.exchange("\r\n".join([*lines, "", ""]).encode("latin-1"))
        return int(answer.split(b" ", 2)[1])


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    from tests.e2e.conftest import directory

    with directory(tmp_path_factory.mktemp("hostile") / "data") as kohort:
        kohort.up("--parts", "apiserver")
        yield Wire(kohort)


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/namespaces/default/secrets/../configmaps",
        "/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets",
        "/api/v1/namespaces/..",
        "/api/v1/namespaces/%2e%2e/configmaps",
        "/api/v1/namespaces/default%2fsecrets",
        "/api/v1/namespaces/default/configmaps/%00",
        "/healthz/../api/v1/secrets",
        "/healthz%2f..%2fapi/v1/secrets",
        "/api//v1/namespaces/../../../etc/passwd",
        "/%ff%fe",
    ],
)
def test_a_path_means_one_thing_only(wire: Wire, target: str) -> None:
    assert wire.get(target) in (400, 404)


@pytest.mark.parametrize(
    "target", ["/healthz/../api/v1/secrets", "/healthz;/../metrics", "//api/v1/secrets", "/version/../api"]
)
def test_no_path_leads_strangers_past_authorization(wire: Wire, target: str) -> None:
    assert wire.get(target, authorized=False) in (400, 401, 403, 404)


def statuses(received: bytes) -> list[int]:
    """The status of every answer in what was received."""
    return [int(code) for code in re.findall(rb"^HTTP/1\.[01] (\d+) ", received, re.MULTILINE)]


SMUGGLED = "GET /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        f"Content-Length: 5\r\nContent-Length: {len(SMUGGLED)}",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Content-Length: +5",
        "Content-Length: -1",
        "Content-Length : 5",
    ],
)
def test_a_request_has_one_length_only(wire: Wire, headers: str) -> None:
    """Two readers that disagree about where a request ends can be made to see different requests."""
    head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost"
    token = f"Authorization: Bearer {wire.token}"
    received = wire.exchange(f"{head}\r\n{token}\r\n{headers}\r\n\r\n0\r\n\r\n{SMUGGLED}".encode())
    assert statuses(received) == [400]


@pytest.mark.parametrize(
    "header",
    ["Impersonate-User: admin\nX-Other: y", "Authorization : Bearer x", " Folded: x", "No colon", "Bad\x00Name: x"],
)
def test_a_malformed_header_is_refused(wire: Wire, header: str) -> None:
    assert wire.get("/api/v1/namespaces", header, authorized=False) in (400, 401, 403)


def test_a_head_that_never_ends_is_cut_off(wire: Wire) -> None:
    received = wire.exchange(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * (1 << 20))
    assert statuses(received) in ([], [400], [431])


def test_a_body_that_is_too_large_is_refused_before_it_is_read(wire: Wire) -> None:
    request = (
        f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {wire.token}\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n"
    )
    received = wire.exchange(request.encode() + b"{")
    assert statuses(received) == [413]
    assert b"RequestEntityTooLarge" in received


def test_what_is_not_http_gets_no_answer_that_matters(wire: Wire) -> None:
    for garbage in (b"\x00\x01\x02\x03" * 100, b"SSH-2.0-OpenSSH\r\n", b"GET\r\n\r\n", b"\r\n" * 50):
        received = wire.exchange(garbage)
        assert all(400 <= status < 500 for status in statuses(received))


def test_plain_http_is_not_spoken(wire: Wire) -> None:
    received = b""
    with wire.connection() as plain:
        plain.settimeout(3)
        with contextlib.suppress(ConnectionError, TimeoutError):
            plain.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = plain.recv(1000)
    assert 200 not in statuses(received)
