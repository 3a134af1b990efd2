"""Addresses of pods: each has one of its own on this machine's loopback interface.

| may add addresses | block                                   | what follows                                          |
|-------------------|-----------------------------------------|-------------------------------------------------------|
| yes               | a part of 198.18.0.0/15 (RFC 2544)      | services and endpoints accept them                    |
| no                | a part of 127.16.0.0 to 127.255.255.255 | the API refuses them in endpoints, names work anyway  |

No bridge, no second network stack, no rules: everything on this machine reaches every pod, and every pod reaches the
outside. The price is that programs which listen on *all* addresses share the machine's ports. A program that is told
its address by the downward API does not have to care.
"""

import contextlib
import hashlib
from ipaddress import IPv4Address, IPv4Network
from itertools import chain
from typing import Final

from kohort.node import netlink

ASSIGNED: Final = IPv4Network("198.18.0.0/15")
ASSIGNED_PREFIX: Final = 24
FIRST_LOOPBACK: Final = int(IPv4Address("127.16.0.0"))
LAST_LOOPBACK: Final = int(IPv4Address("127.255.255.255"))
LOOPBACK_PREFIX: Final = 20


def loopback_block(seed: str) -> IPv4Network:
    """Addresses that every machine has; which of them, `seed` decides."""
    blocks = (LAST_LOOPBACK - FIRST_LOOPBACK + 1) >> (32 - LOOPBACK_PREFIX)
    return IPv4Network((FIRST_LOOPBACK + (_number(seed) % blocks << (32 - LOOPBACK_PREFIX)), LOOPBACK_PREFIX))


def assigned_block(seed: str) -> IPv4Network:
    """Addresses that must be added to the machine; which of them, `seed` decides."""
    blocks = 1 << (ASSIGNED_PREFIX - ASSIGNED.prefixlen)
    first = int(ASSIGNED.network_address)
    return IPv4Network((first + (_number(seed) % blocks << (32 - ASSIGNED_PREFIX)), ASSIGNED_PREFIX))


def _number(seed: str) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")


class AddressBook:
    """Who has which address. An address that was given back is not given out again soon."""

    def __init__(self, network: IPv4Network, *, assigns: bool = False) -> None:
        self._network = network
        self._assigns = assigns
        self._held: dict[str, int] = {}
        self._last = int(network.network_address)

    @staticmethod
    def for_node(seed: str, *, own_networks: bool = False) -> "AddressBook":
        """The best block that this process has the rights for; `seed` tells nodes of one machine apart. Networks of
        their own bring their addresses along."""
        if own_networks:
            return AddressBook(assigned_block(seed))
        block = assigned_block(seed)
        if netlink.may_add_addresses(str(block.broadcast_address - 1)):
            return AddressBook(block, assigns=True)
        return AddressBook(loopback_block(seed))

    def take(self, uid: str, known: str = "") -> str:
        """The address of a pod: the one that it has, or had, or the next free one."""
        if uid not in self._held:
            had = int(IPv4Address(known)) if known and IPv4Address(known) in self._network else None
            self._held[uid] = had if had is not None and had not in self._held.values() else self._next()
            if self._assigns:
                netlink.add_address(str(IPv4Address(self._held[uid])))
        return str(IPv4Address(self._held[uid]))

    def release(self, uid: str) -> None:
        number = self._held.pop(uid, None)
        if number is not None and self._assigns:
            with contextlib.suppress(OSError):
                netlink.delete_address(str(IPv4Address(number)))

    def release_all(self) -> None:
        for uid in list(self._held):
            self.release(uid)

    def _next(self) -> int:
        first, end = int(self._network.network_address) + 1, int(self._network.broadcast_address) - 1
        taken = set(self._held.values())
        for number in chain(range(self._last + 1, end), range(first, self._last + 1)):
            if number not in taken:
                self._last = number
                return number
        raise OverflowError(f"all addresses of {self._network} are taken")
