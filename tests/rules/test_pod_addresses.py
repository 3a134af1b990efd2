"""Addresses that requests to pods may be passed on to."""

from ipaddress import IPv4Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.pod_addresses import FIRST_LOOPBACK, LAST_LOOPBACK, belongs_to_pod, can_be_of_pod


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.1.2.3", True),
        ("198.18.0.7", True),
        ("fd00::7", True),
        ("127.16.0.0", True),
        ("127.255.255.254", True),
        ("127.0.0.1", False),
        ("127.15.255.255", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:169.254.169.254", False),
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("224.0.0.1", False),
        ("ff02::1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("localhost", False),
        ("2130706433", False),
        ("127.1", False),
        ("", False),
    ],
)
def test_addresses_of_the_machine_itself_are_not_those_of_pods(address: str, allowed: bool) -> None:
    assert can_be_of_pod(address) is allowed


@pytest.mark.parametrize(
    ("address", "ranges", "host_network", "allowed"),
    [
        ("10.1.2.3", ["10.1.2.0/24"], False, True),
        ("10.1.3.3", ["10.1.2.0/24"], False, False),
        ("10.1.3.3", ["fd00::/64", "10.1.0.0/16"], False, True),
        ("10.1.3.3", [], False, True),
        ("192.0.2.1", ["10.1.2.0/24"], True, True),
        ("192.0.2.2", ["10.1.2.0/24"], True, False),
    ],
)
def test_an_address_lies_in_the_range_of_its_node(
    address: str, ranges: list[str], host_network: bool, allowed: bool
) -> None:
    found = belongs_to_pod(address, ranges=ranges, node_addresses=["192.0.2.1"], host_network=host_network)
    assert found is allowed


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "localhost", ""])
def test_an_address_of_the_machine_is_refused_even_if_the_node_claims_it(address: str) -> None:
    claimed = {"ranges": ["0.0.0.0/0"], "node_addresses": [address]}
    assert not belongs_to_pod(address, **claimed, host_network=False)
    assert not belongs_to_pod(address, **claimed, host_network=True)


def test_a_pod_in_the_network_of_a_node_without_known_addresses_is_believed() -> None:
    assert belongs_to_pod("192.0.2.9", ranges=["10.0.0.0/8"], node_addresses=[], host_network=True)


@given(st.ip_addresses(v=4))
def test_of_the_loopback_network_only_the_part_of_pods_is_allowed(address: IPv4Address) -> None:
    if address.is_loopback:
        assert can_be_of_pod(str(address)) == (FIRST_LOOPBACK <= address <= LAST_LOOPBACK)


@given(st.integers(0, 2**32 - 1))
def test_an_address_inside_ipv6_counts_as_the_one_inside(number: int) -> None:
    inner = IPv4Address(number)
    outer = ip_address(f"::ffff:{inner}")
    assert can_be_of_pod(str(outer)) == can_be_of_pod(str(inner))
