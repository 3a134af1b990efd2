"""Ports of Gateways: each Gateway has a loopback address of its own, where its listeners have the ports that they name.

Addresses are taken from 127.8.0.0/13, which pods do not use. A Gateway keeps its address over restarts if its ports are
still free there. Where a port must not be opened (below 1024 without the right to it), or the machine has no other
loopback addresses, the listener is served on the port that all Gateways share, only.
"""

import errno
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, ip_address
from typing import TYPE_CHECKING, Final
from zlib import crc32

from kohort.cluster.gateway.gateway_listeners import refusal
from kohort.cluster.gateway.views import Gateway
from kohort.kube.log import Log
from kohort.kube.resources import Key

if TYPE_CHECKING:
    from kohort.cluster.gateway.listening_port import ListeningPort
    from kohort.cluster.gateway.proxy import Proxy

_log = Log(module="kohort.cluster.gateway")
ADDRESSES: Final = IPv4Network("127.8.0.0/13")
_ATTEMPTS: Final = 64


def wanted_ports(gateway: Gateway) -> dict[int, bool]:
    """The ports that listeners name, and whether with TLS."""
    return {one.port: one.secure for one in gateway.spec.listeners if refusal(gateway, one) is None}


def candidates(key: Key, before: str = "") -> Iterator[str]:
    """Addresses to try for a Gateway: the one it had, then some that depend on its name."""
    if before and _is_ours(before):
        yield before
    start = crc32(str(key).encode())
    size = ADDRESSES.num_addresses - 2
    for number in range(_ATTEMPTS):
        yield str(ADDRESSES[1 + (start + number * 7919) % size])


def _is_ours(text: str) -> bool:
    try:
        return ip_address(text) in ADDRESSES
    except ValueError:
        return False


class GatewayPorts:
    def __init__(self, proxy: "Proxy") -> None:
        self._proxy = proxy
        self._addresses: dict[Key, str] = {}
        self._ports: dict[Key, dict[int, ListeningPort]] = {}

    def address(self, key: Key) -> str:
        """Empty for a Gateway without an address of its own."""
        return self._addresses.get(key, "") if self._ports.get(key) else ""

    def open_ports(self, key: Key) -> frozenset[int]:
        return frozenset(self._ports.get(key, ()))

    def __iter__(self) -> "Iterator[tuple[Key, int, ListeningPort]]":
        for key, ports in self._ports.items():
            for number, port in ports.items():
                yield key, number, port

    def keys(self) -> list[Key]:
        return list(self._ports)

    async def open(self, key: Key, wanted: Mapping[int, bool], before: str = "") -> None:
        """Open the wanted ports that can be opened, and close all others. `before` is the address it had."""
        ports = self._ports.setdefault(key, {})
        for number, port in list(ports.items()):
            if wanted.get(number) is not (port.certificates is not None):
                self._proxy.close_listener(ports.pop(number))
        missing = {number: secure for number, secure in wanted.items() if number not in ports}
        if not missing:
            return
        if ports:
            await self._open_at(ports, self._addresses[key], missing)
            return
        for address in candidates(key, before):
            if await self._open_at(ports, address, missing):
                self._addresses[key] = address
                return

    async def _open_at(self, ports: "dict[int, ListeningPort]", address: str, wanted: Mapping[int, bool]) -> bool:
        """False if another program has a port there, so that another address may be better."""
        opened: dict[int, ListeningPort] = {}
        for number, secure in wanted.items():
            try:
                opened[number] = await self._proxy.open_listener(address, number, secure=secure)
            except OSError as problem:
                if problem.errno == errno.EADDRINUSE:
                    for port in opened.values():
                        self._proxy.close_listener(port)
                    return False
                _log.info("a port of a Gateway cannot be opened", address=f"{address}:{number}", problem=str(problem))
        ports.update(opened)
        return True

    def close(self, key: Key) -> None:
        for port in self._ports.pop(key, {}).values():
            self._proxy.close_listener(port)
        self._addresses.pop(key, None)
