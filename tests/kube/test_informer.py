"""The cache itself, and its consistency when everything that can go wrong on the way does."""

import asyncio
import gc
import weakref
from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.model_server import ModelServer

from kohort.kube.client import Client, Selection
from kohort.kube.informer import Informer
from kohort.kube.resources import CONFIG_MAPS, Key
from kohort.kube.tasks import cancel_all
from kohort.kube.transport import InProcessTransport
from kohort.objects.meta import ObjectMeta, PartialObject
from kohort.testing import virtual_time
from kohort.testing.faults import Faults

MAPS = "configmaps"


def make(name: str, version: int = 1, namespace: str = "n", **labels: str) -> PartialObject:
    return PartialObject(
        metadata=ObjectMeta(name=name, namespace=namespace, resource_version=str(version), labels=labels)
    )


def new_informer() -> Informer[PartialObject]:
    return Informer.alone(Client(InProcessTransport(ModelServer().handle)), Selection(CONFIG_MAPS), PartialObject)


def by_color(obj: PartialObject) -> list[str]:
    return [value for name, value in obj.metadata.labels.items() if name.startswith("color")]


def fill(informer: Informer[PartialObject], *objects: PartialObject) -> None:
    informer.store.replace({Key(obj.metadata.namespace, obj.metadata.name): obj for obj in objects})


def found(informer: Informer[PartialObject], color: str) -> list[str]:
    return sorted(obj.metadata.name for obj in informer.by_index("color", color))


def test_lists_can_be_limited_to_a_namespace() -> None:
    informer = new_informer()
    fill(informer, make("a", namespace="one"), make("b", namespace="two"), make("c", namespace="one"))
    assert [obj.metadata.name for obj in informer.list("one")] == ["a", "c"]
    assert informer.list("three") == []
    assert len(informer.list()) == len(informer) == 3
    assert Key("two", "b") in informer


def test_an_index_follows_changes_and_may_be_declared_late() -> None:
    informer = new_informer()
    fill(informer, make("a", color="red"), make("b", color="red", color2="blue"))
    informer.add_index("color", by_color)
    assert (found(informer, "red"), found(informer, "blue")) == (["a", "b"], ["b"])
    informer.store.change("MODIFIED", Key("n", "a"), make("a", 2, color="blue"))
    assert (found(informer, "red"), found(informer, "blue")) == (["b"], ["a", "b"])
    assert {obj.metadata.resource_version for obj in informer.by_index("color", "blue")} == {"1", "2"}
    informer.store.change("DELETED", Key("n", "b"), make("b", 3))
    assert (found(informer, "red"), found(informer, "blue")) == ([], ["a"])


def test_an_index_returns_the_newest_version_of_an_object() -> None:
    informer = new_informer()
    informer.add_index("color", by_color)
    fill(informer, make("a", 1, color="red"))
    informer.store.change("MODIFIED", Key("n", "a"), make("a", 2, color="red"))
    assert [obj.metadata.resource_version for obj in informer.by_index("color", "red")] == ["2"]


def test_a_failing_handler_does_not_stop_the_others() -> None:
    informer = new_informer()
    seen: list[str] = []

    def broken(old: PartialObject | None, new: PartialObject | None) -> None:
        raise ValueError("broken handler")

    informer.on_change(broken)
    informer.on_change(lambda old, new: seen.append(new.metadata.name if new else "-"))
    fill(informer, make("a"))
    assert seen == ["a"]


def test_a_late_handler_is_told_what_is_there() -> None:
    informer = new_informer()
    fill(informer, make("a"), make("b"))
    seen: list[tuple[bool, str]] = []
    informer.on_change(lambda old, new: seen.append((old is None, new.metadata.name if new else "-")))
    assert seen == [(True, "a"), (True, "b")]


def test_nothing_is_kept_of_what_is_gone() -> None:
    class Collectable(msgspec.Struct, frozen=True, weakref=True):
        metadata: ObjectMeta

    client = Client(InProcessTransport(ModelServer().handle))
    informer = Informer.alone(client, Selection(CONFIG_MAPS), Collectable)
    informer.add_index("color", lambda obj: obj.metadata.labels.values())
    obj = Collectable(ObjectMeta(name="a", namespace="n", resource_version="1", labels={"color": "red"}))
    gone = weakref.ref(obj)
    informer.store.replace({Key("n", "a"): obj})
    assert informer.by_index("color", "red") == [obj]
    informer.store.change("DELETED", Key("n", "a"), obj)
    del obj
    gc.collect()
    assert gone() is None
    assert informer.store.namespaces == {}
    assert informer._indexes["color"][1] == {}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["put", "put", "put", "put", "remove", "break", "end", "forget", "bookmark", "wait", "expire", "settle"]
        ),
        st.sampled_from("abc"),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(
    steps=STEPS,
    drop=st.integers(0, 4),
    duplicate=st.integers(0, 3),
    delay=st.floats(0, 2),
    lists=st.sampled_from(["yes", "refused", "ignored"]),
    seed=st.integers(0, 100),
)
def test_the_cache_ends_up_equal_to_the_server_without_gap_or_duplicate(
    steps: list[tuple[str, str]], drop: int, duplicate: int, delay: float, lists: str, seed: int
) -> None:
    virtual_time.run(_follow(steps, drop, duplicate, delay, lists), seed=seed)


