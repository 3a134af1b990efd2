"""What a name server of the cluster knows: services, their endpoints, their ports. Pure.

| name                                           | kind  | answer                                                 |
|------------------------------------------------|-------|--------------------------------------------------------|
| `svc.ns.svc.cluster.local`                     | A     | the service's address; if headless, those of its pods  |
| `host.svc.ns.svc.cluster.local`                | A     | one pod of a headless service                          |
| `_port._proto.svc.ns.svc.cluster.local`        | SRV   | ports, and the names of pods that listen on them       |
| `svc.ns.svc.cluster.local` with externalName   | CNAME | that name                                              |
| `4.3.2.1.in-addr.arpa`                         | PTR   | the name of an address that is known                   |

A name below the cluster's domain that is not here does not exist. All other names are forwarded to the machine's name
servers.
"""

from collections import defaultdict
from collections.abc import Iterable
from ipaddress import IPv4Address

import msgspec

from kohort.node.address_blocks import ASSIGNED
from kohort.node.names.dns_messages import ANY, CNAME, PTR, SRV, A, Srv
from kohort.node.names.dns_messages import Record as Answer
from kohort.node.names.etc_hosts import DOMAIN, Record
from kohort.objects.core import Service
from kohort.objects.discovery import EndpointSlice

REVERSE = "in-addr.arpa"


class Zone(msgspec.Struct):
    addresses: dict[str, list[str]] = {}
    ports: dict[str, list[Srv]] = {}
    aliases: dict[str, str] = {}
    names: dict[str, str] = {}
    """Of addresses; the most specific one."""
    known: set[str] = set()
    """All names and those above them: these exist, even if there is nothing to say of them."""

    def responsible(self, name: str) -> bool:
        if name == DOMAIN or name.endswith(f".{DOMAIN}"):
            return True
        address = address_of(name)
        return address is not None and (address in self.names or IPv4Address(address) in ASSIGNED)

    def answers(self, name: str, kind: int) -> list[Answer] | None:
        """None when there is no such name."""
        if (address := address_of(name)) is not None:
            found = self.names.get(address)
            return None if found is None else [Answer(name, PTR, found)] if kind in (PTR, ANY) else []
        if name in self.aliases:
            return [Answer(name, CNAME, self.aliases[name])]
        if name not in self.known:
            return None
        given = [Answer(name, A, address) for address in self.addresses.get(name, ())] if kind in (A, ANY) else []
        return given + ([Answer(name, SRV, each) for each in self.ports.get(name, ())] if kind in (SRV, ANY) else [])


def build_zone(records: Iterable[Record], services: Iterable[Service], slices: Iterable[EndpointSlice]) -> Zone:
    """`records` as they are written to hosts files."""
    zone = Zone()
    addresses: dict[str, set[str]] = defaultdict(set)
    for address, name, namespace in records:
        full = _full(name, namespace)
        addresses[full].add(address)
        if address not in zone.names or full.count(".") > zone.names[address].count("."):
            zone.names[address] = full
    zone.addresses = {name: sorted(found) for name, found in addresses.items()}
    by_name = {(each.metadata.namespace, each.metadata.name): each for each in services}
    ports: dict[str, set[Srv]] = defaultdict(set)
    for (namespace, name), service in by_name.items():
        if service.external:
            zone.aliases[_full(name, namespace)] = service.spec.external_name.rstrip(".")
        elif service.cluster_address:
            for port in service.spec.ports:
                if port.name:
                    ports[_port_name(port.name, port.protocol, name, namespace)].add(
                        Srv(_full(name, namespace), port.port)
                    )
    for each in slices:
        owner = by_name.get((each.metadata.namespace, each.service_name))
        if owner is not None and owner.headless:
            _add_ports(ports, each, owner)
    zone.ports = {name: sorted(found) for name, found in ports.items()}
    for name in (*zone.addresses, *zone.ports, *zone.aliases):
        zone.known |= _with_those_above(name)
    return zone


def address_of(name: str) -> str | None:
    """The address that a name for reverse questions stands for."""
    if not name.endswith(f".{REVERSE}"):
        return None
    parts = name.removesuffix(f".{REVERSE}").split(".")
    return ".".join(reversed(parts)) if len(parts) == 4 and all(part.isdigit() for part in parts) else None


def _add_ports(ports: dict[str, set[Srv]], each: EndpointSlice, owner: Service) -> None:
    namespace, service = owner.metadata.namespace, owner.metadata.name
    for endpoint in each.endpoints or ():
        if endpoint.conditions.ready is False and not owner.spec.publish_not_ready_addresses:
            continue
        for address in endpoint.addresses or ():
            target = _full(f"{endpoint.hostname or address.replace('.', '-')}.{service}", namespace)
            for port in each.ports or ():
                if port.name and port.port:
                    name = _port_name(port.name, port.protocol or "TCP", service, namespace)
                    ports[name].add(Srv(target, port.port))


def _full(name: str, namespace: str) -> str:
    return f"{name}.{namespace}.svc.{DOMAIN}"


def _port_name(port: str, protocol: str, service: str, namespace: str) -> str:
    return f"_{port}._{protocol.lower()}.{_full(service, namespace)}"


def _with_those_above(name: str) -> set[str]:
    labels = name.split(".")
    return {".".join(labels[index:]) for index in range(len(labels))}
