"""Reconciling: order of start and stop, retries, owners, shared caches."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.kube.model_server import ModelServer

from kohort.kube import errors
from kohort.kube.client import Client
from kohort.kube.controller import Controller, Requeue
from kohort.kube.event_mapping import index_by_controller_uid, map_to_controller_owner
from kohort.kube.manager import Manager
from kohort.kube.resources import CONFIG_MAPS, PODS, SECRETS, Key
from kohort.kube.shared_stores import SharedStores
from kohort.kube.transport import InProcessTransport
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject


@pytest.fixture
def server() -> ModelServer:
    return ModelServer()


@pytest.fixture
async def manager(server: ModelServer) -> AsyncIterator[Manager]:
    yield Manager(Client(InProcessTransport(server.handle)))


class Visits:
    """A reconciler that notes when it was called and answers from a script."""

    def __init__(self, *answers: Requeue | Exception | None) -> None:
        self.calls: list[tuple[str, float]] = []
        self._answers = [*answers]

    async def __call__(self, key: Key) -> Requeue | None:
        self.calls.append((str(key), round(asyncio.get_running_loop().time(), 3)))
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.calls]

    @property
    def times(self) -> list[float]:
        return [time for _, time in self.calls]


async def test_every_object_is_looked_at_once_after_the_start(server: ModelServer, manager: Manager) -> None:
    server.put("configmaps", "n", "a")
    server.put("configmaps", "n", "b")
    visits = Visits()
    manager.controller("test", visits).watches(manager.informer(CONFIG_MAPS, PartialObject))
    async with manager.running():
        await asyncio.sleep(10)
        server.put("configmaps", "n", "a")
        await asyncio.sleep(10)
    assert visits.keys == ["n/a", "n/b", "n/a"]


async def test_no_reconcile_begins_before_all_caches_are_filled(server: ModelServer, manager: Manager) -> None:
    server.put("configmaps", "n", "a")
    server.put("secrets", "n", "s")
    maps, secrets = manager.informer(CONFIG_MAPS, PartialObject), manager.informer(SECRETS, PartialObject)
    seen: list[tuple[bool, bool]] = []

    async def reconcile(key: Key) -> None:
        seen.append((maps.synced, secrets.synced))

    manager.controller("test", reconcile).watches(maps)
    manager.controller("other", reconcile).watches(secrets)
    async with manager.running():
        await asyncio.sleep(1)
    assert seen == [(True, True), (True, True)]


@pytest.mark.parametrize(
    ("answers", "times"),
    [
        pytest.param([None], [0.0], id="rests"),
        pytest.param([Requeue(after=30), Requeue(after=5), None], [0.0, 30.0, 35.0], id="comes back when asked"),
        pytest.param([Requeue(), Requeue(), None], [0.0, 0.005, 0.015], id="comes back with growing delays"),
        pytest.param([ValueError("x"), ValueError("x"), None], [0.0, 0.005, 0.015], id="is retried after failures"),
        pytest.param(
            [errors.conflict("pods", "a", errors.STALE), ValueError("x"), None], [0.0, 0.005, 0.015], id="conflict"
        ),
        pytest.param(
            [ValueError("x"), Requeue(after=10), ValueError("x"), None], [0.0, 0.005, 10.005, 10.01], id="forgets"
        ),
    ],
)
async def test_what_becomes_of_a_key(answers: list[Requeue | Exception | None], times: list[float]) -> None:
    visits = Visits(*answers)
    controller = Controller("test", visits)
    controller.enqueue(Key("n", "a"))
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(1000)
    controller.stop()
    await task
    assert visits.times == pytest.approx(times, abs=0.002)


async def test_workers_run_side_by_side_but_never_on_the_same_key() -> None:
    running: list[str] = []
    most = 0

    async def reconcile(key: Key) -> Requeue | None:
        nonlocal most
        assert key.name not in running
        running.append(key.name)
        most = max(most, len(running))
        controller.enqueue(key, after=0.5)
        await asyncio.sleep(1)
        running.remove(key.name)
        return None

    controller = Controller("test", reconcile, workers=3)
    for name in "abcde":
        controller.enqueue(Key("n", name))
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(20)
    controller.stop()
    await task
    assert most == 3


async def test_a_costly_key_rests_and_its_events_gather() -> None:
    starts: list[float] = []
    now = asyncio.get_running_loop().time

    async def reconcile(key: Key) -> None:
        starts.append(now())
        await asyncio.sleep(0.02)

    controller = Controller("test", reconcile)
    task = asyncio.create_task(controller.run())
    for _ in range(300):
        controller.enqueue(Key("n", "a"))
        await asyncio.sleep(0.001)
    await asyncio.sleep(1)
    controller.stop()
    await task
    assert len(starts) == 6
    assert starts[:3] == pytest.approx([0, 0.06, 0.12])
    assert starts[-1] >= 0.299, "the last event counts"


def pod(name: str, owner_kind: str = "", owner: str = "", controller: bool = True) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": "n"}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": owner_kind, "name": owner, "uid": f"uid-of-{owner}"}
        metadata["ownerReferences"] = [reference | ({"controller": True} if controller else {})]
    return {"metadata": metadata}


@pytest.mark.parametrize("view", [JsonObject, PartialObject])
async def test_a_child_wakes_the_controller_that_owns_it(
    server: ModelServer, manager: Manager, view: type[PartialObject]
) -> None:
    server.put("pods", "n", "p", **pod("p", "StatefulSet", "web"))
    server.put("pods", "n", "q", **pod("q", "ReplicaSet", "web-1"))
    server.put("pods", "n", "r", **pod("r", "StatefulSet", "other", controller=False))
    visits = Visits()
    pods = manager.informer(PODS, view, indexes={"owner": index_by_controller_uid})
    manager.controller("statefulset", visits).watches(pods, map_to_controller_owner("StatefulSet", "apps"))
    async with manager.running():
        await asyncio.sleep(1)
        assert visits.keys == ["n/web"]
        assert len(pods.by_index("owner", "uid-of-web")) == 1
        server.put("pods", "n", "p", **pod("p", "StatefulSet", "db"))
        await asyncio.sleep(1)
    assert visits.keys == ["n/web", "n/web", "n/db"], "the former owner and the new one"


def test_the_group_of_an_owner_counts_when_given() -> None:
    obj = pod("p", "StatefulSet", "web")
    assert [*map_to_controller_owner("StatefulSet", "apps")(obj)] == [Key("n", "web")]
    assert [*map_to_controller_owner("StatefulSet", "apps.kruise.io")(obj)] == []
    assert [*map_to_controller_owner("StatefulSet", namespaced=False)(obj)] == [Key("", "web")]


async def test_changes_that_do_not_matter_can_be_held_back(server: ModelServer, manager: Manager) -> None:
    visits = Visits()
    maps = manager.informer(CONFIG_MAPS, PartialObject)
    manager.controller("test", visits).watches(maps, when=lambda old, new: old is None or new is None)
    async with manager.running():
        server.put("configmaps", "n", "a")
        await asyncio.sleep(1)
        server.put("configmaps", "n", "a")
        await asyncio.sleep(1)
        server.remove("configmaps", "n", "a")
        await asyncio.sleep(1)
    assert len(visits.calls) == 2


async def test_equal_informers_are_shared_and_different_ones_are_not(manager: Manager) -> None:
    one = manager.informer(CONFIG_MAPS, PartialObject)
    assert manager.informer(CONFIG_MAPS, PartialObject) is one
    assert manager.informer(CONFIG_MAPS, PartialObject, namespace="n") is not one
    assert manager.informer(CONFIG_MAPS, PartialObject, label_selector="a=b") is not one


async def test_an_informer_asked_for_while_running_starts_and_can_be_dropped(
    server: ModelServer, manager: Manager
) -> None:
    server.put("secrets", "n", "s")
    async with manager.running():
        secrets = manager.informer(SECRETS, PartialObject)
        await secrets.wait_synced()
        assert len(secrets) == 1
        assert server.watchers == 1
        manager.drop(secrets)
        await asyncio.sleep(1)
        assert server.watchers == 0


async def test_managers_of_one_process_can_share_what_they_cache(server: ModelServer) -> None:
    server.put("configmaps", "n", "a")
    client = Client(InProcessTransport(server.handle))
    caches = SharedStores(client)
    first, second = (Manager(client, name=name, caches=caches) for name in ("first", "second"))
    visits = {manager: Visits() for manager in (first, second)}
    informers = []
    for manager in (first, second):
        maps = manager.informer(CONFIG_MAPS, PartialObject, indexes={"name": lambda obj: [obj.metadata.name]})
        manager.controller("test", visits[manager]).watches(maps)
        informers.append(maps)
    async with first.running():
        async with second.running():
            await asyncio.sleep(1)
            assert server.watchers == 1
            key = Key("n", "a")
            assert informers[0].get(key) is informers[1].get(key) is informers[1].by_index("name", "a")[0]
        server.put("configmaps", "n", "a")
        await asyncio.sleep(1)
        assert server.watchers == 1, "the first one still needs it"
        again = Manager(client, name="again", caches=caches)
        visits[again] = Visits()
        again.controller("test", visits[again]).watches(again.informer(CONFIG_MAPS, PartialObject))
        async with again.running():
            await asyncio.sleep(1)
    assert [len(each.calls) for each in visits.values()] == [2, 1, 1]
    assert server.watchers == 0


async def test_a_stop_lets_the_work_in_hand_finish_and_starts_nothing_new(
    server: ModelServer, manager: Manager
) -> None:
    server.put("configmaps", "n", "a")
    server.put("configmaps", "n", "b")
    finished: list[str] = []

    async def reconcile(key: Key) -> None:
        await asyncio.sleep(5)
        finished.append(key.name)

    manager.controller("test", reconcile).watches(manager.informer(CONFIG_MAPS, PartialObject))
    async with manager.running():
        await asyncio.sleep(1)
    assert finished == ["a"]
    assert server.watchers == 0


async def test_work_that_takes_longer_than_the_grace_is_cancelled(server: ModelServer) -> None:
    manager = Manager(Client(InProcessTransport(server.handle)), grace=3)
    server.put("configmaps", "n", "a")
    cancelled: list[float] = []
    now = asyncio.get_running_loop().time

    async def reconcile(key: Key) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(now())
            raise

    manager.controller("test", reconcile).watches(manager.informer(CONFIG_MAPS, PartialObject))
    async with manager.running():
        await asyncio.sleep(10)
    assert cancelled == [pytest.approx(13, abs=0.1)]


async def test_preparations_come_before_the_caches_and_are_undone_in_reverse_order(
    server: ModelServer, manager: Manager
) -> None:
    order: list[str] = []

    def noting(what: str) -> Callable[[], Awaitable[None]]:
        async def note() -> None:
            order.append(f"{what}, {len(server.requests)} requests, {server.watchers} watches")

        return note

    manager.informer(CONFIG_MAPS, PartialObject)
    manager.prepare(noting("install"))
    manager.clean_up(noting("remove"))
    manager.prepare(noting("listen"))
    manager.clean_up(noting("close"))
    async with manager.running():
        assert server.watchers == 1
    assert order == [
        "install, 0 requests, 0 watches",
        "listen, 0 requests, 0 watches",
        "close, 1 requests, 0 watches",
        "remove, 1 requests, 0 watches",
    ]


async def test_what_is_prepared_for_long_gives_way_to_the_end(server: ModelServer, manager: Manager) -> None:
    undone = asyncio.Event()

    async def watch_for_another() -> None:
        await asyncio.Event().wait()

    async def undo() -> None:
        undone.set()

    manager.informer(CONFIG_MAPS, PartialObject)
    manager.prepare(watch_for_another)
    manager.clean_up(undo)
    running = asyncio.create_task(manager.run())
    await asyncio.sleep(1)
    assert not running.done()
    manager.stop()
    await running
    assert undone.is_set() and server.requests == []


async def test_a_failing_background_coroutine_ends_the_manager(manager: Manager) -> None:
    async def fail() -> None:
        await asyncio.sleep(5)
        raise RuntimeError("webhook server died")

    manager.background("webhooks", fail)
    with pytest.raises(ExceptionGroup) as caught:
        await manager.run()
    assert caught.group_contains(RuntimeError, match="webhook server died")


async def test_a_stop_before_the_caches_are_filled_is_obeyed(server: ModelServer, manager: Manager) -> None:
    async def never(_: object) -> None:
        await asyncio.Event().wait()

    manager = Manager(Client(InProcessTransport(never)))  # type: ignore[arg-type]
    manager.informer(CONFIG_MAPS, PartialObject)
    task = asyncio.create_task(manager.run())
    await asyncio.sleep(1)
    manager.stop()
    await task


async def test_metrics_tell_what_happened(server: ModelServer, manager: Manager) -> None:
    server.put("configmaps", "n", "a")
    visits = Visits(ValueError("x"), Requeue(after=1), None)
    manager.controller("test", visits).watches(manager.informer(CONFIG_MAPS, PartialObject))
    async with manager.running():
        await asyncio.sleep(10)
    text = manager.metrics.render().decode()
    for line in (
        'controller_runtime_reconcile_total{controller="test",result="success"} 1.0',
        'controller_runtime_reconcile_total{controller="test",result="error"} 1.0',
        'controller_runtime_reconcile_total{controller="test",result="requeue_after"} 1.0',
        'controller_runtime_reconcile_errors_total{controller="test"} 1.0',
        'controller_runtime_reconcile_panics_total{controller="test"} 1.0',
        'controller_runtime_reconcile_timeouts_total{controller="test"} 0.0',
        'controller_runtime_terminal_reconcile_errors_total{controller="test"} 0.0',
        'controller_runtime_max_concurrent_reconciles{controller="test"} 1.0',
        'controller_runtime_active_workers{controller="test"} 0.0',
        'workqueue_unfinished_work_seconds{name="test"} 0.0',
        'workqueue_longest_running_processor_seconds{name="test"} 0.0',
        'workqueue_adds_total{name="test"} 3.0',
        'workqueue_depth{name="test"} 0.0',
        'workqueue_retries_total{name="test"} 1.0',
        'workqueue_work_duration_seconds_count{name="test"} 3.0',
        'kohort_informer_objects{resource="configmaps"} 1.0',
        'kohort_informer_lists_total{resource="configmaps"} 1.0',
        'rest_client_requests_total{code="200",method="WATCH"} 1.0',
    ):
        assert line in text, line


async def test_metrics_tell_what_is_under_way(server: ModelServer, manager: Manager) -> None:
    server.put("configmaps", "n", "a")
    server.put("configmaps", "n", "b")
    text: list[str] = []

    async def slow(key: Key) -> None:
        await asyncio.sleep(3 if key.name == "a" else 5)
        if key.name == "a":
            text.extend(manager.metrics.render().decode().splitlines())
        else:
            raise TimeoutError

    manager.controller("test", slow, workers=4).watches(manager.informer(CONFIG_MAPS, PartialObject))
    async with manager.running():
        await asyncio.sleep(5.5)
        assert 'controller_runtime_reconcile_timeouts_total{controller="test"} 1.0' in manager.metrics.render().decode()
    for line in (
        'controller_runtime_active_workers{controller="test"} 2.0',
        'controller_runtime_max_concurrent_reconciles{controller="test"} 4.0',
        'workqueue_unfinished_work_seconds{name="test"} 6.0',
        'workqueue_longest_running_processor_seconds{name="test"} 3.0',
    ):
        assert line in text, line


async def test_a_manager_that_fails_ends_those_who_rely_on_it(manager: Manager) -> None:
    async def fail() -> None:
        await asyncio.sleep(5)
        raise RuntimeError("broken")

    manager.background("failing", fail)
    with pytest.raises(ExceptionGroup) as caught:
        async with manager.running():
            await asyncio.sleep(3600)
    assert [str(one) for one in caught.value.exceptions] == ["broken"]
    assert asyncio.get_running_loop().time() < 60


async def test_who_leaves_a_manager_by_a_cancellation_of_its_own_stays_cancelled(manager: Manager) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5), manager.running():
            await asyncio.sleep(3600)
