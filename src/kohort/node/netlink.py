"""Giving an address to the loopback interface and taking it away again: two messages to the kernel, written by hand,
because the library for it costs more memory than the rest of the agent."""

import errno
import os
import socket
import struct
from typing import Final

NEW_ADDRESS, DELETE_ADDRESS, ERROR = 20, 21, 2
REQUEST, ACKNOWLEDGE, CREATE, REPLACE = 0x1, 0x4, 0x400, 0x100
LOCAL, ADDRESS = 2, 1
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


def _exchange(kind: int, flags: int, address: str) -> None:
    packed = socket.inet_aton(address)
    body = struct.pack("=BBBBI", socket.AF_INET, 32, 0, SCOPE_HOST, LOOPBACK_INDEX)
    body += _attribute(LOCAL, packed) + _attribute(ADDRESS, packed)
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
    return struct.pack("=HH", 4 + len(value), kind) + value
