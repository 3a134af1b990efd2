"""Addresses of pods: each has one of its own on this machine's loopback interface.

| may add addresses | block                                   | what follows                                          |
|-------------------|-----------------------------------------|-------------------------------------------------------|
| yes               | a part of 198.18.0.0/15 (RFC 2544)      | services and endpoints accept them                    |
| no                | a part of 127.16.0.0 to 127.255.255.255 | the API refuses them in endpoints, names work anyway  |

Which block that is, and that no other node has it, is decided in `address_blocks`. No bridge, no second network stack,
no rules: everything on this machine reaches every pod, and every pod reaches the outside. The price is that programs
which listen on *all* addresses share the machine's ports. Programs that
listen on the pod's address, which the downward API gives them, do not.
"""

import contextlib
from ipaddress import IPv4Address, IPv4Network
from itertools import chain
from pathlib import Path

from kohort.node import address_blocks, netlink
from kohort.node.abandoned_blocks import recorded_addresses
from kohort.node.address_blocks import ASSIGNED_POOL, LOOPBACK_POOL, Claim


class AddressBook:
    """Which pod has which address. An address that was given back is not given out again soon, and one that the machine
    has for another reason not at all: another node may have left it behind.

    With a `record`, addresses are written down before they are added to the machine, with who has them: the next agent
    gives them to the same pods, and removes those of pods that are gone.
    """

    def __init__(
        self, network: IPv4Network, *, assigns: bool = False, record: Path | None = None, claim: Claim | None = None
    ) -> None:
        self._network = network
        self._claim = claim
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
    def for_node(seed: str, record: Path, *, own_networks: bool = False, locks: Path | None = None) -> "AddressBook":
        """The best block that is free and that this process has the rights for. Networks of their own bring their
        addresses along. Raises NoFreeBlock, OSError."""
        recorded = _read(record)
        if own_networks:
            claim = address_blocks.claim(ASSIGNED_POOL, seed, record, recorded, locks=locks)
            return AddressBook(claim.network, record=record, claim=claim)
        with contextlib.suppress(address_blocks.NoFreeBlock):
            claim = address_blocks.claim(ASSIGNED_POOL, seed, record, recorded, locks=locks)
            if netlink.may_add_addresses(str(claim.network.broadcast_address - 1)):
                return AddressBook(claim.network, assigns=True, record=record, claim=claim)
            claim.release()
        claim = address_blocks.claim(LOOPBACK_POOL, seed, record, recorded, locks=locks)
        return AddressBook(claim.network, record=record, claim=claim)

    def close(self) -> None:
        """Let another process have the block; addresses that are still given out stay, and stay recorded."""
        if self._claim is not None and not self._recorded:
            self._claim.release()
        elif self._claim is not None:
            self._claim.close()

    def has(self, uid: str) -> bool:
        """Whether the pod has an address, or had one when an earlier agent ended."""
        return uid in self._held or self._recorded_for(uid) is not None

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
        """Addresses that an earlier agent has added for pods that are gone. Those of another block, which this node had
        before, may have another owner now: they are forgotten, not deleted."""
        for number in self._recorded.keys() - set(self._held.values()):
            self._take_away(number)

    def _take_away(self, number: int) -> None:
        if self._assigns and IPv4Address(number) in self._network:
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
        used = [] if self._network.is_loopback else [each.network for each in netlink.routes()]
        used = [each for each in used if each.prefixlen >= self._network.prefixlen and each.overlaps(self._network)]
        for number in chain(range(self._last + 1, end), range(first, self._last + 1)):
            if number not in taken and not any(IPv4Address(number) in each for each in used):
                self._last = number
                return number
        raise OverflowError(f"all addresses of {self._network} are taken")


def release_recorded(record: Path, *, locks: Path | None = None) -> None:
    """Delete the addresses that the agents of a record have added, when there is none any more, unless another node has
    them by now. Raises OSError."""
    blocks = {ASSIGNED_POOL.block_of(address) for address in _read(record)}
    for block in blocks - {None}:
        assert block is not None
        if (claim := address_blocks.reclaim(block, record, locks=locks)) is not None:
            book = AddressBook(block, assigns=True, record=record, claim=claim)
            book.release_orphans()
            book.close()
    if record.exists():
        record.write_text("")


def _read(path: Path | None) -> dict[int, str]:
    return recorded_addresses(path) if path is not None else {}
