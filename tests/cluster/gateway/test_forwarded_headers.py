"""What backends are told about clients."""

from ipaddress import ip_network

import pytest
from multidict import CIMultiDict

from kohort.cluster.gateway.forwarded_headers import Client, Network, end_to_end, is_trusted, request_headers

CLIENT = Client("192.0.2.7", False, "a.example")
PROXIES: tuple[Network, ...] = (ip_network("192.0.2.0/24"), ip_network("10.1.0.0/16"))
SAID = [
    ("Host", "a.example"),
    ("X-Forwarded-For", "203.0.113.9"),
    ("X-Forwarded-For", "10.1.2.3"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "b.example"),
    ("X-Forwarded-Port", "443"),
    ("Forwarded", "for=203.0.113.9"),
]


def test_a_client_is_not_believed_what_it_says_about_itself() -> None:
    said = [*SAID, ("X-Real-IP", "203.0.113.9"), ("X_Real_IP", "6.6.6.6"), ("x_forwarded_for", "6.6.6.6")]
    assert dict(request_headers(CIMultiDict(said), CLIENT)) == {
        "Host": "a.example",
        "X-Forwarded-For": "192.0.2.7",
        "X-Real-IP": "192.0.2.7",
        "X-Forwarded-Host": "a.example",
        "X-Forwarded-Proto": "http",
    }


def test_a_trusted_proxy_is_believed_and_added_to() -> None:
    assert dict(request_headers(CIMultiDict(SAID), CLIENT, PROXIES)) == {
        "Host": "a.example",
        "X-Forwarded-For": "203.0.113.9, 10.1.2.3, 192.0.2.7",
        "X-Real-IP": "203.0.113.9",
        "X-Forwarded-Host": "b.example",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Port": "443",
        "Forwarded": 'for=203.0.113.9, for=192.0.2.7;host="a.example";proto=http',
    }
    kept = request_headers(CIMultiDict([*SAID, ("X-Real-IP", "198.51.100.1")]), CLIENT, PROXIES)
    assert kept["X-Real-IP"] == "198.51.100.1"


@pytest.mark.parametrize(
    ("address", "trusted"), [("192.0.2.1", True), ("::ffff:192.0.2.1", True), ("192.0.3.1", False), ("", False)]
)
def test_who_is_trusted(address: str, trusted: bool) -> None:
    assert is_trusted(address, PROXIES) is trusted


def test_headers_of_one_connection_end_here_and_cannot_take_others_along() -> None:
    given = CIMultiDict(
        [
            ("Connection", "close, X-Private"),
            ("Connection", "X-More, Host, Content-Length"),
            ("X-Private", "1"),
            ("X-More", "1"),
            ("Host", "a"),
            ("Content-Length", "3"),
            ("Upgrade", "h2c"),
            ("HTTP2-Settings", "x"),
            ("TE", "trailers"),
            ("Accept", "*/*"),
        ]
    )
    assert dict(end_to_end(given)) == {"Host": "a", "Content-Length": "3", "Accept": "*/*"}
