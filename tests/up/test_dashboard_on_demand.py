"""`/dashboard` of a cluster leads to its dashboard."""

import asyncio
import time

import pytest
from aiohttp import ClientSession, CookieJar
from tests.dashboard.scene import Scene, model_set, scene

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.cluster.apiserver.auth.model import User
from kohort.kube.client import Client
from kohort.kube.errors import Forbidden
from kohort.up.dashboard_on_demand import PATH, DashboardOnDemand


async def link_of(found: Scene) -> str:
    return (await found.client.raw("GET", PATH)).decode().strip()


async def test_a_link_starts_it_and_opens_one_session() -> None:
    async with scene(nodes=2) as found:
        await found.create(model_set("llm"))
        await found.ready("llm")
        dashboard = DashboardOnDemand(found.cluster.transport(), CliCommands, allow_actions=False)
        found.cluster.server.part_paths[PATH] = dashboard.answer
        async with dashboard.kept():
            both = await asyncio.gather(link_of(found), link_of(found))
            assert both[0] == both[1], "requests at the same time start one dashboard"
            link = both[0]
            assert (await found.client.raw("GET", PATH)).endswith(b"\n"), "a terminal shows it as a line of its own"
            base = link.partition("/dashboard")[0]
            jar = CookieJar(unsafe=True, treat_as_secure_origin=[base])
            async with ClientSession(cookie_jar=jar) as session:
                async with session.get(link) as answer:
                    assert answer.status == 200
                    assert "llm" in await answer.text()
                assert await link_of(found) != link
                stream = await session.get(f"{base}/dashboard/live?view=/dashboard/")
                await stream.content.readline()
                begun = time.monotonic()
                other = Client(found.cluster.transport(User("reader", ("system:authenticated",))))
                with pytest.raises(Forbidden):
                    await other.raw("GET", PATH)
        assert begun
    assert time.monotonic() - begun < 10, "an open page does not hold the stop up"


async def test_a_cluster_whose_dashboard_is_not_used_ends_at_once() -> None:
    async with scene(nodes=2) as found:
        dashboard = DashboardOnDemand(found.cluster.transport(), CliCommands, allow_actions=False)
        async with asyncio.timeout(5), dashboard.kept():
            pass
