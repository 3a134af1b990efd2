"""Blocks of addresses for the pods and services of a node, each used by one node of this machine only.

Several clusters may run on one machine, and other programs have routes and addresses too. A node therefore takes a
block of a pool under a lock, and only if nothing on the machine uses it:

| lock of the block | owner named in the lock file | routes, rules, interfaces in the block      | result            |
|-------------------|------------------------------|---------------------------------------------|-------------------|
| held              | any                          | any                                         | the next block    |
| free              | this one                     | any: an earlier agent of this node made them | taken            |
| free              | none                         | none, or only addresses in the node's record | taken            |
| free              | another, which has ended     | none                                        | taken             |
| free              | another: block is abandoned  | only such as its node has made              | removed, taken    |
| free              | none or another              | others                                      | the next block    |

When a block is abandoned is decided in `abandoned_blocks`, and what its node has made is known by `block_marks`. The
lock goes with the process, however it ends. The name of the owner stays in the file, so that an agent that comes
back finds its block, and so that cleaning up deletes nothing in a block that has another owner by now. The directory of
the locks is emptied by a reboot, as the routes are. Addresses of the machine are routes too: in the table `local`.

Which block is tried first follows from the addresses in the node's record, or else from a hash of the node's name, so
that a node mostly has the same block after a reboot.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from kohort.kube.log import Log
from kohort.kube.private_files import open_private, private_directory
from kohort.node import netlink
from kohort.node.abandoned_blocks import AbandonedBlocks, BlockOwner, recorded_addresses
from kohort.node.block_marks import Leftovers, address_in, table_of

ASSIGNED: Final = IPv4Network("198.18.0.0/15")
"""RFC 2544, for benchmarks of networks: no public address is in there."""
LEAST_SPECIFIC: Final = 8
"""Routes to larger networks than this are default routes in parts (0.0.0.0/1 of a VPN), and reserve nothing."""
_SOCKET_TABLES: Final = ("tcp", "udp")
_log = Log(part="node")


@dataclass(frozen=True)
class Pool:
    first: int
    last: int
    prefix: int

    @property
    def size(self) -> int:
        return (self.last - self.first + 1) >> (32 - self.prefix)

    def block(self, number: int) -> IPv4Network:
        return IPv4Network((self.first + (number % self.size << (32 - self.prefix)), self.prefix))

    def block_of(self, address: int) -> IPv4Network | None:
        """The block with this address, if it is in the pool."""
        return self.block((address - self.first) >> (32 - self.prefix)) if self.first <= address <= self.last else None

    def blocks(self, seed: str, recorded: Collection[int]) -> Iterator[IPv4Network]:
        """All blocks, in the order in which they are tried."""
        known = next((found for address in sorted(recorded) if (found := self.block_of(address))), None)
        if known is not None:
            yield known
        start = _number(seed)
        yield from (self.block(start + step) for step in range(self.size))

    def first_choice(self, seed: str) -> IPv4Network:
        """For addresses that are only names, as those of simulated containers: no packet is sent to them."""
        return self.block(_number(seed))


ASSIGNED_POOL: Final = Pool(int(ASSIGNED.network_address), int(ASSIGNED.broadcast_address), 24)
"""Addresses that must be added to the machine, or to the network of a pod."""
LOOPBACK_POOL: Final = Pool(int(IPv4Address("127.16.0.0")), int(IPv4Address("127.255.255.255")), 20)
"""Addresses that every machine has."""


class NoFreeBlock(OSError):
    """Every block of a pool is in use; the message says what to do."""


class Claim:
    """A block that this process has for itself until `close`."""

    def __init__(self, network: IPv4Network, descriptor: int, path: Path) -> None:
        """`descriptor` holds the lock of the file at `path`."""
        self.network = network
        self._path = path
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        """Give up the lock; the owner stays named, for the next agent of the same node."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def release(self) -> None:
        """Give the block back for good: nothing of it is left on the machine. The file goes while it is locked, so it
        is not that of another claim; who waits for the lock finds that the file is gone (`_locked`)."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
        self.close()


@dataclass(frozen=True)
class InUse:
    """What of a machine's network reserves addresses."""

    networks: tuple[IPv4Network, ...] = ()
    tables: frozenset[int] = frozenset()

    def reserves(self, block: IPv4Network, own: Collection[int] = ()) -> bool:
        """Whether a block is used, except by these addresses and their routing table."""
        if not own and table_of(block) in self.tables:
            return True
        return any(
            each.overlaps(block) and not (each.prefixlen == 32 and int(each.network_address) in own)
            for each in self.networks
            if each.prefixlen >= (block.prefixlen if block.is_loopback else LEAST_SPECIFIC)
            and not (own and each == block)
        )


