"""A network of its own for every pod: two pods may both listen on 0.0.0.0:8080.

    machine                                        pod
    route 198.18.0.7 dev khtc6120007               eth0 198.18.0.7/32
    khtc6120007 169.254.1.1/32  ◀── veth pair ──▶  default via 169.254.1.1

There is no bridge: the machine routes between pods, so forwarding is switched on. Packets to the outside carry the
machine's address if `nft` can be asked to see to it; otherwise such pods reach this machine and each other only. The
API server listens on the machine's loopback address, which is another one inside: whatever arrives at that address and
port inside a pod is passed on.

NetworkNamespaces are kept by a mount in the state directory, so they outlive the agent.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import shutil
import socket
import subprocess
from collections.abc import Awaitable, Callable, Container
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from kohort.node import netlink
from kohort.node.address_blocks import ASSIGNED
from kohort.node.block_marks import interface_of
from kohort.node.syscalls import CLONE_NEWNET, MS_BIND, enter_namespace, in_thread

GATEWAY: Final = "169.254.1.1"
FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
MNT_DETACH: Final = 2
RULES: Final = f"""
add table ip kohort
flush table ip kohort
add chain ip kohort post {{ type nat hook postrouting priority 100; }}
add rule ip kohort post ip saddr {ASSIGNED} ip daddr != {ASSIGNED} oifname != "kht*" masquerade
"""
_libc = ctypes.CDLL(None, use_errno=True)


class NetworkNamespaces:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._relays: dict[str, asyncio.Server] = {}
        self._in_progress: set[str] = set()
        """Networks that are being made; they are not restored meanwhile."""

    @staticmethod
    def permitted() -> bool:
        """Whether this process may make network namespaces, connect them, and route between them."""
        if os.geteuid() != 0 or not os.access(FORWARDING, os.W_OK):
            return False

        def tried() -> bool:
            if _libc.unshare(CLONE_NEWNET) != 0:
                return False
            netlink.add_pair()  # gone with the namespace
            return True

        try:
            return in_thread(tried)
        except OSError:
            return False

    def prepare(self) -> None:
        """What pods share. A machine without `nft` keeps them from the outside."""
        FORWARDING.write_text("1")
        program = shutil.which("nft")
        if program is not None:
            subprocess.run([program, "-f", "-"], input=RULES.encode(), capture_output=True, check=False)

    def restore(self, uid: str, address: str) -> bool:
        """Connect a network to the machine again whose interface or route another program has deleted. Returns whether
        it had to be. Raises OSError."""
        if uid in self._in_progress or not _is_namespace(self.path(uid)):
            return False
        wanted = IPv4Network(address)
        if any((each.network, each.table) == (wanted, netlink.MAIN_TABLE) for each in netlink.routes()):
            return False
        interface = netlink.interfaces().get(interface_of(address))
        if interface is None:
            in_thread(lambda: _connect_to_machine(self.path(uid), address))
        else:
            _add_route(address, interface)
        return True

    def path(self, uid: str) -> Path:
        return self._directory / uid

    async def ensure(self, uid: str, address: str, relay: tuple[str, int] | None) -> str:
        """The network of a pod; made if it is not there. Returns its path. Raises OSError."""
        path = self.path(uid)
        if not _is_namespace(path):
            await asyncio.to_thread(self._make, path, uid, address)
        if relay is not None and uid not in self._relays:
            with contextlib.suppress(OSError):
                listening = in_thread(lambda: _listening_in(path, relay))
                self._relays[uid] = await asyncio.start_server(_passing_on(relay), sock=listening)
        return str(path)

    async def connect(self, uid: str, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection made from inside a pod. Raises OSError."""

        def inside() -> socket.socket:
            enter_namespace(str(self.path(uid)), CLONE_NEWNET)
            return socket.create_connection((host, port), 10)

        return await asyncio.open_connection(sock=await asyncio.to_thread(in_thread, inside))

    def adopt(self, uid: str, source: str, address: str) -> None:
        """Take a namespace that a container runtime has made for the network of a pod, and connect it. Raises
        OSError."""
        path = self.path(uid)
        if same_namespace(path, source):
            self.restore(uid, address)
            return
        self.remove(uid)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._in_progress.add(uid)
        try:
            if _libc.mount(os.fsencode(source), os.fsencode(path), None, MS_BIND, None) != 0:
                raise OSError(ctypes.get_errno(), f"cannot keep the network namespace {source}")
            in_thread(lambda: _connect_to_machine(path, address))
        except BaseException:
            self.remove(uid)
            raise
        finally:
            self._in_progress.discard(uid)

    def remove(self, uid: str) -> None:
        relay = self._relays.pop(uid, None)
        if relay is not None:
            relay.close()
        path = self.path(uid)
        if path.exists():
            _libc.umount2(os.fsencode(path), MNT_DETACH)
            with contextlib.suppress(OSError):
                path.unlink()

    def _make(self, path: Path, uid: str, address: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self._in_progress.add(uid)
        try:
            in_thread(lambda: _unshared(path))
            _connect_to_machine(path, address)
        except BaseException:
            self.remove(uid)  # half a network must not be taken for a whole one
            raise
        finally:
            self._in_progress.discard(uid)

    def remove_all(self, *, but: Container[str] = ()) -> None:
        """The networks of all pods, except for those with these UIDs."""
        if self._directory.is_dir():
            for path in list(self._directory.iterdir()):
                if path.name not in but:
                    self.remove(path.name)


def same_namespace(path: Path, other: str) -> bool:
    try:
        return _is_namespace(path) and path.stat().st_ino == os.stat(other).st_ino
    except OSError:
        return False


def raise_loopback(namespace: str) -> None:
    """Switch on the loopback interface of a namespace. Raises OSError."""
    from pyroute2 import IPRoute

    def inside() -> None:
        enter_namespace(namespace, CLONE_NEWNET)
        with IPRoute() as pod:
            pod.link("set", index=1, state="up")

    in_thread(inside)


def _is_namespace(path: Path) -> bool:
    try:
        return path.stat().st_dev == os.stat("/proc/self/ns/net").st_dev
    except OSError:
        return False


def _unshared(path: Path) -> None:
    if _libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a network namespace")
    if _libc.mount(b"/proc/thread-self/ns/net", os.fsencode(path), None, MS_BIND, None) != 0:
        raise OSError(ctypes.get_errno(), "cannot keep a network namespace")


def _connect_to_machine(path: Path, address: str) -> None:
    """The name of the interface is made of the address, which no other node has, so one of that name is an earlier one
    of ours. A route to the address that another program has made stays, and the pod does not start."""
    from pyroute2 import IPRoute, NetlinkError

    name = interface_of(address)
    handle = os.open(path, os.O_RDONLY)
    try:
        with IPRoute() as machine:
            for stale in machine.link_lookup(ifname=name):
                machine.link("del", index=stale)
            machine.link("add", ifname=name, kind="veth", peer={"ifname": "eth0", "net_ns_fd": handle})
            index = netlink.index_of(name)
            machine.addr("add", index=index, address=GATEWAY, prefixlen=32)
            machine.link("set", index=index, state="up")
            _add_route(address, index)
    except NetlinkError as problem:
        raise OSError(problem.code, str(problem)) from problem
    finally:
        os.close(handle)

    def inside() -> None:
        enter_namespace(str(path), CLONE_NEWNET)
        with IPRoute() as pod:
            pod.link("set", index=1, state="up")
            eth0 = netlink.index_of("eth0")
            pod.addr("add", index=eth0, address=address, prefixlen=32)
            pod.link("set", index=eth0, state="up")
            pod.route("add", dst=f"{GATEWAY}/32", oif=eth0, scope=253)
            pod.route("add", dst="default", gateway=GATEWAY, oif=eth0)

    try:
        in_thread(inside)
    except NetlinkError as problem:
        raise OSError(problem.code, str(problem)) from problem


def _add_route(address: str, interface: int) -> None:
    try:
        netlink.add_route(IPv4Network(address), interface)
    except FileExistsError:
        message = f"this machine has a route to {address} that kohort has not made: see ip route get {address}"
        raise FileExistsError(errno.EEXIST, message) from None


def _listening_in(path: Path, at: tuple[str, int]) -> socket.socket:
    enter_namespace(str(path), CLONE_NEWNET)
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(at)
    listening.listen(64)
    listening.setblocking(False)
    return listening


def _passing_on(
    target: tuple[str, int],
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            onward_reader, onward_writer = await asyncio.open_connection(*target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, onward_writer), copy(onward_reader, writer))

    return handle
