"""How pods are ended, on virtual time."""

import asyncio
import json
import signal
from pathlib import Path

from tests.node.agent.node_bench import container, node

from kohort.kube.resources import PODS


async def test_deletion_is_polite_first_and_final_in_the_end(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create(terminationGracePeriodSeconds=20)
        bench.runtime.ignoring.add("_c_")
        await bench.until(lambda: bench.running() == ["c_0"])
        await bench.cluster.client.delete(PODS, "p", "default")
        await bench.until(lambda: bench.cluster.find(PODS, "p", "default") is None)
        assert bench.runtime.signals == [(f"{uid}_c_0", signal.SIGTERM), (f"{uid}_c_0", signal.SIGKILL)]
        assert bench.runtime.running() == [] and await bench.runtime.instances() == {}


async def test_all_of_the_grace_is_given_though_timestamps_know_whole_seconds_only(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(terminationGracePeriodSeconds=3)
        bench.runtime.ignoring.add("_c_")
        await bench.until(lambda: bench.running() == ["c_0"])
        await asyncio.sleep(0.9 - asyncio.get_running_loop().time() % 1.0 + 1.0)
        start = asyncio.get_running_loop().time()
        await bench.cluster.client.delete(PODS, "p", "default")
        await bench.until(lambda: bench.runtime.running() == [])
        assert asyncio.get_running_loop().time() - start >= 2.99


async def test_a_shorter_grace_is_honoured_while_waiting(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(terminationGracePeriodSeconds=3000)
        bench.runtime.ignoring.add("_c_")
        await bench.until(lambda: bench.running() == ["c_0"])
        start = asyncio.get_running_loop().time()
        await bench.cluster.client.delete(PODS, "p", "default")
        await bench.until(lambda: len(bench.runtime.signals) == 1)
        await bench.cluster.client.delete(PODS, "p", "default", grace_seconds=1)
        await bench.until(lambda: bench.cluster.find(PODS, "p", "default") is None)
        assert asyncio.get_running_loop().time() - start < 60


LONG = [container("c", lifecycle={"preStop": {"sleep": {"seconds": 1000}}})]


async def test_after_a_hook_that_took_all_the_time_there_is_a_little_more(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(terminationGracePeriodSeconds=4000, containers=LONG)
        bench.runtime.ignoring.add("_c_")
        await bench.until(lambda: bench.running() == ["c_0"])
        start = asyncio.get_running_loop().time()
        await bench.cluster.client.delete(PODS, "p", "default", grace_seconds=4)
        await bench.until(lambda: len(bench.runtime.signals) == 1)
        assert 3.9 < asyncio.get_running_loop().time() - start < 4.2
        await bench.until(lambda: bench.runtime.running() == [])
        assert 5.9 < asyncio.get_running_loop().time() - start < 6.3
        assert "FailedPreStopHook" in bench.events()


async def test_a_hook_does_not_delay_a_shorter_grace_period(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(terminationGracePeriodSeconds=4000, containers=LONG)
        await bench.until(lambda: bench.running() == ["c_0"])
        await bench.cluster.client.delete(PODS, "p", "default")
        await asyncio.sleep(5)
        start = asyncio.get_running_loop().time()
        await bench.cluster.client.delete(PODS, "p", "default", grace_seconds=0)
        await bench.until(lambda: bench.runtime.running() == [])
        assert asyncio.get_running_loop().time() - start < 1


def image_with_stop_signal(directory: Path, name: str) -> str:
    (directory / "rootfs").mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps({"config": {"StopSignal": name}}))
    return str(directory)


async def test_an_image_chooses_the_stop_signal_also_of_a_container_that_an_earlier_agent_has_started(
    tmp_path: Path,
) -> None:
    image = image_with_stop_signal(tmp_path / "image", "SIGRTMIN+3")
    async with node(tmp_path / "node") as bench:
        first = await bench.create("p", containers=[container("c") | {"image": image}])
        second = await bench.create("q", containers=[container("c") | {"image": image}])
        await bench.until(lambda: bench.phase("p") == bench.phase("q") == "Running")
        await bench.cluster.client.delete(PODS, "p", "default")
        await bench.until(lambda: bench.cluster.find(PODS, "p", "default") is None)
        await bench.crash()
        await bench.cluster.client.delete(PODS, "q", "default")
        await bench.restart("q")
        await bench.until(lambda: bench.cluster.find(PODS, "q", "default") is None)
        assert bench.runtime.signals == [(f"{first}_c_0", 37), (f"{second}_c_0", 37)]
