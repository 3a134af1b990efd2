"""The name of a node, for every name that a machine may have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.node.machine_info import node_name
from kohort.objects.names import dns1123_subdomain, label_value


@pytest.mark.parametrize(
    ("machine", "node"),
    [
        ("server", "server"),
        ("Big.Example.", "big.example"),
        ("two--hyphens", "two--hyphens"),
        ("my_machine", "my-machine"),
        ("(none)", "none"),
        ("a" * 64, "a" * 63),
        ("", "localhost"),
        ("...", "localhost"),
    ],
)
def test_a_machine_gives_its_name_to_the_node(machine: str, node: str) -> None:
    assert node_name(machine) == node


@given(st.text(st.characters(codec="utf-8"), max_size=70))
def test_the_name_is_valid_whatever_the_machine_is_called(machine: str) -> None:
    assert dns1123_subdomain(node_name(machine)) == []
    assert label_value(node_name(machine)) == []


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?){0,3}", fullmatch=True))
def test_a_valid_name_stays_as_it_is(machine: str) -> None:
    assert node_name(machine) == machine
