"""Addresses that requests to pods may be passed on to."""

import pytest

from kohort.rules.pod_addresses import belongs_to_pod, can_be_of_pod


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
