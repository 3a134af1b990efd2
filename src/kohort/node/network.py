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
import socket
from ipaddress import IPv4Address, IPv4Network
from itertools import chain
from pathlib import Path
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
    """Who has which address. An address that was given back is not given out again soon, and one that the machine has
    for another reason not at all: another node may have left it behind.

    With a `record`, addresses are written down before they are added to the machine, with who has them: the next agent
    gives them to the same ones, and takes away what nobody has any more.
    """

    def __init__(self, network: IPv4Network, *, assigns: bool = False, record: Path | None = None) -> None:
        self._network = network
        self._assigns = assigns
        self._record = record
        self._held: dict[str, int] = {}
        self._recorded = _read(record)
        """Owners, by address."""
        self._last = int(network.network_address)

    @property
    def network(self) -> IPv4Network:
        return self._network

    @staticmethod
    def for_node(seed: str, *, own_networks: bool = False, record: Path | None = None) -> "AddressBook":
        """The best block that this process has the rights for; `seed` tells nodes of one machine apart. Networks of
        their own bring their addresses along."""
        block = assigned_block(seed)
        if own_networks:
            return AddressBook(block, record=record)
        if netlink.may_add_addresses(str(block.broadcast_address - 1)):
            return AddressBook(block, assigns=True, record=record)
        return AddressBook(loopback_block(seed), record=record)

    def take(self, uid: str, known: str = "") -> str:
        """The address of a pod: the one that it has, or had, or the next free one."""
        if uid not in self._held:
            had = int(IPv4Address(known)) if known else self._recorded_for(uid)
            free = had is not None and IPv4Address(had) in self._network and had not in self._held.values()
            self._held[uid] = had if free and had is not None else self._next()
            self._remember({**self._recorded, self._held[uid]: uid})
            if self._assigns:
                netlink.add_address(str(IPv4Address(self._held[uid])))
        return str(IPv4Address(self._held[uid]))

    def release(self, uid: str) -> None:
        number = self._held.pop(uid, None)
        if number is not None:
            self._take_away(number)

    def release_all(self) -> None:
        for uid in list(self._held):
            self.release(uid)

    def release_orphans(self) -> None:
        """Addresses that an earlier agent has added for pods that are gone."""
        for number in self._recorded.keys() - set(self._held.values()):
            self._take_away(number)

    def _take_away(self, number: int) -> None:
        if self._assigns:
            with contextlib.suppress(OSError):
                netlink.delete_address(str(IPv4Address(number)))
        self._remember({each: owner for each, owner in self._recorded.items() if each != number})

    def _recorded_for(self, uid: str) -> int | None:
        return next((number for number, owner in self._recorded.items() if owner == uid), None)

    def _remember(self, recorded: dict[int, str]) -> None:
        if recorded == self._recorded:
            return
        self._recorded = recorded
        if self._record is not None:
            self._record.parent.mkdir(parents=True, exist_ok=True)
            lines = (f"{IPv4Address(number)} {owner}\n" for number, owner in sorted(recorded.items()))
            self._record.write_text("".join(lines))

    def _next(self) -> int:
        first, end = int(self._network.network_address) + 1, int(self._network.broadcast_address) - 1
        taken = {*self._held.values(), *self._recorded}
        for number in chain(range(self._last + 1, end), range(first, self._last + 1)):
            if number not in taken and (self._network.is_loopback or not _on_this_machine(number)):
                self._last = number
                return number
        raise OverflowError(f"all addresses of {self._network} are taken")


def release_recorded(record: Path) -> None:
    """Take away what the agents of a record have added, when there is none any more."""
    AddressBook(ASSIGNED, assigns=True, record=record).release_orphans()


def _on_this_machine(number: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(IPv4Address(number)), 0))
        except OSError:
            return False
        return True


def _read(path: Path | None) -> dict[int, str]:
    try:
        lines = path.read_text().splitlines() if path is not None else []
    except FileNotFoundError:
        return {}
    pairs = (line.partition(" ") for line in lines)
    return {int(IPv4Address(address)): owner for address, _, owner in pairs if address}
