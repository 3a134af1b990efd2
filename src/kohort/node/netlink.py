"""The few messages to the kernel that a node needs: addresses of the loopback interface, routes, rules, and whether
there are pairs of connected interfaces. Written by hand, because the library for it costs more memory than the rest of
the agent.

Nothing here replaces what exists: what another program has added stays as it is, and the caller gets EEXIST.
"""

import contextlib
import errno
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Final, NamedTuple

NEW_LINK, DELETE_LINK, GET_LINKS = 16, 17, 18
NEW_ADDRESS, DELETE_ADDRESS, GET_ADDRESSES = 20, 21, 22
NEW_ROUTE, DELETE_ROUTE, GET_ROUTES = 24, 25, 26
NEW_RULE, DELETE_RULE, GET_RULES = 32, 33, 34
ERROR, DONE = 2, 3
REQUEST, ACKNOWLEDGE, EXCLUSIVE, CREATE, DUMP = 0x1, 0x4, 0x200, 0x400, 0x300
GROUP_LINKS, GROUP_ROUTES, GROUP_RULES = 0x1, 0x40, 0x80
LOCAL, ADDRESS, ADDRESS_LABEL = 2, 1, 3
INTERFACE_NAME, LINK_INFO, LINK_KIND = 3, 18, 1
ROUTE_DESTINATION, ROUTE_INTERFACE = 1, 4
RULE_DESTINATION, RULE_SOURCE, RULE_PRIORITY = 1, 2, 6
TABLE: Final = 15
MAIN_TABLE, LOCAL_TABLE = 254, 255
SCOPE_HOST, SCOPE_LINK = 254, 253
LOOPBACK_INDEX: Final = 1
UNICAST, LOOK_UP_TABLE, STATIC = 1, 1, 4
_HEADER: Final = struct.Struct("=IHHII")
_ROUTE: Final = struct.Struct("=BBBBBBBBI")
"""Of routes and of rules: family, bits of destination and source, type of service, table, …"""
_LINK: Final = struct.Struct("=BxHiII")
_ADDRESS: Final = struct.Struct("=BBBBI")
LABEL: Final = "lo:kohort"
"""Of addresses that a node has added: `ip address` shows it."""
_ANSWER_BYTES: Final = 1 << 18


class Route(NamedTuple):
    network: IPv4Network
    table: int
    interface: int


class Rule(NamedTuple):
    source: IPv4Network
    destination: IPv4Network
    table: int
    priority: int


class LoopbackAddress(NamedTuple):
    address: IPv4Address
    label: str


def add_address(address: str) -> None:
    """An IPv4 address of our own on the loopback interface; one that is there stays. Raises OSError, PermissionError
    without the right to."""
    with contextlib.suppress(FileExistsError):
        label = _attribute(ADDRESS_LABEL, f"{LABEL}\0".encode())
        _ask(NEW_ADDRESS, REQUEST | ACKNOWLEDGE | CREATE | EXCLUSIVE, _address_message(address) + label)


def delete_address(address: str) -> None:
    """Raises OSError if there is none."""
    _ask(DELETE_ADDRESS, REQUEST | ACKNOWLEDGE, _address_message(address))


def loopback_addresses() -> list[LoopbackAddress]:
    """Single IPv4 addresses of the loopback interface. Raises OSError."""
    found = []
    for body in _dump(GET_ADDRESSES, _ADDRESS.pack(socket.AF_INET, 0, 0, 0, 0)):
        _, bits, _, _, interface = _ADDRESS.unpack_from(body)
        if (bits, interface) == (32, LOOPBACK_INDEX):
            attributes = _attributes(body[_ADDRESS.size :])
            label = attributes.get(ADDRESS_LABEL, b"").rstrip(b"\0").decode()
            found.append(LoopbackAddress(IPv4Address(attributes[LOCAL]), label))
    return found


def may_add_addresses(sample: str) -> bool:
    """`sample` is an address that the caller owns: it is added and deleted."""
    try:
        add_address(sample)
        delete_address(sample)
    except OSError:
        return False
    return True


def add_pair() -> None:
    """Two interfaces that are connected, named by the kernel. Raises OSError where there are none to be had."""
    kind = _attribute(LINK_KIND, b"veth\0")
    _ask(NEW_LINK, REQUEST | ACKNOWLEDGE | CREATE, _LINK.pack(0, 0, 0, 0, 0) + _attribute(LINK_INFO, kind))


def interfaces() -> dict[str, int]:
    """Indexes by name. Raises OSError."""
    found: dict[str, int] = {}
    for body in _dump(GET_LINKS, _LINK.pack(0, 0, 0, 0, 0)):
        _, _, index, _, _ = _LINK.unpack_from(body)
        name = _attributes(body[_LINK.size :]).get(INTERFACE_NAME, b"")
        found[name.rstrip(b"\0").decode()] = index
    return found


def delete_interface(index: int) -> None:
    """Its routes and, if it is one of a pair, the other end go with it. Raises OSError."""
    _ask(DELETE_LINK, REQUEST | ACKNOWLEDGE, _LINK.pack(0, 0, index, 0, 0))


def index_of(name: str) -> int:
    """Raises OSError if there is no such interface."""
    found = interfaces().get(name)
    if found is None:
        raise OSError(errno.ENODEV, f"there is no interface {name}")
    return found


def routes() -> list[Route]:
    """IPv4 routes of all tables; addresses of this machine are in `LOCAL_TABLE`. Raises OSError."""
    return [_route(body) for body in _dump(GET_ROUTES, _ROUTE.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0))]


def add_route(network: IPv4Network, interface: int, table: int = MAIN_TABLE) -> None:
    """Raises OSError, FileExistsError if there is another one."""
    _ask(NEW_ROUTE, REQUEST | ACKNOWLEDGE | CREATE | EXCLUSIVE, _route_message(network, interface, table))


