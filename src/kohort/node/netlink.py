"""The few messages to the kernel that are needed before anything else: an address for the loopback interface, and the
question whether there are pairs of connected interfaces. Written by hand, because the library for it costs more memory
than the rest of the agent."""

import errno
import os
import socket
import struct
from typing import Final

NEW_LINK, NEW_ADDRESS, DELETE_ADDRESS, ERROR = 16, 20, 21, 2
REQUEST, ACKNOWLEDGE, CREATE, REPLACE = 0x1, 0x4, 0x400, 0x100
LOCAL, ADDRESS = 2, 1
LINK_INFO, LINK_KIND = 18, 1
SCOPE_HOST: Final = 254
LOOPBACK_INDEX: Final = 1
_HEADER: Final = struct.Struct("=IHHII")


def add_address(address: str) -> None:
    """An IPv4 address of our own on the loopback interface. Raises OSError, PermissionError without the right to."""
    _exchange(NEW_ADDRESS, REQUEST | ACKNOWLEDGE | CREATE | REPLACE, address)


def delete_address(address: str) -> None:
    """Raises OSError if there is none."""
    _exchange(DELETE_ADDRESS, REQUEST | ACKNOWLEDGE, address)


def may_add_addresses(sample: str) -> bool:
    try:
        add_address(sample)
        delete_address(sample)
    except OSError:
        return False
    return True


def add_pair() -> None:
    """Two interfaces that are connected, named by the kernel. Raises OSError where there are none to be had."""
    kind = _attribute(LINK_KIND, b"veth\0")
    _ask(NEW_LINK, REQUEST | ACKNOWLEDGE | CREATE, struct.pack("=BxHiII", 0, 0, 0, 0, 0) + _attribute(LINK_INFO, kind))


def _exchange(kind: int, flags: int, address: str) -> None:
    packed = socket.inet_aton(address)
    body = struct.pack("=BBBBI", socket.AF_INET, 32, 0, SCOPE_HOST, LOOPBACK_INDEX)
    _ask(kind, flags, body + _attribute(LOCAL, packed) + _attribute(ADDRESS, packed))


def _ask(kind: int, flags: int, body: bytes) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.bind((0, 0))
        kernel.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)
        answer = kernel.recv(4096)
    _, found, _, _, _ = _HEADER.unpack_from(answer)
    if found != ERROR:
        raise OSError(errno.EPROTO, "the kernel gave an unexpected answer")
    code = -struct.unpack_from("=i", answer, _HEADER.size)[0]
    if code and not (kind == NEW_ADDRESS and code == errno.EEXIST):
        raise OSError(code, os.strerror(code))


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)
