"""Blocks of addresses of nodes that were killed: free once nothing of the node is left, and not before."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from itertools import product
from pathlib import Path

import pytest

from kohort.node import address_blocks, netlink
from kohort.node.abandoned_blocks import BlockOwner, is_abandoned
from kohort.node.address_blocks import ASSIGNED_POOL, Claim, claim
from kohort.node.block_marks import RULE_PRIORITY, Leftovers, interface_of, table_of
from kohort.node.netlink import LABEL, LoopbackAddress, Rule
from kohort.node.pod_network_namespaces import NetworkNamespaces
from kohort.node.runtimes.process.process_launch import birth

BLOCK = IPv4Network("198.18.7.0/24")
ANYWHERE = IPv4Network("0.0.0.0/0")
OURS = Rule(BLOCK, ANYWHERE, table_of(BLOCK), RULE_PRIORITY)
needs_networks = pytest.mark.skipif(not NetworkNamespaces.permitted(), reason="the right to make networks is needed")
KILLED_NODE = """
import asyncio, os, signal, sys
from ipaddress import IPv4Network
from pathlib import Path
from kohort.node import netlink
from kohort.node.address_blocks import ASSIGNED_POOL
from kohort.node.pod_addresses import AddressBook
from kohort.node.pod_network_namespaces import NetworkNamespaces
from kohort.node.service_network import ServiceNetwork

