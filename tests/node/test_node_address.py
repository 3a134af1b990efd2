"""The address that a node reports, and who can reach its API there."""

import socket
from pathlib import Path

import pytest

from kohort.node.machine_info import Machine, outward_address


@pytest.mark.parametrize("peer", ["", "localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_beside_a_server_on_loopback_a_node_is_on_loopback(peer: str) -> None:
    """Otherwise the API of the node would be open to other machines, though nothing asked for it."""
    assert outward_address(peer) == "127.0.0.1"


def test_a_server_elsewhere_sees_an_address_that_this_machine_has() -> None:
    address = outward_address("192.0.2.1")
    with socket.socket() as probe:
        probe.bind((address, 0))
        assert probe.getsockname()[0] == address


@pytest.mark.parametrize(
    ("server", "host"),
    [("https://127.0.0.1:6443", "127.0.0.1"), ("https://localhost:6443", "127.0.0.1"), ("", "127.0.0.1")],
)
def test_the_address_is_that_of_the_way_to_the_api_server(server: str, host: str, tmp_path: Path) -> None:
    machine = Machine.measure("here", tmp_path, server, {})
    assert machine.address == host
    assert machine.field_values("10.0.0.1")["status.hostIP"] == host
