"""Parts of volumes in containers of a real runtime: hostile volumes, agents that were killed, pods that are deleted."""

from pathlib import Path

import pytest
from tests.containers.cluster import ContainerCluster, state_of, status_of
from tests.node.test_sub_paths import Race

from kohort.kube.resources import CONFIG_MAPS
from kohort.node.mount_table import mounts_below
from kohort.node.runtimes.interface import Launch, Mount
from kohort.node.sub_paths import bind_sub_paths
from kohort.objects.json_types import JsonObject

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]
MOUNT = {"name": "v", "mountPath": "/data"}


def host_volume(path: Path) -> list[JsonObject]:
    return [{"name": "v", "hostPath": {"path": str(path)}}]


async def test_containers_never_see_a_file_outside_of_a_volume_that_is_changed_meanwhile(
    cluster: ContainerCluster, tmp_path: Path
) -> None:
    race, names = Race(tmp_path), [f"c{number}" for number in range(12)]
    containers: list[JsonObject] = [
        {"name": name, "command": ["cat", "/data/name"], "volumeMounts": [{**MOUNT, "subPath": "part"}]}
        for name in names
    ]
    async with cluster.node():
        with race.swapped():
            await cluster.create("a", *containers, restartPolicy="Never", volumes=host_volume(race.volume))
            pod = await cluster.until("a", lambda pod: all(state_of(pod, name) for name in names))
            pod = await cluster.until(
                "a", lambda pod: sum("terminated" in state_of(pod, name) for name in names) >= 4, 120
            )
        ended = [name for name in names if "terminated" in state_of(pod, name)]
        assert {await cluster.log("a", name) for name in ended} == {"volume"}
        await cluster.delete("a")
        assert mounts_below(tmp_path / "node" / "pods") == [] and (race.outside / "name").read_text() == "MACHINE"


async def test_files_and_directories_are_mounted_and_nothing_stays_mounted_on_the_machine(
    cluster: ContainerCluster, tmp_path: Path
) -> None:
    words: JsonObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "words", "namespace": "default"},
        "data": {"key": "first"},
    }
    mounts = [
        {"name": "v", "mountPath": "/data", "subPathExpr": "of-$(WHO)/below"},
        {"name": "words", "mountPath": "/key", "subPath": "key"},
    ]
    (tmp_path / "volume").mkdir()
    async with cluster.node() as agent:
        await cluster.client.create(CONFIG_MAPS, words, "default")
        volumes = [*host_volume(tmp_path / "volume"), {"name": "words", "configMap": {"name": "words"}}]
        env = [{"name": "WHO", "value": "me"}]
        command = ["sh", "-c", "cat /key; trap 'exit 0' TERM; sleep 1000 & wait"]
        await cluster.run("a", {"command": command, "volumeMounts": mounts, "env": env}, volumes=volumes)
        assert await cluster.shell("a", "echo x > /data/f; cat /key") == "first"
        assert (tmp_path / "volume" / "of-me" / "below" / "f").read_text() == "x\n"
        assert mounts_below(agent.files.root / "pods") == []
        await cluster.delete("a")
        assert (tmp_path / "volume" / "of-me" / "below" / "f").read_text() == "x\n"


async def test_mounts_that_a_killed_agent_has_left_go_and_the_files_stay(
    cluster: ContainerCluster, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    (volume / "part").mkdir(parents=True)
    (volume / "part" / "file").write_text("kept")
    launch = Launch("u_c_0", ("x",), mounts=(Mount(str(volume), "/data", sub_path="part"),))
    container: JsonObject = {"volumeMounts": [{**MOUNT, "subPath": "part"}]}
    async with cluster.node(stop_pods=False) as agent:
        for name in ("stays", "goes"):
            before = await cluster.run(name, container, volumes=host_volume(volume))
            bind_sub_paths(launch, agent.files.sub_paths(before["metadata"]["uid"], "c"))
    assert len(mounts_below(agent.files.root / "pods")) == 2, "what an agent leaves that is killed during a start"
    async with cluster.node() as agent:

        async def nothing_is_mounted() -> bool:
            return mounts_below(agent.files.root / "pods") == []

        await cluster.until_true(nothing_is_mounted)
        after = await cluster.until("goes", lambda pod: status_of(pod)["ready"])
        assert status_of(after)["containerID"] == status_of(before)["containerID"]
        assert await cluster.shell("goes", "cat /data/file") == "kept", "the container has a mount of its own"
        bind_sub_paths(launch, agent.files.sub_paths(before["metadata"]["uid"], "c"))
        await cluster.delete("goes")
        assert mounts_below(agent.files.root / "pods") == [] and not agent.files.pod(before["metadata"]["uid"]).exists()
        assert (volume / "part" / "file").read_text() == "kept"
