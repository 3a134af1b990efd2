"""Which addresses can be those of pods.

Nodes that may not add addresses to their machine give pods a part of the loopback network, away from the addresses that
services of the machine listen on. So of the loopback addresses only that part can belong to pods; the rest, link-local
addresses and those of groups never do. An API server that passes requests on to an address out of the status of a pod
would otherwise reach whatever listens on the machine itself.

| address | of a pod |
|---------|----------|
| 127.0.0.1, ::1, 127.15.255.255 | no |
| 127.16.0.0 to 127.255.255.255 | yes |
| 169.254.169.254, fe80::1, 224.0.0.1, 0.0.0.0 | no |
| ::ffff:127.0.0.1 | as the address inside |
| a name, or nothing | no |
| anything else, the node says nothing of its range | yes |
| anything else, the node has a range | in the range, or of the node when the pod uses the network of the node |
"""

from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

FIRST_LOOPBACK: Final = IPv4Address("127.16.0.0")
LAST_LOOPBACK: Final = IPv4Address("127.255.255.255")


def can_be_of_pod(text: str) -> bool:
    """Whether there can be a pod behind an address."""
    address = _parsed(text)
    if address is None:
        return False
    if isinstance(address, IPv4Address) and FIRST_LOOPBACK <= address <= LAST_LOOPBACK:
        return True
    barred = (address.is_loopback, address.is_link_local, address.is_multicast, address.is_unspecified)
    return not any(barred)


def belongs_to_pod(text: str, *, ranges: Collection[str], node_addresses: Collection[str], host_network: bool) -> bool:
    """Whether an address can be that of a pod on a node with these ranges of pod addresses."""
    if not can_be_of_pod(text):
        return False
    if host_network:
        return not node_addresses or text in node_addresses
    if not ranges:
        return True
    address = _parsed(text)
    return any(address in ip_network(one, strict=False) for one in ranges)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address
