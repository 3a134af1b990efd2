"""Which devices a container gets."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.node.devices.device_choice import ContainerNeed, TooFew, choose, is_valid, natural, needs_of
from kohort.node.devices.messages import Device, NumaNode, Topology
from kohort.objects.pods import PodSpec

GPU = "example.com/gpu"


def on(node: int | None, *ids: str) -> list[Device]:
    topology = Topology((NumaNode(node),)) if node is not None else None
    return [Device(id, "Healthy", topology) for id in ids]


@pytest.mark.parametrize(
    ("reusable", "free", "wanted", "chosen"),
    [
        ({"a"}, on(0, "b", "c"), 1, ("a",)),
        (set(), on(0, "a", "b") + on(1, "c", "d", "e"), 2, ("a", "b")),
        (set(), on(0, "a", "b") + on(1, "c", "d", "e"), 3, ("c", "d", "e")),
        (set(), on(0, "a", "b") + on(1, "c", "d"), 3, ("a", "b", "c")),
        (set(), on(None, "gpu-10", "gpu-2"), 1, ("gpu-2",)),
        ({"a"}, on(0, "b"), 2, ("a", "b")),
        ({"a", "b", "c"}, [], 2, ("a", "b")),
    ],
)
def test_the_table(reusable: set[str], free: list[Device], wanted: int, chosen: tuple[str, ...]) -> None:
    assert choose(GPU, wanted, free, reusable) == chosen


def test_too_few_says_how_many_there_are() -> None:
    assert choose(GPU, 3, on(None, "b"), {"a"}) == TooFew(GPU, 3, 2)


@given(
    wanted=st.integers(1, 6),
    free=st.dictionaries(st.sampled_from("abcdefgh"), st.one_of(st.none(), st.integers(0, 2))),
    reusable=st.sets(st.sampled_from("uvwxyz")),
)
def test_a_choice_is_complete_and_uses_what_the_pod_has(
    wanted: int, free: dict[str, int | None], reusable: set[str]
) -> None:
    devices = [device for id, node in free.items() for device in on(node, id)]
    chosen = choose(GPU, wanted, devices, reusable)
    if isinstance(chosen, TooFew):
        assert wanted > len(free) + len(reusable) == chosen.available
        return
    assert is_valid(chosen, wanted, {*free, *reusable}, ())
    assert len(set(chosen) & reusable) == min(wanted, len(reusable))
    # One NUMA node that has enough is enough.
    missing = [id for id in chosen if id not in reusable]
    sizes = [sum(1 for other in free.values() if other == node) for node in set(free.values())]
    if missing and max(sizes, default=0) >= len(missing):
        assert len({free[id] for id in missing}) == 1


@pytest.mark.parametrize(
    ("choice", "valid"),
    [(("a", "b"), True), (("a",), False), (("a", "a"), False), (("a", "x"), False), (("b", "c"), False)],
)
def test_a_preference_must_fit_the_question(choice: tuple[str, ...], valid: bool) -> None:
    assert is_valid(choice, 2, ("a", "b", "c"), ("a",)) is valid


def test_names_are_ordered_as_people_do() -> None:
    assert sorted(["gpu-10", "gpu-9", "GPU-a"], key=natural) == ["GPU-a", "gpu-9", "gpu-10"]


def test_limits_of_extended_resources_are_counted_in_the_order_of_starts() -> None:
    limits = {"cpu": "1", GPU: "2", "requests.example.com/x": "1", "example.com/none": 0}
    spec = msgspec.convert(
        {
            "initContainers": [
                {"name": "load", "resources": {"limits": limits}},
                {"name": "proxy", "restartPolicy": "Always", "resources": {"limits": {GPU: 1}}},
            ],
            "containers": [{"name": "plain"}, {"name": "main", "resources": {"limits": {GPU: "1"}}}],
        },
        PodSpec,
    )
    assert needs_of(spec) == [
        ContainerNeed("load", {GPU: 2}, passes_on=True),
        ContainerNeed("proxy", {GPU: 1}, passes_on=False),
        ContainerNeed("main", {GPU: 1}, passes_on=False),
    ]
