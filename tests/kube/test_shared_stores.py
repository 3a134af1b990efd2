"""Stores that several informers share: one watch, one copy, until the last user has gone."""

import asyncio
from collections.abc import Callable

import pytest
from tests.kube.model_server import ModelServer

from kohort.kube.client import Client, Selection
from kohort.kube.informer import Informer
from kohort.kube.resources import CONFIG_MAPS, SECRETS
from kohort.kube.shared_stores import SharedStores
from kohort.kube.tasks import cancel_all
from kohort.kube.transport import InProcessTransport
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject

MAPS = "configmaps"


@pytest.fixture
async def server() -> ModelServer:
    server = ModelServer()
    server.put(MAPS, "ns", "first")
    return server


@pytest.fixture
async def stores(server: ModelServer) -> SharedStores:
    return SharedStores(Client(InProcessTransport(server.handle)))


def test_equal_selections_and_views_share_a_store() -> None:
    stores = SharedStores(Client(InProcessTransport(ModelServer().handle)))
    store = stores.store(Selection(CONFIG_MAPS), PartialObject)
    assert stores.store(Selection(CONFIG_MAPS), PartialObject) is store
    assert stores.store(Selection(CONFIG_MAPS, "ns"), PartialObject) is not store
    assert stores.store(Selection(SECRETS), PartialObject) is not store
    whole: object = stores.store(Selection(CONFIG_MAPS), JsonObject)
    assert whole is not store


async def test_two_informers_of_a_store_see_the_same_objects_with_one_watch(
    server: ModelServer, stores: SharedStores
) -> None:
    store = stores.store(Selection(CONFIG_MAPS), PartialObject)
    one, other = Informer(store), Informer(store)
    task = stores.attach(store)
    assert stores.attach(store) is task
    try:
        await one.wait_synced()
        await other.wait_synced()
        assert server.watchers == 1
        (first,) = one.list()
        assert other.list()[0] is first, "decoded once"
    finally:
        await cancel_all(task)


async def test_handlers_belong_to_their_informer(server: ModelServer, stores: SharedStores) -> None:
    store = stores.store(Selection(CONFIG_MAPS), PartialObject)
    one, other = Informer(store), Informer(store)
    task = stores.attach(store)
    seen: dict[str, list[str]] = {"one": [], "other": []}

    def recorder(name: str) -> Callable[[PartialObject | None, PartialObject | None], None]:
        def record(old: PartialObject | None, new: PartialObject | None) -> None:
            assert new is not None
            seen[name].append(new.metadata.name)

        return record

    try:
        await one.wait_synced()
        one.on_change(recorder("one"))
        other.on_change(recorder("other"))
        one.close()
        server.put(MAPS, "ns", "second")
        await asyncio.sleep(1)
        assert seen == {"one": ["first"], "other": ["first", "second"]}
    finally:
        await cancel_all(task)


async def test_the_store_runs_until_its_last_user_detaches(server: ModelServer, stores: SharedStores) -> None:
    store = stores.store(Selection(CONFIG_MAPS), PartialObject)
    informer = Informer(store)
    stores.attach(store)
    stores.attach(store)
    await informer.wait_synced()
    assert stores.detach(store) is None
    server.put(MAPS, "ns", "second")
    await asyncio.sleep(1)
    assert len(informer) == 2, "one user is left"
    ending = stores.detach(store)
    assert ending is not None
    await cancel_all(ending)
    assert ending.cancelled() and server.watchers == 0


async def test_a_store_that_ended_is_made_again_when_it_is_needed_again(stores: SharedStores) -> None:
    store = stores.store(Selection(CONFIG_MAPS), PartialObject)
    stores.attach(store)
    ending = stores.detach(store)
    assert ending is not None
    await cancel_all(ending)
    again = stores.store(Selection(CONFIG_MAPS), PartialObject)
    assert again is not store
    informer = Informer(again)
    task = stores.attach(again)
    try:
        await informer.wait_synced()
        assert len(informer) == 1
    finally:
        await cancel_all(task)
