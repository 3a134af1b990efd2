"""Addresses of pods: each its own, and none that the machine has."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from tests.node.free_addresses import free_block

from kohort.node import netlink
from kohort.node.address_blocks import ASSIGNED, ASSIGNED_POOL, LOOPBACK_POOL
from kohort.node.pod_addresses import AddressBook


@pytest.mark.parametrize("name", ["a", "b", "node-17"])
def test_blocks_follow_the_name(name: str) -> None:
    assert LOOPBACK_POOL.first_choice(name) == LOOPBACK_POOL.first_choice(name)
    assert LOOPBACK_POOL.first_choice(name).subnet_of(IPv4Network("127.0.0.0/8")) and IPv4Address(
        "127.0.0.1"
    ) not in LOOPBACK_POOL.first_choice(name)
    assert ASSIGNED_POOL.first_choice(name).subnet_of(ASSIGNED)


def test_everybody_has_one_address_and_keeps_it() -> None:
    book = AddressBook(IPv4Network("127.20.0.0/29"))
    first, second = book.take("a"), book.take("b")
    assert first != second and book.take("a") == first
    book.release("a")
    assert book.take("c") not in (first, second)
    assert book.take("d", first) == first
    with pytest.raises(OverflowError, match="are taken"):
        [book.take(str(number)) for number in range(9)]


def test_an_address_of_another_block_is_not_taken_over() -> None:
    assert AddressBook(IPv4Network("127.20.0.0/24")).take("a", "10.0.0.9").startswith("127.20.0.")


def test_an_address_that_the_machine_has_already_is_not_given_out(tmp_path: Path) -> None:
    block = free_block(tmp_path)
    if not netlink.may_add_addresses(str(block.broadcast_address - 1)):
        pytest.skip("the right to add addresses is needed")
    left_behind = str(block.network_address + 1)
    netlink.add_address(left_behind)
    try:
        assert AddressBook(block).take("u1") == str(block.network_address + 2)
    finally:
        netlink.delete_address(left_behind)


def test_what_a_killed_agent_has_added_is_taken_away_by_the_next(tmp_path: Path) -> None:
    block, record = free_block(tmp_path), tmp_path / "addresses"
    if not netlink.may_add_addresses(str(block.broadcast_address - 1)):
        pytest.skip("the right to add addresses is needed")
    killed = AddressBook(block, assigns=True, record=record)
    kept, gone = killed.take("stays"), killed.take("goes")
    successor = AddressBook(block, assigns=True, record=record)
    assert successor.take("stays", kept) == kept
    successor.release_orphans()
    with pytest.raises(OSError):
        netlink.delete_address(gone)
    assert successor.take("goes") != kept
    successor.release_all()
    assert record.read_text() == ""
    with pytest.raises(OSError):
        netlink.delete_address(kept)


def test_an_address_is_kept_for_its_owner_while_no_agent_is_there(tmp_path: Path) -> None:
    block, record = IPv4Network("127.20.0.0/24"), tmp_path / "addresses"
    first = AddressBook(block, record=record)
    kept = {uid: first.take(uid) for uid in ("a", "b", "name server")}
    second = AddressBook(block, record=record)
    assert second.take("new") not in kept.values()
    assert {uid: second.take(uid) for uid in reversed(kept)} == kept
    second.release_orphans()
    assert {uid: AddressBook(block, record=record).take(uid) for uid in kept} == kept


def test_addresses_in_networks_of_their_own_are_kept_as_well(tmp_path: Path) -> None:
    record, locks = tmp_path / "addresses", tmp_path / "locks"
    locks.mkdir()
    first = AddressBook.for_node("own networks", record, own_networks=True, locks=locks)
    kept = first.take("never reported")
    first.close()
    second = AddressBook.for_node("another seed", record, own_networks=True, locks=locks)
    assert second.take("new") != kept
    assert second.take("never reported") == kept
