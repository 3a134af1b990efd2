"""Network and mount namespaces for the demo, where the kernel grants them.

Addresses, routes and forwarding rules of pods then exist in these namespaces only and vanish with the last process. An
ordinary user enters a user namespace as well, in which the demo is root.

| user | namespaces | if the kernel refuses |
|---|---|---|
| root | network, mounts | pods use the machine's network as in `kohort up` |
| any other | user, network, mounts | pods have addresses in 127.0.0.0/8 |
"""

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Final

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_REC, MS_SLAVE = 0x4000, 0x80000
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 0x1
DEATH_SIGNAL: Final = 1


def enter() -> bool:
    """Enter new namespaces; returns whether the kernel granted them. Call it before a second thread starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    wanted = CLONE_NEWNET | CLONE_NEWNS | (CLONE_NEWUSER if user else 0)
    try:
        if libc.unshare(wanted) != 0:
            return False
        if user:
            _become_root(user, group)
        libc.mount(None, b"/", None, MS_REC | MS_SLAVE, None)
        _raise_loopback()
    except (OSError, AttributeError):
        return False
    return True


def _become_root(user: int, group: int) -> None:
    here = Path("/proc/self")
    (here / "setgroups").write_text("deny")
    (here / "uid_map").write_text(f"0 {user} 1")
    (here / "gid_map").write_text(f"0 {group} 1")


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, GET_FLAGS, request))
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", b"lo", flags | UP))


def end_with_parent(number: int) -> None:
    """Let the kernel send this process a signal when its parent ends, in whatever way."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, number, 0, 0, 0)