def claim(pool: Pool, seed: str, owner: Path, recorded: Collection[int] = (), *, locks: Path | None = None) -> Claim:
    """A block for `owner`, the record that names its addresses (`recorded`). Raises NoFreeBlock, OSError."""
    place, claimant = locks or lock_directory(), BlockOwner.this_process(owner)
    before, abandoned = in_use(), AbandonedBlocks()
    for block in pool.blocks(seed, recorded):
        found = _locked(place, block)
        if found is None:
            continue
        named = _owner(found)
        own = recorded if not named.record else ()
        if (
            named.record == claimant.record
            or not (before.reserves(block, own) or in_use().reserves(block, own))
            or _cleaned(block, named, abandoned)
        ):
            os.ftruncate(found, 0)
            os.pwrite(found, claimant.render().encode(), 0)
            return Claim(block, found, _lock_file(place, block))
        refused = Claim(block, found, _lock_file(place, block))
        refused.close() if named.record else refused.release()
    first, last = IPv4Address(pool.first), IPv4Address(pool.last)
    raise NoFreeBlock(
        f"no free block of addresses in {first} to {last}: each /{pool.prefix} overlaps a route, rule or address of "
        f"this machine, or is locked in {place}; delete routes that are not needed (ip route show table all), or stop "
        "another cluster"
    )


def reclaim(block: IPv4Network, owner: Path, *, locks: Path | None = None) -> Claim | None:
    """The block of an agent that has ended, for cleaning up; None if another node has it by now. Raises OSError."""
    place = locks or lock_directory()
    found = _locked(place, block)
    if found is None:
        return None
    if _owner(found).record not in ("", str(owner.absolute())):
        os.close(found)
        return None
    return Claim(block, found, _lock_file(place, block))


def in_use() -> InUse:
    """What of this machine's network reserves addresses now. Raises OSError."""
    routes, rules = netlink.routes(), netlink.rules()
    networks = {each.network for each in routes}
    networks |= {each for rule in rules for each in (rule.source, rule.destination)}
    networks |= {IPv4Network(found) for name in netlink.interfaces() if (found := address_in(name))}
    networks |= set(_loopback_sockets())
    return InUse(tuple(networks), frozenset({each.table for each in routes} | {each.table for each in rules}))


def lock_directory() -> Path:
    """For this user alone, and the same for all of its processes. Raises OSError, NotPrivate."""
    user = os.geteuid()
    runtime = "/run" if user == 0 else os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.access(runtime, os.W_OK):
        place = Path(runtime) / "kohort"
    else:
        place = Path(tempfile.gettempdir()) / f"kohort-{user}"
    private_directory(place, ("address-blocks",))
    private_directory(place / "address-blocks")
    return place / "address-blocks"


def _number(seed: str) -> int:
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")


def _lock_file(place: Path, block: IPv4Network) -> Path:
    return place / str(block.network_address)


def _locked(place: Path, block: IPv4Network) -> int | None:
    """A descriptor that holds the lock of a block, None if another has it. A file that was removed between its opening
    and its lock is none that others lock: the next one is opened."""
    path = _lock_file(place, block)
    while True:
        descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is_file_at(path, descriptor):
            return descriptor
        os.close(descriptor)


def _is_file_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _owner(descriptor: int) -> BlockOwner:
    return BlockOwner.parse(os.pread(descriptor, 8192, 0).decode(errors="replace"))


def _cleaned(block: IPv4Network, named: BlockOwner, abandoned: AbandonedBlocks) -> bool:
    """Whether a block that was in use is free, because its node is gone and what it has left could be removed. The
    caller holds the lock."""
    if not named.record or block.is_loopback:
        return False
    try:
        if not abandoned.has(named, block):
            return False
        Leftovers.on_machine(block, recorded_addresses(Path(named.record))).remove()
        free = not in_use().reserves(block)
    except (OSError, ValueError) as problem:
        _log.warning("cannot free a block of addresses", block=str(block), node=named.record, problem=str(problem))
        return False
    if free:
        _log.info("freed the block of addresses of a node that was killed", block=str(block), node=named.record)
    return free


def _loopback_sockets() -> Iterator[IPv4Network]:
    """Loopback addresses at which programs listen: nodes of other users have their locks elsewhere."""
    for table in _SOCKET_TABLES:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                number = int.from_bytes(bytes.fromhex(line.split()[1].partition(":")[0]), "little")
                if LOOPBACK_POOL.block_of(number) is not None:
                    yield IPv4Network(number)
