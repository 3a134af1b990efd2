"""What pods on simulated nodes use."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity
from kohort.rules.simulated_usage import RESOURCES, InvalidUsage, container_usage, parse_usage
from kohort.rules.simulation_labels import USAGE

AMOUNTS = st.builds(lambda number, unit: f"{number}{unit}", st.integers(0, 10_000), st.sampled_from(["", "m", "Mi"]))


def pod(*requests: JsonObject, usage: str | None = None) -> JsonObject:
    """A container per entry, called c0, c1, …"""
    containers = [{"name": f"c{index}", "resources": {"requests": one}} for index, one in enumerate(requests)]
    annotations = {} if usage is None else {"annotations": {USAGE: usage}}
    return {"metadata": {"name": "p", **annotations}, "spec": {"containers": containers}}


def used(subject: JsonObject) -> dict[str, tuple[int, int]]:
    """Thousandths of a processor and bytes, by container."""
    return {name: (found["cpu"].milli, found["memory"].value) for name, found in container_usage(subject).items()}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("cpu=900m", {"cpu": 900}),
        ("memory=2Ki", {"memory": 2_048_000}),
        (" cpu = 1 , memory = 1 ", {"cpu": 1000, "memory": 1000}),
        ("cpu=1,", {"cpu": 1000}),
        (",,cpu=0", {"cpu": 0}),
        ("cpu=1,cpu=2", {"cpu": 2000}),
    ],
)
def test_an_annotation(text: str, found: dict[str, int]) -> None:
    assert {name: quantity.milli for name, quantity in parse_usage(text).items()} == found


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("cpu", "'cpu'"),
        ("cpu=", "'cpu='"),
        ("cpu=-1", "'cpu=-1'"),
        ("cpu=lots", "'cpu=lots'"),
        ("gpu=1", "'gpu=1'"),
        ("memory=1,=2", "'=2'"),
        ("cpu=1=2", "'cpu=1=2'"),
    ],
)
def test_an_annotation_that_cannot_be_read(text: str, wrong: str) -> None:
    with pytest.raises(InvalidUsage) as problem:
        parse_usage(text)
    assert str(problem.value) == f"{wrong} is not an amount of cpu or memory, such as cpu=900m or memory=2Gi"
    assert used(pod({"cpu": "1"}, usage=text)) == used(pod({"cpu": "1"})), "counts as none"


@pytest.mark.parametrize(
    ("subject", "found"),
    [
        (pod({}), {"c0": (0, 0)}),
        (pod({"cpu": "1", "memory": "2Ki"}), {"c0": (500, 1024)}),
        (pod({"cpu": "1"}, {"cpu": "3"}), {"c0": (500, 0), "c1": (1500, 0)}),
        (pod({"cpu": "1"}, {}, usage="cpu=4"), {"c0": (2000, 0), "c1": (2000, 0)}),
        (pod({"cpu": "1", "memory": "4"}, usage="cpu=4"), {"c0": (4000, 2)}),
        (pod({"cpu": "1"}, usage="cpu=0"), {"c0": (0, 0)}),
        (pod(usage="cpu=4"), {}),
        ({"metadata": {"annotations": None}, "spec": {"containers": [{"name": "c0"}]}}, {"c0": (0, 0)}),
        ({"metadata": {}, "spec": {"containers": [{"name": "c0", "resources": {"requests": None}}]}}, {"c0": (0, 0)}),
        ({"metadata": {}, "spec": {}}, {}),
    ],
)
def test_what_containers_use(subject: JsonObject, found: dict[str, tuple[int, int]]) -> None:
    assert used(subject) == found


@given(st.lists(st.fixed_dictionaries({}, optional={"cpu": AMOUNTS, "memory": AMOUNTS}), max_size=5))
def test_every_container_uses_half_of_its_requests(requests: list[dict[str, str]]) -> None:
    found = container_usage(pod(*requests))
    assert list(found) == [f"c{index}" for index in range(len(requests))]
    for wanted, usage in zip(requests, found.values(), strict=True):
        assert tuple(usage) == RESOURCES
        for name in RESOURCES:
            assert usage[name].nano == Quantity.parse(wanted.get(name, "0")).nano // 2


@given(st.integers(1, 7), AMOUNTS, AMOUNTS)
def test_the_containers_share_what_the_pod_uses(count: int, cpu: str, memory: str) -> None:
    """Equally, and together no more than is given and no less than a rounding error."""
    found = container_usage(pod(*[{"cpu": "64"}] * count, usage=f"cpu={cpu},memory={memory}"))
    for name, given_amount in (("cpu", cpu), ("memory", memory)):
        shares = [usage[name].nano for usage in found.values()]
        assert len(set(shares)) == 1
        whole = Quantity.parse(given_amount).nano
        assert 0 <= whole - sum(shares) < count
        assert Fraction(shares[0]) <= Fraction(whole, count)