async def main(directory, locks, seed):
    book = AddressBook.for_node(seed, directory / "records" / "addresses", own_networks=True, locks=locks)
    networks = NetworkNamespaces(directory / "networks")
    await networks.ensure("pod", book.take("pod"), None)
    services = ServiceNetwork(networks, book, directory / "records" / "service-network")
    await services.start()
    services.hold({"10.96.0.77"})
    netlink.add_address(str(book.network[200]))
    print(book.network, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
"""


@pytest.mark.parametrize(
    ("same_namespace", "recorded", "agent_runs", "pods_run"), list(product((False, True), repeat=4))
)
def test_a_block_is_kept_while_its_agent_or_a_pod_runs(
    same_namespace: bool, recorded: bool, agent_runs: bool, pods_run: bool
) -> None:
    abandoned = is_abandoned(same_namespace=same_namespace, recorded=recorded, agent_runs=agent_runs, pods_run=pods_run)
    kept = not same_namespace or pods_run or (recorded and agent_runs)
    assert abandoned is not kept


def test_an_owner_is_read_as_it_was_written(tmp_path: Path) -> None:
    owner = BlockOwner.this_process(tmp_path / "records" / "addresses")
    assert owner.pid == os.getpid() and owner.birth == birth(os.getpid()) and owner.namespace
    assert BlockOwner.parse(owner.render()) == owner


@pytest.mark.parametrize("content", ["/addresses\n123\n", "/addresses", "/addresses\n1\nx\ny\n"])
def test_a_lock_without_start_time_names_its_owner_only(content: str) -> None:
    assert BlockOwner.parse(content) == BlockOwner("/addresses")


@pytest.mark.parametrize(
    ("rule", "left_by_node"),
    [
        (OURS, True),
        (OURS._replace(table=254), False),
        (OURS._replace(priority=100), False),
        (OURS._replace(source=IPv4Network("198.18.8.0/24")), False),
        (OURS._replace(destination=IPv4Network("10.0.0.0/8")), False),
    ],
)
def test_only_rules_with_the_marks_of_a_block_are_leftovers(rule: Rule, left_by_node: bool) -> None:
    assert Leftovers.of(BLOCK, (), [rule], (), ()).rules == ((rule,) if left_by_node else ())


def test_only_interfaces_and_addresses_with_the_marks_of_a_block_are_leftovers() -> None:
    links = [(interface_of("198.18.7.1"), 5), (interface_of("198.18.8.1"), 6), ("eth0", 7), ("kht0", 8)]
    labelled, recorded, foreign = (IPv4Address(f"198.18.7.{number}") for number in (1, 2, 3))
    addresses = [
        LoopbackAddress(labelled, LABEL),
        LoopbackAddress(recorded, "lo"),
        LoopbackAddress(foreign, "lo"),
        LoopbackAddress(IPv4Address("198.18.8.1"), LABEL),
    ]
    found = Leftovers.of(BLOCK, {int(recorded)}, (), links, addresses)
    assert (found.interfaces, found.addresses) == ((5,), (labelled, recorded))


class KilledNode:
    """A node with a pod and a service, whose agent has been killed: real routes, rules, interfaces and addresses."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "node"
        self.locks = directory / "locks"
        self.locks.mkdir(mode=0o700)
        used, seeds = address_blocks.in_use(), (f"{directory} {number}" for number in range(100))
        self.seed = next(seed for seed in seeds if not used.reserves(ASSIGNED_POOL.first_choice(seed)))
        command = [sys.executable, "-c", KILLED_NODE, str(self.directory), str(self.locks), self.seed]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        self.block = IPv4Network(ended.stdout.strip())
        assert self.is_there

    @property
    def is_there(self) -> bool:
        return address_blocks.in_use().reserves(self.block)

    @property
    def lock(self) -> Path:
        return self.locks / str(self.block.network_address)

    @property
    def owner(self) -> BlockOwner:
        return BlockOwner.parse(self.lock.read_text())

    def claimed_by_another(self) -> Claim:
        """A node that would choose the same block."""
        found = claim(ASSIGNED_POOL, self.seed, self.directory.with_name("other") / "addresses", locks=self.locks)
        found.release()
        return found

    def remove(self) -> None:
        Leftovers.on_machine(self.block, ()).remove()
        NetworkNamespaces(self.directory / "networks").remove_all()


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[KilledNode]:
    node = KilledNode(tmp_path)
    yield node
    node.remove()


@needs_networks
def test_the_block_of_a_killed_node_without_pods_is_cleaned_and_taken(killed: KilledNode) -> None:
    rules = [each for each in netlink.rules() if each.source != killed.block]
    assert killed.claimed_by_another().network == killed.block
    assert not killed.is_there
    assert [each for each in netlink.rules() if each in rules] == rules, "those of other blocks stay"


@needs_networks
def test_the_block_of_a_node_whose_directory_was_deleted_is_taken(killed: KilledNode) -> None:
    (killed.directory / "records" / "addresses").unlink()
    killed.lock.write_text(BlockOwner.this_process(killed.directory / "records" / "addresses").render())
    assert killed.claimed_by_another().network == killed.block


@needs_networks
def test_the_block_of_a_killed_node_waits_while_one_of_its_pods_runs(killed: KilledNode) -> None:
    network = killed.directory / "networks" / "pod"
    command = ["nsenter", f"--net={network}", "sh", "-c", "echo inside; exec sleep 60"]
    pod = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert pod.stdout is not None and pod.stdout.readline() == b"inside\n"
        assert killed.claimed_by_another().network != killed.block
        assert killed.is_there
    finally:
        pod.kill()
        pod.communicate()
    assert killed.claimed_by_another().network == killed.block


@needs_networks
def test_the_block_of_a_process_that_lives_is_kept_and_a_process_with_only_its_number_does_not_keep_it(
    killed: KilledNode,
) -> None:
    here = BlockOwner.this_process(Path(killed.owner.record))
    killed.lock.write_text(here.render())
    assert killed.claimed_by_another().network != killed.block
    killed.lock.write_text(replace(here, birth=here.birth - 1).render())
    assert killed.claimed_by_another().network == killed.block


@needs_networks
@pytest.mark.parametrize("changed", [{"namespace": "pid:[1]"}, {"namespace": ""}])
def test_the_block_of_a_node_in_another_container_is_kept(killed: KilledNode, changed: dict[str, str]) -> None:
    killed.lock.write_text(replace(killed.owner, **changed).render())  # type: ignore[arg-type]
    assert killed.claimed_by_another().network != killed.block
    assert killed.is_there


@needs_networks
def test_what_another_program_has_added_stays_and_keeps_the_block(killed: KilledNode) -> None:
    foreign = Rule(killed.block, ANYWHERE, 12345, 29_000)
    netlink.add_rule(foreign.source, foreign.table, foreign.priority)
    try:
        assert killed.claimed_by_another().network != killed.block
        assert [each for each in netlink.rules() if each.source == killed.block] == [foreign]
    finally:
        netlink.delete_rule(foreign.source, foreign.table, foreign.priority)
