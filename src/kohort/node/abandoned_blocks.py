"""Whether the node that owns a block of addresses may still need it, asked by a process that holds the block's lock.

An agent that is killed leaves its pods running, and they keep their addresses for the next agent. A block is abandoned
only if neither is left:

| written by             | record of the node | process named in the lock | pods of the node | block     |
|------------------------|--------------------|---------------------------|------------------|-----------|
| other namespaces       | any                | any                       | any              | is kept   |
| this namespace         | any                | any                       | one runs         | is kept   |
| this namespace         | there              | runs                      | none             | is kept   |
| this namespace         | there              | has ended                 | none             | abandoned |
| this namespace         | gone               | any                       | none             | abandoned |

A process has ended if no process has both its number and its start time. Processes of another container cannot be seen
from here, and neither can its files: hence the first line, which also holds for locks that do not name a namespace. An
agent without its record has given its lock back, so it does not use the block, and no later agent would find it.
"""

import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from kohort.node import netlink
from kohort.node.runtimes.process.leftover_processes import living_containers
from kohort.node.runtimes.process.process_launch import birth
from kohort.node.syscalls import CLONE_NEWNET, enter_namespace, in_thread


@dataclass(frozen=True)
class BlockOwner:
    """What the lock file of a block says."""

    record: str = ""
    """The path of the owner's record of addresses; empty if the block has no owner."""
    pid: int = 0
    birth: int = 0
    namespace: str = ""
    """Of processes, as /proc names it."""

    @staticmethod
    def this_process(record: Path) -> "BlockOwner":
        pid = os.getpid()
        return BlockOwner(str(record.absolute()), pid, birth(pid) or 0, _namespace())

    @staticmethod
    def parse(content: str) -> "BlockOwner":
        """Lines that are missing or not numbers are those of an earlier version, or of a write that was cut off."""
        record, pid, started, namespace = (*content.split("\n"), "", "", "", "")[:4]
        if not (pid.isdecimal() and started.isdecimal()):
            return BlockOwner(record)
        return BlockOwner(record, int(pid), int(started), namespace)

    def render(self) -> str:
        return f"{self.record}\n{self.pid}\n{self.birth}\n{self.namespace}\n"


def is_abandoned(*, same_namespace: bool, recorded: bool, agent_runs: bool, pods_run: bool) -> bool:
    """The table above."""
    return same_namespace and not pods_run and not (recorded and agent_runs)


class AbandonedBlocks:
    """Answers for many blocks; processes of other networks are looked for once, and only if they matter."""

    def __init__(self) -> None:
        self._inhabited: frozenset[int] | None = None

    def has(self, owner: BlockOwner, block: IPv4Network) -> bool:
        """Whether a block is abandoned. Pods that have their addresses from another block of the same node need this
        one too: it may have the address of their name server. Raises OSError, ValueError."""
        record = Path(owner.record)
        pods = recorded_addresses(record.with_name("addresses"))
        return is_abandoned(
            same_namespace=owner.namespace == _namespace(),
            recorded=record.exists(),
            agent_runs=birth(owner.pid) == owner.birth,
            pods_run=self._have_processes(block, pods) or bool(living_containers(_runtime_of(record))),
        )

    def _have_processes(self, block: IPv4Network, recorded: Collection[int]) -> bool:
        if self._inhabited is None:
            self._inhabited = inhabited_addresses()
        return any(each in recorded or IPv4Address(each) in block for each in self._inhabited)


def inhabited_addresses() -> frozenset[int]:
    """Addresses of the network namespaces, other than this one, in which processes run. Raises OSError."""
    return frozenset(
        int(each.network.network_address)
        for path in _other_networks()
        for each in _routes_inside(path)
        if each.table == netlink.LOCAL_TABLE and each.network.prefixlen == 32
    )


def _other_networks() -> Iterator[str]:
    """A path to each. Raises OSError. A process with more rights than this one does not show its network: it is not a
    container that an agent with the rights of this one has started."""
    seen = {os.stat("/proc/self/ns/net").st_ino}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        path = f"/proc/{pid}/ns/net"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            found = os.stat(path).st_ino
            if found not in seen:
                seen.add(found)
                yield path


def _routes_inside(path: str) -> list[netlink.Route]:
    def inside() -> list[netlink.Route]:
        enter_namespace(path, CLONE_NEWNET)
        return netlink.routes()

    try:
        return in_thread(inside)
    except FileNotFoundError:
        return []


def _runtime_of(record: Path) -> Path:
    """Where the node with this record keeps what it knows of its processes."""
    return record.parent.parent / "runtime"


def _namespace() -> str:
    return os.readlink("/proc/self/ns/pid")


def recorded_addresses(record: Path) -> dict[int, str]:
    """Owners by address, as a node has recorded them. Raises OSError, ValueError."""
    try:
        lines = record.read_text().splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.partition(" ") for line in lines)
    return {int(IPv4Address(address)): owner for address, _, owner in pairs if address}