async def _follow(steps: list[tuple[str, str]], drop: int, duplicate: int, delay: float, lists: str) -> None:
    server = ModelServer(lists)  # type: ignore[arg-type]
    server.put(MAPS, "n", "a")
    faults = Faults()
    if drop:
        faults.drop_events(drop + 1)
    if duplicate:
        faults.duplicate_events(duplicate)
    faults.delay_events(delay)
    informer = Informer.alone(
        Client(faults.wrap(InProcessTransport(server.handle))), Selection(CONFIG_MAPS), PartialObject
    )
    mirror: dict[str, PartialObject] = {}
    reported: list[int] = []

    def note(old: PartialObject | None, new: PartialObject | None) -> None:
        name = (new or old).metadata.name  # type: ignore[union-attr]
        assert mirror.get(name) is old, "each report continues the one before"
        if new is None:
            del mirror[name]
        else:
            mirror[name] = new
            reported.append(int(new.metadata.resource_version))

    informer.on_change(note)
    task = asyncio.create_task(informer.run())
    for step, name in steps:
        match step:
            case "put":
                server.put(MAPS, "n", name)
            case "remove":
                if Key("n", name) in server.objects[MAPS]:
                    server.remove(MAPS, "n", name)
            case "break":
                server.break_watches()
            case "end":
                server.end_watches()
            case "forget":
                server.forget_history()
            case "bookmark":
                server.send_bookmarks()
            case "expire":
                faults.expire_history()
            case "wait":
                await asyncio.sleep(0.3)
            case "settle":
                await asyncio.sleep(200)
    faults.clear()
    await asyncio.sleep(200)
    expected = {key.name: obj["metadata"]["resourceVersion"] for key, obj in server.objects[MAPS].items()}
    assert {obj.metadata.name: obj.metadata.resource_version for obj in informer.list()} == expected
    assert {name: obj.metadata.resource_version for name, obj in mirror.items()} == expected
    assert max(Counter(reported).values(), default=0) <= 1, "no version is reported twice"
    # Versions that were overwritten before the last whole state was read cannot be seen; all later ones must be.
    written = {revision for revision, _, change, _ in server.log if change != "DELETED"}
    missing = {revision for revision in written - {*reported} if revision > server.last_state}
    assert not missing, "no event is skipped"
    await cancel_all(task)


def test_an_object_can_have_several_index_values() -> None:
    informer = new_informer()
    informer.add_index("color", by_color)
    fill(informer, make("a", color="red", color2="blue"), make("b", color="red"))
    assert (found(informer, "red"), found(informer, "blue"), found(informer, "green")) == (["a", "b"], ["a"], [])


def test_an_object_leaves_the_values_that_it_no_longer_has() -> None:
    informer = new_informer()
    informer.add_index("color", by_color)
    fill(informer, make("a", 1, color="red"))
    fill(informer, make("a", 2, color="blue"))
    assert (found(informer, "red"), found(informer, "blue")) == ([], ["a"])


def test_the_same_index_may_be_declared_twice() -> None:
    informer = new_informer()
    informer.add_index("color", by_color)
    informer.add_index("color", by_color)
    fill(informer, make("a", color="red"))
    assert found(informer, "red") == ["a"]


def test_membership_and_size() -> None:
    informer = new_informer()
    fill(informer, make("a"), make("b", namespace="other"))
    assert len(informer) == 2
    assert Key("n", "a") in informer and Key("n", "b") not in informer
    assert informer.get(Key("other", "b")) is not None and informer.get(Key("n", "b")) is None


def test_a_replacement_reports_only_differences() -> None:
    """Objects that have not changed keep their identity, as after lost history."""
    informer = new_informer()
    fill(informer, make("a", 1), make("b", 1), make("c", 1))
    kept = informer.get(Key("n", "a"))
    changes: list[tuple[str, str]] = []

    def record(old: PartialObject | None, new: PartialObject | None) -> None:
        name = (new or old or make("?")).metadata.name
        changes.append((name, "added" if old is None else "removed" if new is None else "changed"))

    informer.on_change(record)
    changes.clear()
    fill(informer, make("a", 1), make("b", 2), make("d", 3))
    assert sorted(changes) == [("b", "changed"), ("c", "removed"), ("d", "added")]
    assert informer.get(Key("n", "a")) is kept


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["red", "blue"]), max_size=4), max_size=6))
def test_an_index_is_always_what_a_search_would_find(states: list[dict[str, str]]) -> None:
    informer = new_informer()
    informer.add_index("color", by_color)
    for number, state in enumerate(states):
        fill(informer, *(make(name, number + 1, color=color) for name, color in state.items()))
        for color in ("red", "blue"):
            assert found(informer, color) == sorted(name for name, one in state.items() if one == color)
