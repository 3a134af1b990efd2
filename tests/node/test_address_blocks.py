"""Blocks of addresses: one node each, and none that the machine uses for something else."""

import fcntl
import os
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.node import address_blocks, netlink
from kohort.node.address_blocks import ASSIGNED_POOL, LOOPBACK_POOL, InUse, NoFreeBlock, Pool, claim, reclaim
from kohort.node.block_marks import table_of
from kohort.node.pod_addresses import AddressBook, release_recorded

needs_rights = pytest.mark.skipif(os.geteuid() != 0, reason="the right to add addresses and rules is needed")


@pytest.fixture
def seed() -> str:
    """The name of a node whose first choice is free: other clusters may run on this machine, or have left routes."""
    found, seeds = address_blocks.in_use(), (f"node {number} of {os.getpid()}" for number in range(100))
    return next(seed for seed in seeds if not found.reserves(ASSIGNED_POOL.first_choice(seed)))


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    place = tmp_path / "locks"
    place.mkdir(mode=0o700)
    return place


@pytest.mark.parametrize("pool", [ASSIGNED_POOL, LOOPBACK_POOL])
def test_a_pool_is_cut_into_blocks_that_do_not_overlap(pool: Pool, seed: str) -> None:
    blocks = list(pool.blocks(seed, ()))
    assert len({*blocks}) == len(blocks) == pool.size
    assert sum(each.num_addresses for each in blocks) == pool.last - pool.first + 1
    assert all(pool.first <= int(each.network_address) <= pool.last for each in blocks)


@given(st.text(), st.integers(ASSIGNED_POOL.first, ASSIGNED_POOL.last))
def test_the_block_with_recorded_addresses_is_tried_first(seed: str, address: int) -> None:
    first = next(ASSIGNED_POOL.blocks(seed, {address}))
    assert IPv4Address(address) in first
    assert next(ASSIGNED_POOL.blocks(seed, {1})) == ASSIGNED_POOL.first_choice(seed), "addresses of no block"


def machine(*networks: str, tables: frozenset[int] = frozenset()) -> InUse:
    return InUse(tuple(IPv4Network(each) for each in networks), tables)


BLOCK = IPv4Network("198.18.7.0/24")
LOOPBACK_BLOCK = IPv4Network("127.32.16.0/20")


@pytest.mark.parametrize(
    ("block", "found", "own", "hindered"),
    [
        (BLOCK, machine(), "", False),
        (BLOCK, machine("0.0.0.0/0", "128.0.0.0/1"), "", False),
        (BLOCK, machine("198.18.6.0/24", "198.18.8.1/32"), "", False),
        (BLOCK, machine("198.18.7.9/32"), "", True),
        (BLOCK, machine("198.18.7.0/24"), "", True),
        (BLOCK, machine("198.18.0.0/16"), "", True),
        (BLOCK, machine(tables=frozenset({table_of(BLOCK)})), "", True),
        (BLOCK, machine("198.18.7.9/32", "198.18.7.0/24", tables=frozenset({table_of(BLOCK)})), "198.18.7.9", False),
        (BLOCK, machine("198.18.7.9/32", "198.18.7.10/32"), "198.18.7.9", True),
        (LOOPBACK_BLOCK, machine("127.0.0.0/8"), "", False),
        (LOOPBACK_BLOCK, machine("127.0.0.0/8", "127.32.17.4/32"), "", True),
    ],
)
def test_routes_rules_and_tables_reserve_a_block(block: IPv4Network, found: InUse, own: str, hindered: bool) -> None:
    assert found.reserves(block, {int(IPv4Address(own))} if own else ()) is hindered


def test_two_nodes_have_two_blocks_though_they_want_the_same(locks: Path, tmp_path: Path, seed: str) -> None:
    first = claim(ASSIGNED_POOL, seed, tmp_path / "a", locks=locks)
    second = claim(ASSIGNED_POOL, seed, tmp_path / "b", locks=locks)
    assert not first.network.overlaps(second.network)
    first.close()
    second.close()


def test_a_node_that_comes_back_has_its_block_again_and_no_other_node_has_it(
    locks: Path, tmp_path: Path, seed: str
) -> None:
    before = claim(ASSIGNED_POOL, seed, tmp_path / "a", locks=locks)
    recorded = [int(before.network[4])]
    before.close()
    after = claim(ASSIGNED_POOL, "renamed", tmp_path / "a", recorded, locks=locks)
    assert after.network == before.network
    assert reclaim(after.network, tmp_path / "a", locks=locks) is None, "its agent runs"
    after.close()
    assert reclaim(after.network, tmp_path / "b", locks=locks) is None, "it belongs to another"
    again = reclaim(after.network, tmp_path / "a", locks=locks)
    assert again is not None
    again.release()


def test_the_lock_file_of_a_released_block_is_removed(locks: Path, tmp_path: Path, seed: str) -> None:
    taken = claim(ASSIGNED_POOL, seed, tmp_path / "a", locks=locks)
    taken.close()
    assert [path.name for path in locks.iterdir()] == [str(taken.network.network_address)], "its owner may come back"
    again = reclaim(taken.network, tmp_path / "a", locks=locks)
    assert again is not None
    again.release()
    assert list(locks.iterdir()) == []


