"""ValueInterner never changes a value, keeps equal parts once, and gives up where nothing is equal."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import Pod as BuiltPod
from tests.builders import pod

from kohort.kube.value_interning import _REMEMBERED, _TRIAL, ValueInterner
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject

PODS = st.builds(
    lambda name, image, cpu, labels, ready: (
        pod(name).container("second", image).requests(cpu=cpu).labels(labels).ready(ready).tolerates("gpu")
    ),
    st.sampled_from("abc"),
    st.sampled_from(["one:1", "two:2"]),
    st.sampled_from(["1", "2"]),
    st.dictionaries(st.sampled_from("xy"), st.sampled_from("12")),
    st.booleans(),
)


@given(st.lists(PODS, max_size=8))
def test_no_value_changes(pods: list[BuiltPod]) -> None:
    interner = ValueInterner(Pod)
    shared = [each.as_view(Pod) for each in pods]
    for each in shared:
        interner.intern(each)
    assert shared == [each.as_view(Pod) for each in pods]


def test_equal_parts_are_kept_once_and_different_ones_apart() -> None:
    interner = ValueInterner(Pod)
    one, two, three = (
        each.as_view(Pod) for each in (pod("a").ready(), pod("b").ready(), pod("c").requests(cpu="1").ready())
    )
    for each in (one, two, three):
        interner.intern(each)
    assert two.spec.containers is one.spec.containers
    assert two.status.conditions is one.status.conditions
    assert three.spec.containers is not one.spec.containers
    assert three.status.conditions is one.status.conditions
    assert (one.metadata.name, two.metadata.name) == ("a", "b")


def test_fields_whose_values_are_unique_are_left_alone() -> None:
    interner = ValueInterner(Pod)
    for number in range(2 * _TRIAL):
        interner.intern(pod(f"p{number}").labels(index=str(number)).as_view(Pod))
    remaining = {(field.section, field.name) for field in interner._fields}
    assert ("metadata", "labels") not in remaining
    assert ("spec", "containers") in remaining


def test_what_is_remembered_is_bounded() -> None:
    interner = ValueInterner(Pod)
    for number in range(10 * _REMEMBERED):
        interner.intern(pod("p").requests(cpu=str(number // 3)).as_view(Pod))
    assert all(len(field.known) <= _REMEMBERED for field in interner._fields)


def test_whole_objects_have_nothing_to_share() -> None:
    document: JsonObject = dict(pod("a"))
    ValueInterner(JsonObject).intern(document)
    assert document == pod("a")


def test_parts_of_the_object_itself_are_shared_too() -> None:
    class Slice(msgspec.Struct, frozen=True):
        endpoints: tuple[str, ...] = ()
        ports: dict[str, int] | None = None

    interner = ValueInterner(Slice)
    one, two = Slice(("a", "b"), {"x": 1}), Slice(("a", "b"), {"x": 1})
    interner.intern(one)
    interner.intern(two)
    assert two.endpoints is one.endpoints
    assert two.ports is one.ports
