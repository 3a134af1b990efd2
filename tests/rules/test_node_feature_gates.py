"""Feature gates of a node."""

import pytest

from kohort.rules.node_feature_gates import (
    ALL_ON,
    INIT_RESIZE,
    POD_LEVEL_RESIZE,
    POD_LEVEL_RESOURCES,
    RESIZE,
    WEB_SOCKETS,
    NodeGates,
)


def test_all_gates_are_on_unless_they_are_turned_off() -> None:
    assert NodeGates.parse("") == ALL_ON == NodeGates(True, True, True, True)


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        (f"{POD_LEVEL_RESOURCES}=false", NodeGates(pod_level_resources=False, pod_level_resize=False)),
        (f"{RESIZE}=false", NodeGates(resize=False, pod_level_resize=False, init_resize=False)),
        (f"{POD_LEVEL_RESIZE}=false", NodeGates(pod_level_resize=False)),
        (f"{INIT_RESIZE}=false", NodeGates(init_resize=False)),
        (f"{INIT_RESIZE}=false,{POD_LEVEL_RESIZE}=false", NodeGates(init_resize=False, pod_level_resize=False)),
        (f"{RESIZE}=true", ALL_ON),
    ],
)
def test_a_gate_that_is_off_takes_those_along_that_need_it(text: str, gates: NodeGates) -> None:
    assert NodeGates.parse(text) == gates


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("NoSuchGate=true", "NoSuchGate"),
        (f"{RESIZE}=maybe", RESIZE),
        (RESIZE, RESIZE),
        (f"{RESIZE}=false,{INIT_RESIZE}=true", INIT_RESIZE),
        (f"{POD_LEVEL_RESOURCES}=false,{POD_LEVEL_RESIZE}=true", POD_LEVEL_RESIZE),
    ],
)
def test_mistakes_are_named(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        NodeGates.parse(text)


@pytest.mark.parametrize(
    ("gates", "limits", "declared"),
    [
        (ALL_ON, True, [WEB_SOCKETS, POD_LEVEL_RESIZE, INIT_RESIZE]),
        (ALL_ON, False, [WEB_SOCKETS, INIT_RESIZE]),
        (NodeGates(pod_level_resize=False), True, [WEB_SOCKETS, INIT_RESIZE]),
        (NodeGates(init_resize=False), True, [WEB_SOCKETS, POD_LEVEL_RESIZE]),
        (NodeGates(init_resize=False, pod_level_resize=False), False, [WEB_SOCKETS]),
    ],
)
def test_a_node_declares_what_it_can_do(gates: NodeGates, limits: bool, declared: list[str]) -> None:
    assert gates.declared(limits=limits) == declared == sorted(declared)
