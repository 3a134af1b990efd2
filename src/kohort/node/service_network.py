"""The addresses that a cluster has given to its services, as pods of this node reach them.

Several clusters may live on one machine, and all give the same addresses away, so the machine itself cannot have them.
They are in a network of their own, made as that of a pod is, and the machine sends there what comes from this node's
pods, and only that:

    pod 198.18.7.4 ──▶ machine: from 198.18.7.0/24 to 10.96.0.9 ──▶ network of services, which has 10.96.0.9

Sockets of the agent listen in there; connections to endpoints are made outside.

Other programs may delete any of this. `hold` therefore compares what is there with what should be, and restores what is
missing; the agent calls it when services change, when the kernel says that something was deleted, and at intervals.
The rule, the routing table and the interface are this node's alone, because the block of its pods is.
"""

import asyncio
import contextlib
import hashlib
import socket
from collections.abc import Callable, Collection, Iterable
from ipaddress import IPv4Network
from pathlib import Path
from typing import TypeVar

from kohort.node import address_blocks, netlink
from kohort.node.block_marks import RULE_PRIORITY, interface_of, table_of
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network_namespaces import NetworkNamespaces
from kohort.node.syscalls import CLONE_NEWNET, enter_namespace, in_thread

T = TypeVar("T")


class ServiceNetwork:
    def __init__(self, namespaces: NetworkNamespaces, addresses: AddressBook, record: Path) -> None:
        """`addresses` are those of pods; the `record` says which rule was made, for cleaning up without an agent."""
        self.uid = "services-" + hashlib.sha256(str(record.absolute()).encode()).hexdigest()[:12]
        self._namespaces = namespaces
        self._addresses = addresses
        self._record = record
        self.held: set[str] = set()
        """Addresses of services, as of the last `hold`."""
        self.started = False

    async def start(self) -> None:
        """When there is a pod to use it: what it takes is large. Raises OSError."""
        address = self._addresses.take(self.uid)
        if interface_of(address) not in await asyncio.to_thread(netlink.interfaces):
            self._namespaces.remove(self.uid)  # that of an earlier agent with another address
        await self._namespaces.ensure(self.uid, address, None)
        self._record.parent.mkdir(parents=True, exist_ok=True)
        self._record.write_text(str(self._addresses.network))
        self._restore_rule()
        self.started = True

    def hold(self, addresses: Collection[str]) -> list[str]:
        """Have these addresses and no others. Returns what had been there before, was missing and is restored, in
        words. Raises OSError."""
        restored = []
        if self._namespaces.restore(self.uid, self._own_address):
            restored.append(f"interface or route of {self._own_address}")
        if self._restore_rule():
            restored.append(f"rule from {self._addresses.network}")
        inside = self._hold_inside(set(addresses))
        outside = self._hold_routes(set(addresses))
        restored += [f"address {each}" for each in sorted(inside & self.held)]
        restored += [f"route to {each}" for each in sorted(outside & self.held)]
        self.held = set(addresses)
        return restored

    def restore_pods(self, pods: Iterable[tuple[str, str]]) -> list[str]:
        """Connect pods (UID and address) again whose interface or route was deleted; the addresses of those that were.
        Raises OSError."""
        there = _hosts(netlink.routes())
        return [address for uid, address in pods if address not in there and self._namespaces.restore(uid, address)]

    def listening(self, address: str, port: int, kind: socket.SocketKind) -> socket.socket:
        """A socket in there. Raises OSError."""
        return self._inside(lambda: bound(address, port, kind))

    def concerns(self, route: netlink.Route) -> bool:
        """Whether a route leads to a service or to a pod of this node."""
        return route.table == self._table or route.network.subnet_of(self._addresses.network)

    def remove(self) -> None:
        if not self.started:
            return
        self._namespaces.remove(self.uid)
        with contextlib.suppress(OSError):
            netlink.delete_rule(self._addresses.network, self._table, RULE_PRIORITY)
        self._record.unlink(missing_ok=True)

    @property
    def _own_address(self) -> str:
        return self._addresses.take(self.uid)

    @property
    def _table(self) -> int:
        return table_of(self._addresses.network)

    def _inside(self, work: Callable[[], T]) -> T:
        path = str(self._namespaces.path(self.uid))

        def entered() -> T:
            enter_namespace(path, CLONE_NEWNET)
            return work()

        return in_thread(entered)

    def _restore_rule(self) -> bool:
        """Whether there was none."""
        with contextlib.suppress(OSError):  # answers come back from addresses that the machine does not know
            Path(f"/proc/sys/net/ipv4/conf/{interface_of(self._own_address)}/rp_filter").write_text("2")
        try:
            netlink.add_rule(self._addresses.network, self._table, RULE_PRIORITY)
        except FileExistsError:
            return False
        return True

    def _hold_inside(self, wanted: set[str]) -> set[str]:
        """The addresses that were missing in the network."""

        def compare() -> set[str]:
            there = _hosts(each for each in netlink.routes() if each.interface == netlink.LOOPBACK_INDEX)
            for address in self.held - wanted:
                with contextlib.suppress(OSError):
                    netlink.delete_address(address)
            for address in wanted - there:
                netlink.add_address(address)
            return wanted - there

        return self._inside(compare)

    def _hold_routes(self, wanted: set[str]) -> set[str]:
        """The addresses to which the machine had no route."""
        routes = netlink.routes()
        own = IPv4Network(self._own_address)
        interface = next(each.interface for each in routes if (each.network, each.table) == (own, netlink.MAIN_TABLE))
        table = [each for each in routes if each.table == self._table]
        there = _hosts(each for each in table if each.interface == interface)
        for each in table:
            # A route through another interface is of an agent that was killed and had the same block.
            if each.interface != interface or str(each.network.network_address) not in wanted:
                with contextlib.suppress(ProcessLookupError):
                    netlink.delete_route(each.network, each.interface, self._table)
        for address in wanted - there:
            netlink.add_route(IPv4Network(address), interface, self._table)
        return wanted - there


def _hosts(routes: Iterable[netlink.Route]) -> set[str]:
    """Single addresses to which these routes lead."""
    return {str(each.network.network_address) for each in routes if each.network.prefixlen == 32}


def bound(address: str, port: int, kind: socket.SocketKind) -> socket.socket:
    """A socket that hears what is sent there. Raises OSError."""
    found = socket.socket(socket.AF_INET, kind)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((address, port))
        if kind == socket.SOCK_STREAM:
            found.listen(128)
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found


def remove_recorded(record: Path, pods: Path, *, locks: Path | None = None) -> None:
    """Delete the rule of an agent that has ended; `pods` is the record of the pods' addresses, which owned the block.
    What another node owns by now stays."""
    try:
        block = IPv4Network(record.read_text())
    except (OSError, ValueError):
        return
    claim = address_blocks.reclaim(block, pods, locks=locks)
    if claim is not None:
        with contextlib.suppress(OSError):
            netlink.delete_rule(block, table_of(block), RULE_PRIORITY)
        claim.close()
    record.unlink()
