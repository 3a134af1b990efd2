"""Addresses of pods.

Every pod has an address of its own in 127.0.0.0/8: it needs no rights, no bridge and no second stack, and everything on
this machine can reach it. Programs that listen on all addresses share the machine's ports; those that listen on the
pod's address (the downward API tells it) do not.
"""

import hashlib
from ipaddress import IPv4Address, IPv4Network
from itertools import chain
from typing import Final

PREFIX: Final = 20
"""4096 addresses for a node; 4080 nodes on one machine before two could meet."""


def loopback_block(node: str) -> IPv4Network:
    """The addresses of a node: its own part of 127.16.0.0 to 127.255.255.255, by its name."""
    first, last = int(IPv4Address("127.16.0.0")), int(IPv4Address("127.255.255.255"))
    blocks = (last - first + 1) >> (32 - PREFIX)
    chosen = int.from_bytes(hashlib.sha256(node.encode()).digest()[:8], "big") % blocks
    return IPv4Network((first + (chosen << (32 - PREFIX)), PREFIX))


class AddressBook:
    """Who has which address. An address that was given back is not given out again soon."""

    def __init__(self, network: IPv4Network) -> None:
        self._network = network
        self._held: dict[str, int] = {}
        self._last = int(network.network_address)

    def take(self, uid: str, known: str = "") -> str:
        """The address of a pod: the one that it has, or had, or the next free one."""
        if uid not in self._held:
            had = int(IPv4Address(known)) if known and IPv4Address(known) in self._network else None
            self._held[uid] = had if had is not None and had not in self._held.values() else self._next()
        return str(IPv4Address(self._held[uid]))

    def release(self, uid: str) -> None:
        self._held.pop(uid, None)

    def _next(self) -> int:
        first, end = int(self._network.network_address) + 1, int(self._network.broadcast_address)
        taken = set(self._held.values())
        for number in chain(range(self._last + 1, end), range(first, self._last + 1)):
            if number not in taken:
                self._last = number
                return number
        raise OverflowError(f"all addresses of {self._network} are taken")
