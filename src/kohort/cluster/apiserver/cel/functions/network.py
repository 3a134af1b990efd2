"""IP addresses and networks."""

from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
)

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.address_text import address_problem
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.values import Extension


class Address(Extension):
    __slots__ = ("ip",)
    type_name = "net.IP"

    def __init__(self, ip: IPv4Address | IPv6Address) -> None:
        self.ip = ip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self.ip == other.ip

    def __hash__(self) -> int:
        return hash(self.ip)


class Network(Extension):
    """An address with a prefix length; the address need not be the first of the network."""

    __slots__ = ("interface",)
    type_name = "net.CIDR"

    def __init__(self, interface: IPv4Interface | IPv6Interface) -> None:
        self.interface = interface

    @property
    def network(self) -> IPv4Network | IPv6Network:
        return self.interface.network

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self.interface == other.interface

    def __hash__(self) -> int:
        return hash(self.interface)


def _parse_address(text: str) -> IPv4Address | IPv6Address:
    if "%" in text:
        raise ValueError(f'IP address "{text}" with zone value is not allowed')
    try:
        address = ip_address(text)
    except ValueError:
        reason = address_problem(text)
        raise ValueError(f'IP Address "{text}" parse error during conversion from string: {reason}') from None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _parse_network(text: str) -> IPv4Interface | IPv6Interface:
    problem = _prefix_problem(text)
    if problem:
        reason = f'netip.ParsePrefix("{text}"): {problem}'
        raise ValueError(f"network address parse error during conversion from string: {reason}")
    interface = ip_interface(text)
    if isinstance(interface, IPv6Interface) and interface.ip.ipv4_mapped is not None:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return interface


def _prefix_problem(text: str) -> str:
    address, slash, bits = text.rpartition("/")
    if not slash:
        return "no '/'"
    try:
        parsed = ip_address(address)
    except ValueError:
        return address_problem(address)
    if "%" in address:
        return "IPv6 zones cannot be present in a prefix"
    if not (bits.isascii() and bits.isdigit()) or (len(bits) > 1 and bits[0] == "0"):
        return f'bad bits after slash: "{bits}"'
    return "prefix length out of range" if int(bits) > parsed.max_prefixlen else ""


def to_address(text: str) -> Address:
    try:
        return Address(_parse_address(text))
    except ValueError as error:
        raise CelError(str(error)) from None


def is_address(text: str) -> bool:
    try:
        _parse_address(text)
    except ValueError:
        return False
    return True


def is_canonical(text: str) -> bool:
    return str(to_address(text).ip) == text


def is_link_local_multicast(address: Address) -> bool:
    if isinstance(address.ip, IPv4Address):
        return address.ip.packed[:3] == b"\xe0\x00\x00"
    return address.ip.packed[0] == 0xFF and address.ip.packed[1] & 0x0F == 2


def is_link_local_unicast(address: Address) -> bool:
    if isinstance(address.ip, IPv4Address):
        return address.ip.packed[:2] == b"\xa9\xfe"
    return address.ip.packed[0] == 0xFE and address.ip.packed[1] & 0xC0 == 0x80


def is_global_unicast(address: Address) -> bool:
    ip = address.ip
    special = ip.is_unspecified or ip.is_loopback or ip.is_multicast or is_link_local_unicast(address)
    return not special and str(ip) != "255.255.255.255"


def to_network(text: str) -> Network:
    try:
        return Network(_parse_network(text))
    except ValueError as error:
        raise CelError(f"network address parse error during conversion from string: {error}") from None


def is_network(text: str) -> bool:
    try:
        _parse_network(text)
    except ValueError:
        return False
    return True


def holds_address(network: Network, address: Address) -> bool:
    return address.ip in network.network


def holds_network(outer: Network, inner: Network) -> bool:
    if outer.network.version != inner.network.version:
        return False
    return outer.network.prefixlen <= inner.network.prefixlen and inner.interface.ip in outer.network


def masked(network: Network) -> Network:
    return Network(ip_interface(str(network.network)))


LIBRARY = Library(
    (
        Function("ip(string): ip", to_address),
        Function("isIP(string): bool", is_address),
        Function("ip.isCanonical(string): bool", is_canonical),
        Function("ip::family(): int", lambda address: address.ip.version),
        Function("ip::isUnspecified(): bool", lambda address: address.ip.is_unspecified),
        Function("ip::isLoopback(): bool", lambda address: address.ip.is_loopback),
        Function("ip::isLinkLocalMulticast(): bool", is_link_local_multicast),
        Function("ip::isLinkLocalUnicast(): bool", is_link_local_unicast),
        Function("ip::isGlobalUnicast(): bool", is_global_unicast),
        Function("string(ip): string", lambda address: str(address.ip)),
        Function("cidr(string): cidr", to_network),
        Function("isCIDR(string): bool", is_network),
        Function("cidr::containsIP(string): bool", lambda network, text: holds_address(network, to_address(text))),
        Function("cidr::containsIP(ip): bool", holds_address),
        Function("cidr::containsCIDR(string): bool", lambda network, text: holds_network(network, to_network(text))),
        Function("cidr::containsCIDR(cidr): bool", holds_network),
        Function("cidr::ip(): ip", lambda network: Address(network.interface.ip)),
        Function("cidr::prefixLength(): int", lambda network: network.network.prefixlen),
        Function("cidr::masked(): cidr", masked),
        Function("string(cidr): string", lambda network: str(network.interface)),
    ),
    {"ip": "net.IP", "cidr": "net.CIDR"},
)
