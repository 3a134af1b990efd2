"""What every runtime must do, whatever it runs: the contract of `runtimes.interface.Runtime`."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.node.runtimes.cri.fake_runtime import FakeRuntime

from kohort.node.runtimes.cri.client import CriClient
from kohort.node.runtimes.cri.image_pulls import RegistryImages
from kohort.node.runtimes.cri.runtime import CriRuntime
from kohort.node.runtimes.interface import ERROR, Instance, Launch, PodSandboxSpec, Runtime
from kohort.node.runtimes.process.runtime import ProcessRuntime
from kohort.node.runtimes.simulated import SimulatedRuntime


@pytest.fixture(params=["process", "simulated", "cri"])
async def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Runtime]:
    if request.param == "cri":
        async with containers(tmp_path) as made:
            yield made
        return
    made = ProcessRuntime(tmp_path / "state") if request.param == "process" else SimulatedRuntime()
    yield made
    await made.close(stop=True)


class FakeCri(CriRuntime):
    """Containers of a runtime in the test process."""

    fake: FakeRuntime


@contextlib.asynccontextmanager
async def containers(tmp_path: Path) -> AsyncIterator[Runtime]:
    async def no_secrets(namespace: str, name: str) -> None:
        return None

    fake = FakeRuntime(tmp_path / "s", events=True)
    await fake.start()
    client = CriClient(fake.socket)
    made = FakeCri(client, "node", "fake", "1", RegistryImages(client, no_secrets))
    made.fake = fake
    await made.instances()
    await made.prepare_pod(PodSandboxSpec("u1", "web", "default", log_directory=str(tmp_path)))
    try:
        yield made
    finally:
        await made.close(stop=True)
        await fake.stop()


def sleeping(tmp_path: Path, id: str = "u1_c_0") -> Launch:
    return Launch(id, ("sleep", "1000"), {"PATH": "/usr/bin:/bin"}, log=str(tmp_path / "log"))


async def ended(runtime: Runtime, id: str) -> Instance:
    async with asyncio.timeout(120):
        while True:
            found = (await runtime.instances())[id]
            if not found.running:
                return found
            await asyncio.sleep(0.01)


async def test_what_was_started_is_listed_until_it_is_removed(runtime: Runtime, tmp_path: Path) -> None:
    instance = await runtime.start(sleeping(tmp_path))
    assert instance.running and instance.pid and (await runtime.instances())[instance.id] == instance
    await runtime.stop(instance.id, grace=30.0)
    assert (await ended(runtime, instance.id)).exit_code == 128 + signal.SIGTERM
    await runtime.remove(instance.id)
    assert await runtime.instances() == {}


async def test_an_end_is_told_once(runtime: Runtime, tmp_path: Path) -> None:
    told: list[Instance] = []
    over = asyncio.Event()
    runtime.on_exit(lambda instance: (told.append(instance), over.set()))  # type: ignore[func-returns-value,arg-type]
    await runtime.start(sleeping(tmp_path))
    await runtime.stop("u1_c_0", grace=0.0)
    await asyncio.wait_for(over.wait(), 10)
    assert [(each.id, each.exit_code) for each in told] == [("u1_c_0", 137)]


async def test_a_command_inside_ends_with_its_code(runtime: Runtime, tmp_path: Path) -> None:
    if isinstance(runtime, FakeCri):
        pytest.skip("real runtimes have a streaming server: tests/containers/test_pods.py")
    await runtime.start(sleeping(tmp_path))
    session = await runtime.execute("u1_c_0", Launch("x", ("true",), {"PATH": "/usr/bin:/bin"}))
    async with asyncio.timeout(120):
        assert await session.read() == (ERROR, b"0")
    await session.close()


async def test_what_cannot_be_run_has_ended_and_says_why(runtime: Runtime, tmp_path: Path) -> None:
    if isinstance(runtime, SimulatedRuntime):
        runtime.broken["/no/such/program"] = "not found"
    if isinstance(runtime, FakeCri):
        runtime.fake.cannot_run["/no/such/program"] = "not found"
    found = await runtime.start(Launch("u1_c_0", ("/no/such/program",), log=str(tmp_path / "log")))
    assert (found.running, found.exit_code) == (False, 128) and "not found" in found.problem
    assert (await runtime.instances())["u1_c_0"] == found


async def test_stopping_or_removing_an_unknown_instance_is_not_an_error(runtime: Runtime, tmp_path: Path) -> None:
    await runtime.start(sleeping(tmp_path))
    await runtime.stop("u9_c_0", grace=30.0)
    await runtime.stop("u9_c_0", grace=0.0)
    await runtime.remove("u9_c_0")


def ignoring_signals(runtime: Runtime, tmp_path: Path) -> Launch:
    """An instance that only SIGKILL ends."""
    if isinstance(runtime, SimulatedRuntime):
        runtime.ignoring.add("c")
    if isinstance(runtime, FakeCri):
        runtime.fake.ignores_signals.add("c")
    script = f"trap '' TERM; touch {tmp_path}/trapped; while :; do sleep 1; done"
    return Launch("u1_c_0", ("sh", "-c", script), {"PATH": "/usr/bin:/bin"}, log=str(tmp_path / "log"))


async def started(runtime: Runtime, launch: Launch, tmp_path: Path) -> None:
    await runtime.start(launch)
    async with asyncio.timeout(120):
        while isinstance(runtime, ProcessRuntime) and not (tmp_path / "trapped").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_an_instance_that_ignores_the_signal_is_killed_after_its_grace(runtime: Runtime, tmp_path: Path) -> None:
    await started(runtime, ignoring_signals(runtime, tmp_path), tmp_path)
    async with asyncio.timeout(120):
        await runtime.stop("u1_c_0", grace=0.2)
        assert (await ended(runtime, "u1_c_0")).exit_code == 128 + signal.SIGKILL


async def test_a_second_stop_with_a_shorter_grace_takes_effect(runtime: Runtime, tmp_path: Path) -> None:
    await started(runtime, ignoring_signals(runtime, tmp_path), tmp_path)
    first = asyncio.create_task(runtime.stop("u1_c_0", grace=1000.0))
    await asyncio.sleep(0)
    async with asyncio.timeout(120):
        await runtime.stop("u1_c_0", grace=0.0)
        await first
    assert (await ended(runtime, "u1_c_0")).exit_code == 128 + signal.SIGKILL


async def test_an_instance_that_has_ended_can_be_stopped_again(runtime: Runtime, tmp_path: Path) -> None:
    await runtime.start(sleeping(tmp_path))
    async with asyncio.timeout(120):
        await runtime.stop("u1_c_0", grace=30.0)
        await runtime.stop("u1_c_0", grace=30.0)


async def test_the_stop_signal_of_a_launch_is_kept_for_the_next_agent(runtime: Runtime, tmp_path: Path) -> None:
    if isinstance(runtime, FakeCri):
        pytest.skip("container runtimes keep it in the configuration of the container: cri/test_configuration.py")
    launch = msgspec.structs.replace(sleeping(tmp_path), stop_signal="SIGRTMIN+3")
    await runtime.start(launch)
    assert (await runtime.instances())[launch.id].stop_signal == "SIGRTMIN+3"
    await runtime.stop(launch.id, 30.0, 37)
    assert (await ended(runtime, launch.id)).exit_code == 128 + 37
