"""A running dashboard: its caches, its views and its web server, put together."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from kohort.dashboard.access import (
    Caller,
    CertificateUsers,
    OwnRights,
    ProxyUsers,
    ReviewedRights,
    TokenReviewer,
    own_user,
)
from kohort.dashboard.cluster_cache import NEEDED, ClusterCache
from kohort.dashboard.commands import Commands, Verb
from kohort.dashboard.html import ROOT
from kohort.dashboard.live import Broadcast
from kohort.dashboard.server import Dashboard, DashboardSettings, LinkLogin, Login, StreamLoad
from kohort.dashboard.tls_listener import TlsListener
from kohort.dashboard.views import Views
from kohort.kube.client import Client
from kohort.kube.errors import Forbidden
from kohort.kube.manager import Manager
from kohort.kube.shared_stores import SharedStores
from kohort.kube.tasks import cancel_all
from kohort.kube.transport import Connection
from kohort.manager.web_server import Address, listen
from kohort.objects.meta import PartialObject


class RunningDashboard(msgspec.Struct, frozen=True):
    port: int
    link: Callable[[], str]
    """The path that opens a session; empty where users log in with tokens."""
    paths: Sequence[str] = ()
    """All that the server answers for, with {parameters}."""
    stream_load: Callable[[], StreamLoad] = lambda: StreamLoad(0, 0)


@asynccontextmanager
async def running(
    client: Client,
    address: Address,
    settings: DashboardSettings,
    commands: Commands,
    *,
    namespace: str = "",
    namespaces: tuple[str, ...] = (),
    tokens_of: Connection | None = None,
    proxy: ProxyUsers | None = None,
    certificates: CertificateUsers | None = None,
    tls: TlsListener | None = None,
    link_used: Callable[[str], None] = lambda path: None,
) -> AsyncIterator[RunningDashboard]:
    """`client` reads the cluster. With `tokens_of`, the API server whose tokens users log in with, with `proxy` or with
    `certificates`, reads are reviewed for each user; otherwise every session acts with the rights of `client`.
    `certificates` alone, or beside `tokens_of`, need `tls`. `namespaces` are those that are shown, all if none are
    given; `namespace` is shown if the client may not read all. `link_used` gets the path of the next link."""
    confined = namespaces or await readable_namespaces(client, namespace)
    manager = Manager(client, name="dashboard", caches=SharedStores(client, namespaces=confined))
    cache = ClusterCache(manager, confined)
    verbs = frozenset(one.value for one in Verb) if settings.allow_actions else frozenset[str]()
    if proxy is not None:
        login: Login = proxy
    elif tokens_of is not None:
        login = TokenReviewer(client, tokens_of)
    elif certificates is not None:
        login = certificates
    else:
        login = LinkLogin(Caller(await own_user(client), client), lambda: link_used(link()))
    rights = OwnRights() if isinstance(login, LinkLogin) else ReviewedRights(client)
    views = Views(cache, rights, commands, verbs)

    def link() -> str:
        return f"{ROOT}/login?key={login.link.key}" if isinstance(login, LinkLogin) else ""

    await cache.add_optional()
    recorder = manager.recorder("kohort-dashboard")
    dashboard = Dashboard(views, Broadcast(cache), login, settings, recorder, certificates)
    async with manager.running():
        application = dashboard.application()
        runner, port = await listen(application, address, tls.context if tls is not None else None)
        background = [asyncio.create_task(tls.reload_renewed())] if tls is not None else []
        if runner.server is not None:
            background.append(asyncio.create_task(dashboard.close_silent(runner.server)))
        try:
            yield RunningDashboard(port, link, dashboard.paths(application), dashboard.stream_load)
        finally:
            await cancel_all(*background)
            await runner.cleanup()
            for one in (login, certificates):
                if isinstance(one, TokenReviewer | ProxyUsers | CertificateUsers):
                    await one.close()


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
