from ipaddress import IPv4Address, IPv4Network

import pytest

from kohort.node.network import ASSIGNED, AddressBook, assigned_block, loopback_block


@pytest.mark.parametrize("name", ["a", "b", "node-17"])
def test_blocks_follow_the_name(name: str) -> None:
    assert loopback_block(name) == loopback_block(name)
    assert loopback_block(name).subnet_of(IPv4Network("127.0.0.0/8")) and IPv4Address(
        "127.0.0.1"
    ) not in loopback_block(name)
    assert assigned_block(name).subnet_of(ASSIGNED)


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
