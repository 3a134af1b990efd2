"""Pod addresses: every simulated node has a block, every pod an address of its own."""

from ipaddress import IPv4Address, IPv4Network
from itertools import chain


class AddressPool:
    def __init__(self) -> None:
        self._holders: dict[int, str] = {}
        """Who holds an address."""
        self._held: dict[str, str] = {}
        self._last: dict[int, int] = {}
        """By the beginning of the block."""

    def take(self, holder: str, network: IPv4Network, known: str = "") -> str:
        """The address of a pod: the one it has, the one it had (`known`), or the next one that is free."""
        held = self._held.get(holder)
        if held is None:
            wanted = IPv4Address(known or self._free(network))
            held = self._held[holder] = str(wanted)
            self._holders[int(wanted)] = holder
        return held

    def release(self, holder: str) -> None:
        held = self._held.pop(holder, None)
        if held is not None and self._holders.get(number := int(IPv4Address(held))) == holder:
            del self._holders[number]

    def _free(self, network: IPv4Network) -> int:
        """After the last one given out: an address that was just freed may still be in a cache."""
        first, end = int(network.network_address) + 2, int(network.broadcast_address)
        last = self._last.get(first, first - 1)
        for number in chain(range(last + 1, end), range(first, last + 1)):
            if number not in self._holders:
                self._last[first] = number
                return number
        raise OverflowError(f"all addresses of {network} are taken")
