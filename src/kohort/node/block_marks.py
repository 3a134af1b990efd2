"""What a node puts on its machine for a block of addresses, and how it is known again: by names and numbers that are
made of the block's address, and that no other program uses.

| on the machine                     | known by                                                             |
|------------------------------------|----------------------------------------------------------------------|
| rule that sends pods to services   | the block as its source, the block's table, the priority             |
| routing table of services          | its number                                                           |
| interface to the network of a pod  | its name; its routes go when it goes                                 |
| address of the loopback interface  | its label, or the record of the node (before there were labels)      |
"""

import contextlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from kohort.node import netlink

INTERFACE_PREFIX: Final = "kht"
RULE_PRIORITY: Final = 30_000
"""Of the rule that sends pods to services: before the machine's own table."""


def table_of(block: IPv4Network) -> int:
    """The routing table that belongs to a block; its number is made of the block's address."""
    return int(block.network_address) >> 8


def interface_of(address: str) -> str:
    """The machine's end of the connection to the pod with this address, at most 15 letters as the kernel demands."""
    return f"{INTERFACE_PREFIX}{int(IPv4Address(address)):08x}"


def address_in(interface: str) -> IPv4Address | None:
    """The address of the pod to which an interface leads; None if no node has made the interface."""
    digits = interface.removeprefix(INTERFACE_PREFIX)
    with contextlib.suppress(ValueError):
        if digits != interface and len(digits) == 8:
            return IPv4Address(int(digits, 16))
    return None


@dataclass(frozen=True)
class Leftovers:
    """What of a machine's network carries the marks of a block."""

    rules: tuple[netlink.Rule, ...] = ()
    interfaces: tuple[int, ...] = ()
    addresses: tuple[IPv4Address, ...] = ()

    @staticmethod
    def of(
        block: IPv4Network,
        recorded: Collection[int],
        rules: Iterable[netlink.Rule],
        interfaces: Iterable[tuple[str, int]],
        addresses: Iterable[netlink.LoopbackAddress],
    ) -> "Leftovers":
        """`recorded` are the addresses in the record of the block's node."""
        ours = netlink.Rule(block, IPv4Network(0).supernet(new_prefix=0), table_of(block), RULE_PRIORITY)
        return Leftovers(
            tuple(each for each in rules if each == ours),
            tuple(index for name, index in interfaces if (found := address_in(name)) and found in block),
            tuple(
                each.address
                for each in addresses
                if each.address in block and (each.label == netlink.LABEL or int(each.address) in recorded)
            ),
        )

    @staticmethod
    def on_machine(block: IPv4Network, recorded: Collection[int]) -> "Leftovers":
        """Raises OSError."""
        links = netlink.interfaces().items()
        return Leftovers.of(block, recorded, netlink.rules(), links, netlink.loopback_addresses())

    def remove(self) -> None:
        """The rule goes first, so that no packet is sent to an empty table. Raises OSError."""
        for rule in self.rules:
            netlink.delete_rule(rule.source, rule.table, rule.priority)
        for index in self.interfaces:
            netlink.delete_interface(index)
        for address in self.addresses:
            netlink.delete_address(str(address))