def test_a_lock_file_that_is_removed_while_another_waits_for_it_gives_nobody_a_block_twice(
    locks: Path, tmp_path: Path, seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = claim(ASSIGNED_POOL, seed, tmp_path / "a", locks=locks)
    lock = fcntl.flock

    def lock_after_release(descriptor: int, operation: int) -> None:
        """The other one has opened the file, and the first one releases the block now."""
        before.release()
        lock(descriptor, operation)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", lock_after_release)
        second = claim(ASSIGNED_POOL, seed, tmp_path / "b", locks=locks)
    assert second.network == before.network
    third = claim(ASSIGNED_POOL, seed, tmp_path / "c", locks=locks)
    assert third.network != second.network
    second.release()
    third.release()


def test_locks_are_for_this_user_alone(locks: Path, tmp_path: Path, seed: str) -> None:
    claim(ASSIGNED_POOL, seed, tmp_path / "a", locks=locks).close()
    assert {path.stat().st_mode & 0o777 for path in locks.iterdir()} == {0o600}
    assert address_blocks.lock_directory().stat().st_mode & 0o777 == 0o700
    assert address_blocks.lock_directory().stat().st_uid == os.geteuid()


def test_a_lock_file_that_is_a_link_is_not_followed(locks: Path, tmp_path: Path, seed: str) -> None:
    (locks / str(ASSIGNED_POOL.first_choice(seed).network_address)).symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):
        claim(ASSIGNED_POOL, seed, tmp_path / "a", locks=locks)
    assert not (tmp_path / "victim").exists()


def test_when_all_blocks_are_taken_the_message_says_what_to_do(locks: Path, tmp_path: Path, seed: str) -> None:
    first_choice = ASSIGNED_POOL.first_choice(seed)
    small = Pool(int(first_choice.network_address), int(first_choice.broadcast_address), 25)
    held = [claim(small, seed, tmp_path / name, locks=locks) for name in "ab"]
    with pytest.raises(NoFreeBlock, match="overlaps a route, rule or address of this machine, or is locked in"):
        claim(small, seed, tmp_path / "c", locks=locks)
    for each in held:
        each.close()


@pytest.fixture
def foreign_address(seed: str) -> Iterator[str]:
    """An address in the block that the node would choose, which another program has added."""
    address = str(ASSIGNED_POOL.first_choice(seed)[200])
    netlink.add_address(address)
    yield address
    netlink.delete_address(address)


@needs_rights
def test_a_block_with_an_address_of_another_program_is_not_taken(
    locks: Path, tmp_path: Path, foreign_address: str, seed: str
) -> None:
    book = AddressBook.for_node(seed, tmp_path / "addresses", locks=locks)
    assert IPv4Address(foreign_address) not in book.network
    book.take("u1")
    book.release_all()
    book.close()


@needs_rights
def test_a_block_with_a_rule_of_another_program_is_not_taken(locks: Path, tmp_path: Path, seed: str) -> None:
    first_choice = ASSIGNED_POOL.first_choice(seed)
    netlink.add_rule(first_choice, 12345, 29_000)
    try:
        found = claim(ASSIGNED_POOL, seed, tmp_path / "a", locks=locks)
        found.close()
        assert not found.network.overlaps(first_choice)
    finally:
        netlink.delete_rule(first_choice, 12345, 29_000)


@needs_rights
def test_cleaning_up_after_a_dead_node_leaves_the_addresses_of_the_node_that_has_its_block_now(
    locks: Path, tmp_path: Path, seed: str
) -> None:
    dead = AddressBook.for_node(seed, tmp_path / "dead", locks=locks)
    address = dead.take("pod")
    dead.close()
    netlink.delete_address(address)  # as a reboot does, which also empties the locks
    for path in locks.iterdir():
        path.unlink()
    living = AddressBook.for_node(seed, tmp_path / "living", locks=locks)
    assert living.network == dead.network and living.take("other pod") == address
    release_recorded(tmp_path / "dead", locks=locks)
    with socket.socket() as listening:
        listening.bind((address, 0))  # it is still there
    living.close()
    release_recorded(tmp_path / "dead", locks=locks)
    with socket.socket() as listening:
        listening.bind((address, 0))
    release_recorded(tmp_path / "living", locks=locks)
    with socket.socket() as listening, pytest.raises(OSError):
        listening.bind((address, 0))


def test_a_loopback_block_where_another_program_listens_is_not_taken(locks: Path, tmp_path: Path, seed: str) -> None:
    wanted = LOOPBACK_POOL.first_choice(seed)
    with socket.socket() as listening:
        listening.bind((str(wanted[9]), 0))
        listening.listen()
        found = claim(LOOPBACK_POOL, seed, tmp_path / "a", locks=locks)
        found.close()
        assert not found.network.overlaps(wanted)
