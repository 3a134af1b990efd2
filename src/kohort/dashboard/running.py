"""A running dashboard: its caches, its views and its web server, put together."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from kohort.dashboard.access import Caller, OwnRights, ProxyUsers, ReviewedRights, TokenReviewer, own_user
from kohort.dashboard.cluster_cache import NEEDED, ClusterCache
from kohort.dashboard.commands import Commands, Verb
from kohort.dashboard.html import ROOT
from kohort.dashboard.live import Broadcast
from kohort.dashboard.server import Dashboard, LinkLogin, Settings
from kohort.dashboard.views import Views
from kohort.kube.client import Client
from kohort.kube.errors import Forbidden
from kohort.kube.manager import Manager
from kohort.kube.shared_stores import SharedStores
from kohort.kube.transport import Connection
from kohort.manager.web_server import Address, listen
from kohort.objects.meta import PartialObject


class Running(msgspec.Struct, frozen=True):
    port: int
    link: Callable[[], str]
    """The path that opens a session; empty where users log in with tokens."""


@asynccontextmanager
async def running(
    client: Client,
    address: Address,
    settings: Settings,
    commands: Commands,
    *,
    namespace: str = "",
    namespaces: tuple[str, ...] = (),
    tokens_of: Connection | None = None,
    proxy: ProxyUsers | None = None,
    link_used: Callable[[str], None] = lambda path: None,
) -> AsyncIterator[Running]:
    """`client` reads the cluster. With `tokens_of`, the API server whose tokens users log in with, or with `proxy`,
    reads are reviewed for each user; otherwise every session acts with the rights of `client`. `namespaces` are those
    that are shown, all if none are given; `namespace` is shown if the client may not read all. `link_used` gets the
    path of the next link."""
    confined = namespaces or await readable_namespaces(client, namespace)
    manager = Manager(client, name="dashboard", caches=SharedStores(client, namespaces=confined))
    cache = ClusterCache(manager, confined)
    verbs = frozenset(one.value for one in Verb) if settings.allow_actions else frozenset[str]()
    if proxy is not None:
        login: LinkLogin | TokenReviewer | ProxyUsers = proxy
        views = Views(cache, ReviewedRights(client), commands, verbs)
    elif tokens_of is not None:
        login = TokenReviewer(client, tokens_of)
        views = Views(cache, ReviewedRights(client), commands, verbs)
    else:
        login = LinkLogin(Caller(await own_user(client), client), lambda: link_used(link()))
        views = Views(cache, OwnRights(), commands, verbs)

    def link() -> str:
        return f"{ROOT}/login?key={login.link.key}" if isinstance(login, LinkLogin) else ""

    await cache.add_optional()
    dashboard = Dashboard(views, Broadcast(cache), login, settings, manager.recorder("kohort-dashboard"))
    async with manager.running():
        runner, port = await listen(dashboard.application(), address)
        try:
            yield Running(port, link)
        finally:
            await runner.cleanup()
            if isinstance(login, TokenReviewer | ProxyUsers):
                await login.close()


async def readable_namespaces(client: Client, namespace: str) -> tuple[str, ...]:
    """Empty if all may be read, else the one that was named. Raises what the server answers if not even that one."""
    try:
        for resource in NEEDED:
            await client.list(resource, type=PartialObject, limit=1)
    except Forbidden:
        for resource in NEEDED:
            await client.list(resource, namespace, type=PartialObject, limit=1)
        return (namespace,)
    return ()