def delete_route(network: IPv4Network, interface: int, table: int = MAIN_TABLE) -> None:
    """Raises OSError, ProcessLookupError if there is none."""
    _ask(DELETE_ROUTE, REQUEST | ACKNOWLEDGE, _route_message(network, interface, table))


def rules() -> list[Rule]:
    """IPv4 rules that say which table is used. Raises OSError."""
    return [_rule(body) for body in _dump(GET_RULES, _ROUTE.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0))]


def add_rule(source: IPv4Network, table: int, priority: int) -> None:
    """Raises OSError, FileExistsError if there is the same."""
    _ask(NEW_RULE, REQUEST | ACKNOWLEDGE | CREATE | EXCLUSIVE, _rule_message(source, table, priority))


def delete_rule(source: IPv4Network, table: int, priority: int) -> None:
    """Raises OSError if there is none."""
    _ask(DELETE_RULE, REQUEST | ACKNOWLEDGE, _rule_message(source, table, priority))


class Deletions:
    """Hears of routes, rules and interfaces that are deleted, by any program."""

    def __init__(self) -> None:
        """Raises OSError."""
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self.socket.bind((0, GROUP_LINKS | GROUP_ROUTES | GROUP_RULES))
        self.socket.setblocking(False)

    def read(self, is_relevant: Callable[[Route], bool]) -> bool:
        """Whether a rule, an interface or a route that is relevant was deleted since the last call."""
        found = False
        while True:
            try:
                data = self.socket.recv(_ANSWER_BYTES)
            except BlockingIOError:
                return found
            except OSError as problem:
                if problem.errno != errno.ENOBUFS:
                    raise
                found = True  # messages were lost, so anything may have happened
                continue
            for kind, body in _messages(data):
                found |= kind in (DELETE_RULE, DELETE_LINK) or (kind == DELETE_ROUTE and is_relevant(_route(body)))

    def close(self) -> None:
        self.socket.close()


def _address_message(address: str) -> bytes:
    packed = socket.inet_aton(address)
    header = _ADDRESS.pack(socket.AF_INET, 32, 0, SCOPE_HOST, LOOPBACK_INDEX)
    return header + _attribute(LOCAL, packed) + _attribute(ADDRESS, packed)


def _ask(kind: int, flags: int, body: bytes) -> None:
    with _kernel() as kernel:
        kernel.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)
        answer = kernel.recv(4096)
    _, found, _, _, _ = _HEADER.unpack_from(answer)
    if found != ERROR:
        raise OSError(errno.EPROTO, "the kernel gave an unexpected answer")
    _raise_if_failed(answer[_HEADER.size :])


def _dump(kind: int, body: bytes) -> Iterator[bytes]:
    with _kernel() as kernel:
        kernel.send(_HEADER.pack(_HEADER.size + len(body), kind, REQUEST | DUMP, 1, 0) + body)
        while True:
            for found, content in _messages(kernel.recv(_ANSWER_BYTES)):
                if found == DONE:
                    return
                if found == ERROR:
                    _raise_if_failed(content)
                else:
                    yield content


def _kernel() -> socket.socket:
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    kernel.bind((0, 0))
    return kernel


def _raise_if_failed(content: bytes) -> None:
    code = -struct.unpack_from("=i", content)[0]
    if code:
        raise OSError(code, os.strerror(code))


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        length, kind, _, _, _ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : length]
        data = data[length + (-length % 4) :]


def _route(body: bytes) -> Route:
    _, bits, _, _, table, _, _, _, _ = _ROUTE.unpack_from(body)
    found = _attributes(body[_ROUTE.size :])
    interface = found.get(ROUTE_INTERFACE)
    return Route(
        _network(found.get(ROUTE_DESTINATION), bits),
        _number(found[TABLE]) if TABLE in found else table,
        _number(interface) if interface else 0,
    )


def _rule(body: bytes) -> Rule:
    _, destination, source, _, table, _, _, _, _ = _ROUTE.unpack_from(body)
    found = _attributes(body[_ROUTE.size :])
    return Rule(
        _network(found.get(RULE_SOURCE), source),
        _network(found.get(RULE_DESTINATION), destination),
        _number(found[TABLE]) if TABLE in found else table,
        _number(found[RULE_PRIORITY]) if RULE_PRIORITY in found else 0,
    )


def _route_message(network: IPv4Network, interface: int, table: int) -> bytes:
    header = _ROUTE.pack(socket.AF_INET, network.prefixlen, 0, 0, 0, STATIC, SCOPE_LINK, UNICAST, 0)
    return (
        header
        + _attribute(ROUTE_DESTINATION, network.network_address.packed)
        + _attribute(ROUTE_INTERFACE, struct.pack("=I", interface))
        + _attribute(TABLE, struct.pack("=I", table))
    )


def _rule_message(source: IPv4Network, table: int, priority: int) -> bytes:
    return (
        _ROUTE.pack(socket.AF_INET, 0, source.prefixlen, 0, 0, 0, 0, LOOK_UP_TABLE, 0)
        + _attribute(RULE_SOURCE, source.network_address.packed)
        + _attribute(TABLE, struct.pack("=I", table))
        + _attribute(RULE_PRIORITY, struct.pack("=I", priority))
    )


def _network(address: bytes | None, bits: int) -> IPv4Network:
    return IPv4Network((int.from_bytes(address or b"\0\0\0\0", "big"), bits), strict=False)


def _number(value: bytes) -> int:
    return int.from_bytes(value, sys.byteorder)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def _attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind] = data[4:length]
        data = data[length + (-length % 4) :]
    return found
