"""What happens to a part that fails."""

import asyncio

import pytest

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.http import Request, Response
from kohort.kube.manager import Manager
from kohort.kube.transport import InProcessTransport
from kohort.testing import virtual_time
from kohort.up import part_supervision
from kohort.up.parts import Settled
from kohort.up.startup_errors import CannotStart


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

        async with part_supervision.running([part_supervision.Part("fragile", transport(server), fragile)]):
            await asyncio.sleep(200)
        assert [round(later - starts[0]) for later in starts] == [0, 61, 123, 187]

    virtual_time.run(story())


def test_what_happened_to_a_part_is_in_its_record() -> None:
    async def story() -> None:
        server, _ = await assemble(open_store())
        fail = asyncio.Event()

        def fragile(manager: Manager) -> None:
            async def fail_when_asked() -> None:
                await fail.wait()
                fail.clear()
                raise RuntimeError("worn out")

            manager.background("fragile", fail_when_asked)

        part = part_supervision.Part("fragile", transport(server), fragile)
        states: list[tuple[str, int]] = []
        messages: list[str] = []
        async with part_supervision.running([part]):
            part.changed = lambda: states.append((part.record.state, part.record.restarts))
            part.failed = messages.append
            assert (part.record.state, part.record.restarts, part.record.reason) == ("Ready", 0, "")
            fail.set()
            await asyncio.sleep(0.5)
            assert part.record.retry_at != ""
            await asyncio.sleep(10)
            assert part.record.retry_at == ""
        assert part.record.reason == "RuntimeError: worn out"
        assert states == [("BackOff", 1), ("Starting", 1), ("Ready", 1), ("Stopped", 1)]
        assert messages == ["part fragile failed: RuntimeError: worn out; starting it again in 1 s"]

    virtual_time.run(story())


@pytest.mark.parametrize("end", ["return", "cancel"])
def test_a_part_that_ends_without_being_asked_to_is_started_again(end: str) -> None:
    """A manager that returns, or a task of a part that is cancelled by an error in it, is a failure like any other."""

    async def story() -> None:
        server, _ = await assemble(open_store())
        starts: list[float] = []

        def leaving(manager: Manager) -> None:
            async def leave() -> None:
                starts.append(asyncio.get_running_loop().time())
                await asyncio.sleep(10)
                if end == "return":
                    manager.stop()
                else:
                    raise asyncio.CancelledError

            manager.prepare(leave)

        part = part_supervision.Part("leaving", transport(server), leaving)
        part.ready.set()  # It was ready before; now it cannot start.
        async with part_supervision.running([part]):
            await asyncio.sleep(30)
        assert [round(later - starts[0]) for later in starts] == [0, 11, 23]

    virtual_time.run(story())


def test_a_part_is_stopped_while_it_waits_to_be_started_again() -> None:
    async def story() -> None:
        server, _ = await assemble(open_store())

        def broken(manager: Manager) -> None:
            async def fail() -> None:
                raise RuntimeError("worn out")

            manager.background("broken", fail)

        part = part_supervision.Part("broken", transport(server), broken)
        async with part_supervision.running([part]):
            await asyncio.sleep(100)
            assert part.record.state == "BackOff"
            begun = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() == begun
        assert part.record.state == "Stopped"

    virtual_time.run(story())


def test_a_part_that_cannot_start_ends_the_start() -> None:
    async def story() -> None:
        server, _ = await assemble(open_store())

        def broken(manager: Manager) -> None:
            raise RuntimeError("no idea how")

        parts = [part_supervision.Part("broken", transport(server), broken)]
        with pytest.raises(CannotStart, match="the part broken failed: no idea how"):
            async with part_supervision.running(parts):
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

        parts = [part_supervision.Part("broken", transport(server), broken)]
        with pytest.raises(CannotStart, match=r"the part broken failed: no idea how; KeyError$"):
            async with part_supervision.running(parts):
                pass

    virtual_time.run(story())


def test_a_part_that_never_gets_ready_ends_the_start() -> None:
    async def story() -> None:
        server, _ = await assemble(open_store())

        async def never() -> None:
            await asyncio.Event().wait()

        parts = [part_supervision.Part("slow", transport(server), lambda _: never)]
        with pytest.raises(CannotStart, match="the part slow is not ready after 60 s"):
            async with part_supervision.running(parts):
                pass

    virtual_time.run(story())
