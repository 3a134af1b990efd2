"""The addresses that a cluster has given to its services, as pods of this node reach them.

Several clusters may live on one machine, and all give the same addresses away, so the machine itself cannot have them.
They are in a network of their own, made as that of a pod is, and the machine sends there what comes from this node's
pods, and only that:

    pod 198.18.7.4 ──▶ machine: from 198.18.7.0/24 to 10.96.0.9 ──▶ network of services, which has 10.96.0.9

Sockets of the agent listen in there; connections to endpoints are made outside.
"""

import contextlib
import errno
import hashlib
import socket
from collections.abc import Collection
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from kohort.node import netlink
from kohort.node.namespaces import Namespaces, in_thread, interface_of
from kohort.node.network import AddressBook
from kohort.node.runtimes.process.launching import CLONE_NEWNET, enter_namespace

PRIORITY: Final = 30_000
"""Of the rule that sends pods there: before the machine's own table."""
LINK_SCOPE: Final = 253


class ServiceNetwork:
    def __init__(self, namespaces: Namespaces, addresses: AddressBook, record: Path) -> None:
        """`addresses` are those of pods; the `record` says which rule was made, for whoever has to take it away."""
        self.uid = "services-" + hashlib.sha256(str(record.absolute()).encode()).hexdigest()[:12]
        self._namespaces = namespaces
        self._addresses = addresses
        self._record = record
        self._held: set[str] = set()
        self.started = False

    async def start(self) -> None:
        """When there is somebody to use it: what it takes is large. Raises OSError."""
        await self._namespaces.ensure(self.uid, self._addresses.take(self.uid), None)
        self._lead_pods_there()
        self.started = True

    def hold(self, addresses: Collection[str]) -> None:
        """Have these addresses and no others. Raises OSError."""
        fresh, stale = set(addresses) - self._held, self._held - set(addresses)
        if not fresh and not stale:
            return
        path = str(self._namespaces.path(self.uid))

        def inside() -> None:
            enter_namespace(path, CLONE_NEWNET)
            for address in fresh:
                netlink.add_address(address)
            for address in stale:
                with contextlib.suppress(OSError):
                    netlink.delete_address(address)

        in_thread(inside)
        self._lead("replace", fresh)
        self._lead("del", stale)
        self._held = set(addresses)

    def listening(self, address: str, port: int, kind: socket.SocketKind) -> socket.socket:
        """A socket in there. Raises OSError."""
        path = str(self._namespaces.path(self.uid))

        def inside() -> socket.socket:
            enter_namespace(path, CLONE_NEWNET)
            return bound(address, port, kind)

        return in_thread(inside)

    def remove(self) -> None:
        if not self.started:
            return
        self._namespaces.remove(self.uid)
        remove_recorded(self._record)

    def _lead_pods_there(self) -> None:
        self._record.parent.mkdir(parents=True, exist_ok=True)
        self._record.write_text(str(self._addresses.network))
        with contextlib.suppress(OSError):  # answers come back from addresses that the machine does not know
            Path(f"/proc/sys/net/ipv4/conf/{interface_of(self.uid)}/rp_filter").write_text("2")
        _rule("add", self._addresses.network)

    def _lead(self, command: str, addresses: Collection[str]) -> None:
        from pyroute2 import IPRoute, NetlinkError

        if not addresses:
            return
        with IPRoute() as machine:
            found = machine.link_lookup(ifname=interface_of(self.uid))
            if not found:
                raise OSError(errno.ENODEV, f"there is no interface {interface_of(self.uid)}")
            table = _table(self._addresses.network)
            for address in addresses:
                with contextlib.suppress(NetlinkError):
                    machine.route(command, dst=f"{address}/32", oif=found[0], scope=LINK_SCOPE, table=table)


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


def remove_recorded(record: Path) -> None:
    """Take away the rule of an agent that is gone."""
    with contextlib.suppress(OSError, ValueError):
        _rule("del", IPv4Network(record.read_text()))
        record.unlink()


def _table(pods: IPv4Network) -> int:
    """A routing table for each block of pods: its number is the block's, which nobody else uses."""
    return int(pods.network_address) >> 8


def _rule(command: str, pods: IPv4Network) -> None:
    """In a thread of its own: the library has a loop of its own too, and there may be one here."""
    from pyroute2 import IPRoute, NetlinkError

    block, bits = str(pods.network_address), pods.prefixlen

    def change() -> None:
        with IPRoute() as machine:
            machine.rule(command, src=block, src_len=bits, table=_table(pods), priority=PRIORITY)

    try:
        in_thread(change)
    except NetlinkError as problem:
        if command != "add" or problem.code != errno.EEXIST:
            raise OSError(problem.code, str(problem)) from problem
