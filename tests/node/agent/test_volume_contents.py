"""What volumes contain while time passes."""

import asyncio
from pathlib import Path

from tests.node.agent.node_bench import container, node

from kohort.kube.resources import CONFIG_MAPS, SERVICE_ACCOUNTS
from kohort.objects.json_types import JsonObject


async def test_a_token_is_renewed_before_it_ends(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        account: JsonObject = {"metadata": {"name": "mine", "namespace": "default"}}
        await bench.cluster.client.create(SERVICE_ACCOUNTS, account, "default")
        sources = [{"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}]
        volumes = [{"name": "v", "projected": {"sources": sources}}]
        uid = await bench.create("p", volumes=volumes, serviceAccountName="mine")
        await bench.until(lambda: bench.phase() == "Running")
        token = tmp_path / "pods" / uid / "volumes" / "v" / "token"
        first = token.read_text()
        await asyncio.sleep(400)
        assert token.read_text() == first
        await asyncio.sleep(150)
        assert token.read_text() != first, "four fifths of its time are over"


async def test_content_that_is_gone_does_not_stop_pods_that_have_it(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        settings: JsonObject = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "1"}}
        await bench.cluster.client.create(CONFIG_MAPS, settings, "default")
        mounted = container("c", volumeMounts=[{"name": "v", "mountPath": "/run/v"}])
        volumes = [{"name": "v", "configMap": {"name": "settings"}}]
        uid = await bench.create("p", containers=[mounted], volumes=volumes)
        await bench.until(lambda: bench.running() == ["c_0"])
        await bench.cluster.client.delete(CONFIG_MAPS, "settings", "default")
        await bench.until(lambda: "FailedMount" in bench.events())
        bench.runtime.end(f"{uid}_c_0", 1)
        await bench.until(lambda: bench.running() == ["c_1"])
        assert (tmp_path / "pods" / uid / "volumes" / "v" / "a").read_text() == "1"
        await bench.create("late", containers=[mounted], volumes=volumes)
        await asyncio.sleep(60)
        assert bench.status(name="late")["state"] == {"waiting": {"reason": "ContainerCreating"}}
        await bench.cluster.client.create(CONFIG_MAPS, settings, "default")
        await bench.until(lambda: bench.phase("late") == "Running")


async def test_a_path_that_is_none_is_reported(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(volumes=[{"name": "v", "hostPath": {"path": "/x\0y", "type": "DirectoryOrCreate"}}])
        await bench.until(lambda: any("embedded null" in each for each in bench.said()))
        assert bench.status()["state"] == {"waiting": {"reason": "ContainerCreating"}}
