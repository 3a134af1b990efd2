"""What a backend is told about the client, and which headers go on at all. Pure.

A client can write any header. What it says about itself is passed on only if it is a proxy that is trusted; by default
none is:

| header              | from a trusted proxy                              | from any other client           |
|---------------------|---------------------------------------------------|---------------------------------|
| X-Forwarded-For     | the client's address is appended                  | the client's address            |
| X-Real-IP           | kept; without it, the last address not trusted    | the client's address            |
| X-Forwarded-Proto   | kept, or how the request came                     | how the request came            |
| X-Forwarded-Host    | kept, or the host that was asked for              | the host that was asked for     |
| Forwarded           | appended to, if there is one                      | removed                         |
| X-Forwarded-*       | kept                                              | removed                         |

Names are compared with `_` as `-`: many servers make the same variable of both.

Headers that concern one connection end here: those that RFC 9110 names, and those that the Connection header names. The
latter cannot remove what the gateway needs or adds.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

from multidict import CIMultiDict, CIMultiDictProxy

Network = IPv4Network | IPv6Network
_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NOT_REMOVABLE: Final = frozenset({"host", "content-length"})
"""A Connection header that names these is ignored as to them: they say where a request goes and where it ends."""


class Client(NamedTuple):
    address: str
    secure: bool
    host: str
    """As it was asked for, with the port."""


def is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    if not trusted:
        return False
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in network for network in trusted)


def request_headers(
    given: CIMultiDictProxy[str] | CIMultiDict[str], client: Client, trusted: Sequence[Network] = ()
) -> CIMultiDict[str]:
    """What a backend gets of the headers of a request."""
    believed = is_trusted(client.address, trusted)
    headers = end_to_end(given, _is_hop_by_hop if believed else _is_not_believed)
    if client.host:
        headers["Host"] = client.host
    before = ", ".join(headers.popall("X-Forwarded-For", []))
    chain = f"{before}, {client.address}" if before else client.address
    headers["X-Forwarded-For"] = chain
    headers.setdefault("X-Real-IP", _last_untrusted(chain, trusted))
    headers.setdefault("X-Forwarded-Host", client.host)
    headers.setdefault("X-Forwarded-Proto", "https" if client.secure else "http")
    if told := ", ".join(headers.popall("Forwarded", [])):
        headers["Forwarded"] = f"{told}, {_forwarded(client)}"
    return headers


def end_to_end(
    given: CIMultiDictProxy[str] | CIMultiDict[str], ends_here: Callable[[str], bool] | None = None
) -> CIMultiDict[str]:
    """Without what concerns one connection only, by its nature or because the sender says so."""
    drop = ends_here or _is_hop_by_hop
    headers = CIMultiDict([(name, value) for name, value in given.items() if not drop(name)])
    for line in given.getall("Connection", ()):
        for name in line.split(","):
            if name.strip().lower() not in _NOT_REMOVABLE:
                headers.popall(name.strip(), None)
    return headers


# Remembered, because names come again and again in a few spellings, also where no two requests are the same.


@lru_cache(maxsize=1024)
def _is_hop_by_hop(name: str) -> bool:
    return name.lower() in _HOP_BY_HOP


@lru_cache(maxsize=1024)
def _is_not_believed(name: str) -> bool:
    """Of a client that is not a trusted proxy: also what it says about itself."""
    plain = name.lower().replace("_", "-")
    return (
        name.lower() in _HOP_BY_HOP
        or plain in ("forwarded", "x-real-ip", "x-scheme")
        or plain.startswith("x-forwarded-")
    )


def _last_untrusted(chain: str, trusted: Sequence[Network]) -> str:
    """The nearest address that is not one of our proxies; everything before it may be invented."""
    if not trusted:
        return chain.rpartition(",")[2].strip()
    addresses = [each.strip() for each in chain.split(",")]
    return next((each for each in reversed(addresses) if not is_trusted(each, trusted)), addresses[0])


def _forwarded(client: Client) -> str:
    address = f'"[{client.address}]"' if ":" in client.address else client.address
    return f'for={address};host="{client.host}";proto={"https" if client.secure else "http"}'
