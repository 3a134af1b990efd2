"""The network of services outlives an agent that is killed, and its successor goes on with it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from kohort.node import netlink
from kohort.node.api_server_address import ApiServerAddress
from kohort.node.block_marks import Leftovers, interface_of
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network import AddressPlan, PodNetwork
from kohort.node.pod_network_namespaces import NetworkNamespaces
from kohort.node.service_network import ServiceNetwork

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not NetworkNamespaces.permitted(), reason="network namespaces are needed"
)
SERVICE = "10.96.0.77"


class Node:
    """What one agent after the other has of the networks of a node."""

    def __init__(self, directory: Path) -> None:
        self.record = directory / "records" / "addresses"
        self._directory = directory
        self.plan = self._plan()

    def _plan(self) -> AddressPlan:
        locks = self._directory / "locks"
        locks.mkdir(mode=0o700, exist_ok=True)
        namespaces = NetworkNamespaces(self._directory / "networks")
        pods = AddressBook.for_node(str(self._directory), self.record, own_networks=True, locks=locks)
        services = ServiceNetwork(namespaces, pods, self._directory / "records" / "service-network")
        return AddressPlan(pods, namespaces, None, services)

    async def serve(self) -> None:
        assert self.plan.service_network is not None
        await self.plan.service_network.start()
        self.plan.service_network.hold({SERVICE})

    def replace_agent(self) -> None:
        """Its locks go with a killed process; what it has written and made stays."""
        self.plan.pods.close()
        self.plan = self._plan()

    @property
    def interfaces(self) -> set[str]:
        block = self.plan.pods.network
        return {interface_of(str(each)) for each in block.hosts()} & netlink.interfaces().keys()

    def remove(self) -> None:
        Leftovers.on_machine(self.plan.pods.network, ()).remove()
        NetworkNamespaces(self._directory / "networks").remove_all()
        self.plan.pods.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.remove()


async def test_it_keeps_its_address_when_what_is_left_of_pods_is_removed_first(node: Node) -> None:
    await node.serve()
    before = node.interfaces
    node.replace_agent()
    PodNetwork("127.0.0.1", node.plan, cast(ApiServerAddress, None)).release_orphans((), ())
    await node.serve()
    assert node.interfaces == before and len(before) == 1


async def test_it_is_made_anew_when_its_address_is_not_known_any_more(node: Node) -> None:
    await node.serve()
    node.record.write_text("")
    node.replace_agent()
    node.plan.pods.take("a pod")
    await node.serve()
    assert len(node.interfaces) == 1, "the one of the earlier network is gone"
