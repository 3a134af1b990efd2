"""Devices of a plugin in containers of a runtime: the container sees what the plugin said."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.containers.cluster import ContainerCluster, status_of
from tests.node.devices.fake_plugin import FakePlugin

from kohort.kube.resources import NODES

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]
GPU = "example.com/gpu"
WANTS_TWO = {"resources": {"limits": {GPU: "2"}}, "env": [{"name": "OWN", "value": "kept"}]}


@pytest.fixture
async def gpus(cluster: ContainerCluster, tmp_path: Path) -> AsyncIterator[FakePlugin]:
    """Registered once an agent serves the folder; without names in CDI, which containerd 1.6 does not know."""
    plugin = FakePlugin(tmp_path / "plugins", cdi=False)
    plugin.announce("gpu-0", "gpu-1", "gpu-2")
    yield plugin
    await plugin.stop()


async def offered(cluster: ContainerCluster, count: str) -> None:
    async def holds() -> bool:
        return bool((await cluster.client.get(NODES, "containers"))["status"]["allocatable"].get(GPU) == count)

    await cluster.until_true(holds)


async def test_a_container_has_the_devices_of_its_plugin(
    cluster: ContainerCluster, gpus: FakePlugin, tmp_path: Path
) -> None:
    plugins = tmp_path / "plugins"
    async with cluster.node(device_plugins=plugins, stop_pods=False):
        await gpus.start()
        await gpus.register()
        await offered(cluster, "3")
        (plugins / "driver.txt").write_text("of the vendor")
        await cluster.run("a", WANTS_TWO)
        assert await cluster.shell("a", "echo $EXAMPLE_VISIBLE_DEVICES $OWN") == "gpu-0,gpu-1 kept\n"
        # Device files of the machine under the plugin's names, with their numbers; and a folder, read-only.
        number = os.stat("/dev/null").st_rdev
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
        expected = f"{os.major(number):x} {os.minor(number):x}\n"
        assert await cluster.shell("a", "stat -c '%t %T' /dev/gpu-0") == expected
        assert await cluster.shell("a", "echo lost > /dev/gpu-1; test -e /dev/gpu-2 || echo no") == "no\n"
        assert await cluster.shell("a", "cat /usr/lib/example/driver.txt") == "of the vendor"
        code, _, problem = await cluster.execute("a", "touch", "/usr/lib/example/x")
        assert code != 0 and "Read-only" in problem
        await cluster.create("b", WANTS_TWO)
        failed = await cluster.until("b", lambda pod: pod["status"].get("phase") == "Failed")
        assert failed["status"]["reason"] == "UnexpectedAdmissionError"
    await gpus.stop()

    # The next agent leaves the container alone, and gives the same devices to its next start.
    async with cluster.node(device_plugins=plugins):
        again = FakePlugin(plugins, cdi=False)
        again.announce("gpu-0", "gpu-1", "gpu-2")
        await again.start()
        await again.register()
        await offered(cluster, "3")
        assert await cluster.shell("a", "kill 1; echo done") == "done\n"
        await cluster.until("a", lambda pod: status_of(pod)["restartCount"] == 1 and status_of(pod)["ready"])
        assert await cluster.shell("a", "echo $EXAMPLE_VISIBLE_DEVICES") == "gpu-0,gpu-1\n"
        assert again.allocated == []
        await cluster.delete("a")
        await again.stop()
