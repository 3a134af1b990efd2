"""Caches that follow some namespaces only."""

import asyncio

from tests.kube.model_server import ModelServer

from kohort.kube.client import Client, Selection
from kohort.kube.informer import Informer
from kohort.kube.resources import CONFIG_MAPS, NODES, Key
from kohort.kube.shared_stores import SharedStores
from kohort.kube.tasks import cancel_all
from kohort.kube.transport import InProcessTransport
from kohort.objects.meta import PartialObject
from kohort.testing import virtual_time

MAPS = "configmaps"


def keys(informer: Informer[PartialObject]) -> set[Key]:
    return {Key(one.metadata.namespace, one.metadata.name) for one in informer.list()}


def test_only_the_chosen_namespaces_are_followed_through_lost_history() -> None:
    virtual_time.run(_follow_through_lost_history())


async def _follow_through_lost_history() -> None:
    server = ModelServer()
    for namespace in ("a", "b", "c"):
        server.put(MAPS, namespace, "first")
    stores = SharedStores(Client(InProcessTransport(server.handle)), namespaces=("a", "b"))
    store = stores.store(Selection(CONFIG_MAPS), PartialObject)
    informer = Informer(store)
    task = stores.attach(store)
    try:
        await informer.wait_synced()
        assert keys(informer) == {Key("a", "first"), Key("b", "first")}
        server.put(MAPS, "b", "second")
        server.put(MAPS, "c", "second")
        server.remove(MAPS, "a", "first")
        await asyncio.sleep(1)
        assert keys(informer) == {Key("b", "first"), Key("b", "second")}
        # What vanished meanwhile in one namespace must not take along what the other one has.
        server.break_watches()
        server.remove(MAPS, "b", "first")
        server.forget_history()
        server.put(MAPS, "a", "third")
        await asyncio.sleep(120)
        assert keys(informer) == {Key("a", "third"), Key("b", "second")}
    finally:
        await cancel_all(task)


def test_what_has_no_namespace_is_not_confined() -> None:
    async def look() -> list[str]:
        client = Client(InProcessTransport(ModelServer().handle))
        store = SharedStores(client, namespaces=("a",)).store(Selection(NODES), PartialObject)
        return [follower._selection.namespace for follower in store._followers]

    assert virtual_time.run(look()) == [""]
