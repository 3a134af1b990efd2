"""Allocation of cluster addresses and node ports to services.

The services in the store are the truth; the table here only saves looking through all of them for every new one. It is
filled from the store when first asked. An entry says which service holds a value and since when, so a mistake heals by
itself: a value whose service is gone, or no longer has it, is free again, unless it was handed out a moment ago and its
service is still on the way into the store.
"""

import ipaddress
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kohort.cluster.apiserver.storage.reader import Reader
from kohort.kube import clock
from kohort.objects.json_types import JsonObject

IN_FLIGHT_SECONDS: Final = 60.0
SERVICES: Final = "services"

Owner = tuple[str, str, str]
"""Namespace, name, uid."""


class AlreadyAllocated(Exception):
    """The wanted value belongs to another service."""


class OutOfRange(Exception):
    """The wanted value is not one of ours to give."""


class NothingLeft(Exception):
    """Nothing is left."""


def owner_of(service: JsonObject) -> Owner:
    meta = service["metadata"]
    return meta.get("namespace") or "", meta.get("name") or "", meta.get("uid") or ""


class AllocationPool:
    """Values of one sort. `values_of` returns the values that a service holds."""

    def __init__(
        self, universe: range, values_of: Callable[[JsonObject], Iterable[int]], reserved: frozenset[int] = frozenset()
    ) -> None:
        self.universe = universe
        self.values_of = values_of
        self.reserved = reserved
        """Never picked at random, but given when asked for by value."""
        self._taken: dict[int, tuple[Owner, float]] | None = None

    def take(self, reader: Reader, owner: Owner, value: int) -> None:
        if value not in self.universe:
            raise OutOfRange
        taken = self._table(reader)
        held = taken.get(value)
        if held is not None and held[0] != owner and self._still_held(reader, value, held):
            raise AlreadyAllocated
        taken[value] = (owner, clock.seconds())

    def pick(self, reader: Reader, owner: Owner) -> int:
        taken = self._table(reader)
        for value in self._candidates():
            held = taken.get(value)
            if value not in self.reserved and (held is None or not self._still_held(reader, value, held)):
                taken[value] = (owner, clock.seconds())
                return value
        raise NothingLeft

    def release(self, owner: Owner, values: Iterable[int]) -> None:
        for value in values:
            held = (self._taken or {}).get(value)
            if held is not None and held[0] == owner:
                del (self._taken or {})[value]

    def _candidates(self) -> Iterator[int]:
        """A few at random, then one after the other."""
        for _ in range(32):
            yield random.choice(self.universe)
        yield from self.universe

    def _table(self, reader: Reader) -> dict[int, tuple[Owner, float]]:
        if self._taken is None:
            self._taken = {}
            for service in reader.list(SERVICES):
                for value in self.values_of(service):
                    self._taken[value] = (owner_of(service), 0.0)
        return self._taken

    def _still_held(self, reader: Reader, value: int, held: tuple[Owner, float]) -> bool:
        (namespace, name, uid), since = held
        if clock.seconds() - since < IN_FLIGHT_SECONDS:
            return True
        service = reader.get(SERVICES, namespace, name)
        return service is not None and owner_of(service)[2] == uid and value in self.values_of(service)


def _addresses_in(network: ipaddress.IPv4Network) -> Callable[[JsonObject], Iterator[int]]:
    def values_of(service: JsonObject) -> Iterator[int]:
        for text in (service.get("spec") or {}).get("clusterIPs") or ():
            if text != "None":
                try:
                    address = ipaddress.IPv4Address(text)
                except ValueError:
                    continue
                if address in network:
                    yield int(address)

    return values_of


def node_ports_of(service: JsonObject) -> Iterator[int]:
    spec = service.get("spec") or {}
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


class Allocator:
    """Cluster addresses of one IPv4 range, and node ports."""

    def __init__(self, cidr: str = "10.96.0.0/16", node_ports: range = range(30000, 32768)) -> None:
        self.network = ipaddress.IPv4Network(cidr)
        first = int(self.network.network_address)
        usable = range(first + 1, first + self.network.num_addresses - 1)
        self._addresses = AllocationPool(usable, _addresses_in(self.network), frozenset((first + 1, first + 10)))
        self.ports = AllocationPool(node_ports, node_ports_of)

    def take_address(self, reader: Reader, owner: Owner, text: str) -> None:
        self._addresses.take(reader, owner, int(ipaddress.ip_address(text)))

    def pick_address(self, reader: Reader, owner: Owner) -> str:
        return str(ipaddress.IPv4Address(self._addresses.pick(reader, owner)))

    def release(self, service: JsonObject) -> None:
        """Give back everything that a service holds."""
        owner = owner_of(service)
        self._addresses.release(owner, self._addresses.values_of(service))
        self.ports.release(owner, node_ports_of(service))

    def release_changed(self, new: JsonObject, old: JsonObject) -> None:
        """Give back what the old version of a service held and the new one does not."""
        owner = owner_of(old)
        for pool in (self._addresses, self.ports):
            pool.release(owner, set(pool.values_of(old)) - set(pool.values_of(new)))
