"""The store against a model that is too simple to be wrong: a list of all changes and a dictionary replayed from it."""

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kohort.cluster.apiserver.storage.journal import Journal
from kohort.cluster.apiserver.storage.model import Change, HistoryExpired, StaleRevision
from kohort.cluster.apiserver.storage.store import ObjectStore
from kohort.cluster.apiserver.storage.watcher import Watcher

T = TypeVar("T")

BUCKETS = st.sampled_from(["pods", "statefulsets.apps"])
NAMESPACES = st.sampled_from(["a", "a-b", "b"])
NAMES = st.sampled_from(["x", "y", "z-0"])
Key = tuple[str, str, str]


class StoreMachine(RuleBasedStateMachine):
    durable = False

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory() if self.durable else None
        self.store = self.open()
        self.history: list[tuple[int, Key, int | None]] = []
        """(revision, key, value or None when deleted) of every write that was acknowledged."""
        self.start = self.store.revision
        self.watchers: list[tuple[Watcher, str, int, list[tuple[str, int]]]] = []

    def open(self) -> ObjectStore:
        if self.directory is None:
            return ObjectStore()
        # No slack: every superseded version is garbage to be cleaned, so that cleaning runs all the time.
        return ObjectStore(Journal(Path(self.directory.name) / "state.db", slack_bytes=0))

    def run(self, coroutine: Coroutine[None, None, T]) -> T:
        return self.runner.run(coroutine)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.close())
            self.runner.close()
            if self.directory is not None:
                self.directory.cleanup()

    def state_at(self, revision: int) -> dict[Key, tuple[int, int]]:
        state: dict[Key, tuple[int, int]] = {}
        for number, key, value in self.history:
            if number > revision:
                break
            if value is None:
                del state[key]
            else:
                state[key] = (number, value)
        return state

    def expected_list(self, bucket: str, revision: int, namespace: str) -> list[tuple[str, str, int, int]]:
        state = self.state_at(revision)
        wanted = sorted(key for key in state if key[0] == bucket and (not namespace or key[1] == namespace))
        return [(ns, name, *state[bucket, ns, name]) for _, ns, name in wanted]

    async def write(self, key: Key, value: int | None) -> int | None:
        bucket, namespace, name = key
        current = self.store.get(*key)
        document = None if value is None else {"metadata": {"name": name}, "value": value}
        expected = current.revision if current is not None else 0
        try:
            stored = await self.store.write(bucket, namespace, name, document, expected=expected)
        except StaleRevision:
            return None
        return stored.revision

    @rule(bucket=BUCKETS, namespace=NAMESPACES, name=NAMES, value=st.integers(0, 1000))
    def put(self, bucket: str, namespace: str, name: str, value: int) -> None:
        revision = self.run(self.write((bucket, namespace, name), value))
        assert revision == self.last_revision() + 1
        self.history.append((revision, (bucket, namespace, name), value))

    @rule(bucket=BUCKETS, namespace=NAMESPACES, name=NAMES)
    def delete(self, bucket: str, namespace: str, name: str) -> None:
        key = (bucket, namespace, name)
        existed = key in self.state_at(self.last_revision())
        revision = self.run(self.write(key, None))
        assert (revision is not None) == existed
        if revision is not None:
            self.history.append((revision, key, None))

    @rule(
        writes=st.lists(
            st.tuples(st.tuples(BUCKETS, NAMESPACES, NAMES), st.none() | st.integers(0, 1000)), min_size=2, max_size=8
        )
    )
    def put_at_once(self, writes: list[tuple[Key, int | None]]) -> None:
        """Writers that all read first and then write together: per object exactly the first one wins."""

        async def together() -> list[int | None]:
            return await asyncio.gather(*(self.write(key, value) for key, value in writes))

        present = self.state_at(self.last_revision())
        outcome = self.run(together())
        won = sorted(
            (revision, key, value)
            for revision, (key, value) in zip(outcome, writes, strict=True)
            if revision is not None
        )
        self.history.extend(won)
        if self.durable:
            possible = {key for key, value in writes if value is not None or key in present}
            assert {key for _, key, _ in won} == possible
            assert len(won) == len(possible)
        assert [revision for revision, _, _ in won] == sorted({revision for revision, _, _ in won})

    @rule(bucket=BUCKETS, back=st.integers(0, 5))
    def begin_watch(self, bucket: str, back: int) -> None:
        since = max(self.start, self.last_revision() - back)
        self.watchers.append((self.store.watch(bucket, since), bucket, since, []))

    @rule(bucket=BUCKETS, namespace=st.just("") | NAMESPACES, back=st.integers(0, 30))
    def list_the_past(self, bucket: str, namespace: str, back: int) -> None:
        revision = max(self.start, self.last_revision() - back)
        listed = self.store.list_at(bucket, revision, namespace)
        seen = [(item.namespace, item.name, item.revision, item.decode()["value"]) for item in listed]
        assert seen == self.expected_list(bucket, revision, namespace)

    @rule()
    def ask_before_the_beginning(self) -> None:
        with pytest.raises(HistoryExpired) as refusal:
            self.store.list_at("pods", self.start - 1)
        assert refusal.value.oldest == self.start
        with pytest.raises(HistoryExpired):
            self.store.watch("pods", self.start - 1)

    @precondition(lambda self: self.durable)
    @rule()
    def restart(self) -> None:
        self.run(self.store.close())
        self.check_watchers()
        self.watchers.clear()
        self.store = self.open()
        self.start = self.store.revision

    @invariant()
    def lists_show_the_present(self) -> None:
        assert self.store.revision == self.last_revision()
        for bucket in ("pods", "statefulsets.apps"):
            for namespace in ("", "a", "a-b", "b", "c"):
                items = self.store.list(bucket, namespace)
                seen = [(item.namespace, item.name, item.revision, item.decode()["value"]) for item in items]
                assert seen == self.expected_list(bucket, self.last_revision(), namespace)
                assert all(item.decode()["metadata"]["resourceVersion"] == str(item.revision) for item in items)

    @invariant()
    def check_watchers(self) -> None:
        for watcher, bucket, since, seen in self.watchers:
            self.run(drain(watcher, seen))
            wanted = [revision for revision, key, _ in self.history if key[0] == bucket and revision > since]
            assert [revision for _, revision in seen] == wanted

    def last_revision(self) -> int:
        return self.history[-1][0] if self.history else 1


async def drain(watcher: Watcher, into: list[tuple[str, int]]) -> None:
    """Everything that can be read without waiting."""
    while True:
        try:
            async with asyncio.timeout(0):
                batch = await anext(watcher)
        except (TimeoutError, StopAsyncIteration):
            return
        for change in batch:
            check_shape(change)
            into.append((change.type, change.revision))


def check_shape(change: Change) -> None:
    assert change.after.decode()["metadata"]["resourceVersion"] == str(change.revision)
    assert (change.before is None) == (change.type == "ADDED")
    if change.type == "DELETED":
        assert change.before is not None
        assert change.after.decode()["value"] == change.before.decode()["value"]


class DurableStoreMachine(StoreMachine):
    durable = True


TestMemoryStore = StoreMachine.TestCase
TestMemoryStore.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

TestDurableStore = DurableStoreMachine.TestCase
TestDurableStore.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
