"""Pod addresses: every simulated node has a block, every pod an address that nobody else has."""

from ipaddress import IPv4Address, IPv4Network
from itertools import chain


class AddressBook:
    def __init__(self) -> None:
        self._holders: dict[int, str] = {}
        """Who holds an address."""
        self._held: dict[str, int] = {}
        self._last: dict[IPv4Network, int] = {}

    def take(self, holder: str, network: IPv4Network, known: str = "") -> str:
        """The address of a pod: the one it has, the one it had (`known`), or the next one that is free."""
        if holder not in self._held:
            wanted = int(IPv4Address(known)) if known else self._free(network)
            self._held[holder] = wanted
            self._holders[wanted] = holder
        return str(IPv4Address(self._held[holder]))

    def release(self, holder: str) -> None:
        number = self._held.pop(holder, None)
        if number is not None and self._holders.get(number) == holder:
            del self._holders[number]

    def _free(self, network: IPv4Network) -> int:
        """After the last one given out: an address that was just freed may still be in somebody's cache."""
        first, end = int(network.network_address) + 2, int(network.broadcast_address)
        last = self._last.get(network, first - 1)
        for number in chain(range(last + 1, end), range(first, last + 1)):
            if number not in self._holders:
                self._last[network] = number
                return number
        raise OverflowError(f"all addresses of {network} are taken")
