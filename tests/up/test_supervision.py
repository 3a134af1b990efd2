"""What happens to a part that fails."""

import asyncio

import pytest

from kohort.cluster.apiserver.assembly import assemble
from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.http import Request, Response
from kohort.kube.manager import Manager
from kohort.kube.transport import InProcessTransport
from kohort.testing import virtual_time
from kohort.up import supervision
from kohort.up.failures import CannotStart
from kohort.up.parts import Settled


def transport(server: ApiServer) -> InProcessTransport:
    async def handle(request: Request) -> Response:
        return await server.handle(request, ADMIN)

    return InProcessTransport(handle)


def test_a_part_that_fails_later_is_started_again() -> None:
    async def story() -> None:
        server, _ = await assemble(open_store())
        starts: list[float] = []

        def fragile(manager: Manager) -> None:
            async def fail_after_a_minute() -> None:
                starts.append(asyncio.get_running_loop().time())
                await asyncio.sleep(60)
                raise RuntimeError("worn out")

            manager.background("fragile", fail_after_a_minute)

        async with supervision.running([supervision.Part("fragile", transport(server), fragile)]):
            await asyncio.sleep(200)
        assert [round(later - starts[0]) for later in starts] == [0, 65, 130, 195]

    virtual_time.run(story())


def test_a_part_that_cannot_start_ends_the_start() -> None:
    async def story() -> None:
        server, _ = await assemble(open_store())

        def broken(manager: Manager) -> None:
            raise RuntimeError("no idea how")

        parts = [supervision.Part("broken", transport(server), broken)]
        with pytest.raises(CannotStart, match="the part broken failed: no idea how"):
            async with supervision.running(parts):
                pass

    virtual_time.run(story())


def test_what_failed_is_named_and_not_the_group_of_tasks_it_failed_in() -> None:
    async def story() -> None:
        server, _ = await assemble(open_store())

        def broken(manager: Manager) -> Settled:
            async def fail() -> None:
                raise ExceptionGroup("two of them", [RuntimeError("no idea how"), ExceptionGroup("", [KeyError()])])

            async def never() -> None:
                await asyncio.Event().wait()

            manager.background("fails", fail)
            return never

        parts = [supervision.Part("broken", transport(server), broken)]
        with pytest.raises(CannotStart, match=r"the part broken failed: no idea how; KeyError$"):
            async with supervision.running(parts):
                pass

    virtual_time.run(story())


def test_a_part_that_never_gets_ready_ends_the_start() -> None:
    async def story() -> None:
        server, _ = await assemble(open_store())

        async def never() -> None:
            await asyncio.Event().wait()

        parts = [supervision.Part("slow", transport(server), lambda _: never)]
        with pytest.raises(CannotStart, match="the part slow is not ready after 60 s"):
            async with supervision.running(parts):
                pass

    virtual_time.run(story())
