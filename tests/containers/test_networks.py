"""Networks of pods in a container runtime: the CNI plugin, addresses, services' names, host network."""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from tests.containers.cluster import NODE, ContainerCluster, container_cluster, is_ready
from tests.containers.runtime import RuntimeUnderTest

from kohort.node.runtimes.cri import cni_installation as cni
from kohort.node.runtimes.cri.discovery import CannotUseRuntime, examine
from kohort.node.runtimes.cri.leftover_sandboxes import end_sandboxes

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]
SERVE = "mkdir -p /www; echo answer > /www/index.html; exec httpd -f -p 8080 -h /www"


async def test_pods_have_addresses_of_the_node_and_reach_each_other(cluster: ContainerCluster) -> None:
    async with cluster.node() as agent:
        server = await cluster.run("server", {"command": ["sh", "-c", SERVE]})
        await cluster.run("client")
        address = server["status"]["podIP"]
        assert address.startswith(("198.18.", "198.19."))
        assert f"inet {address}/32" in await cluster.shell("server", "ip address show eth0")
        assert "UP" in await cluster.shell("client", "ip link show lo")
        fetch = f"echo 'GET / HTTP/1.0' | nc {address} 8080"
        assert "answer\n" in await cluster.shell("client", f"until {fetch}; do sleep 0.1; done")
        record = agent.pods.find("default", "server")
        assert record is not None
        reader, writer = await agent.network.connect(record, 8080)  # as port-forward does
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 10)).endswith(b"answer\n")
        writer.close()


async def test_a_pod_on_the_network_of_the_machine(cluster: ContainerCluster) -> None:
    async with cluster.node() as agent:
        pod = await cluster.run("a", hostNetwork=True)
        assert pod["status"]["podIP"] == agent.state.machine.address
        own = os.readlink("/proc/self/ns/net")
        assert (await cluster.shell("a", "readlink /proc/self/ns/net")).strip() == own


async def test_a_forwarded_port_never_leads_to_the_machine(cluster: ContainerCluster) -> None:
    """Not for a pod whose network is not there yet, nor for one that has ended or that the node has rejected."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        async with cluster.node() as agent:
            await cluster.create("waits", volumes=[{"name": "v", "configMap": {"name": "none"}}])
            await cluster.until_event("waits", "FailedMount")
            await cluster.create("ended", {"command": ["true"]}, restartPolicy="Never")
            await cluster.until("ended", lambda pod: pod["status"].get("phase") == "Succeeded")
            await cluster.create("rejected", {"resources": {"requests": {"cpu": "10000"}}})
            await cluster.until("rejected", lambda pod: pod["status"].get("phase") == "Failed")
            await cluster.run("runs")
            for name in ("rejected", "waits", "ended", "runs"):
                record = agent.pods.find("default", name)
                assert record is not None
                with pytest.raises(OSError, match=r"refused|has no network|No such file"):
                    await agent.network.connect(record, port)


async def test_two_pods_listen_on_the_same_port(cluster: ContainerCluster) -> None:
    async with cluster.node():
        listens = {"command": ["sh", "-c", SERVE], "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}}
        await cluster.create("a", listens)
        await cluster.create("b", listens)
        one, two = await cluster.until("a", is_ready), await cluster.until("b", is_ready)
        assert one["status"]["podIP"] != two["status"]["podIP"]


async def test_a_network_that_cannot_be_made_is_tried_again_and_leaves_no_sandbox(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, tmp_path: Path
) -> None:
    async with cluster.node() as agent:
        # Replaced in one step: CRI-O watches the folder, and has no network while the plugin is missing.
        plugin = runtime.cni_bin / cni.PLUGIN
        works, failing = plugin.with_name("works"), tmp_path / "failing"
        shutil.copy2(plugin, works)
        failing.write_text(
            f"""#!/bin/sh
[ $CNI_COMMAND = ADD ] || exec {works}
echo '{{"code": 7, "msg": "no network today"}}'
exit 1
"""
        )
        failing.chmod(0o755)
        shutil.move(failing, plugin)
        await cluster.create("a")
        assert "no network today" in await cluster.until_event("a", "FailedCreatePodSandBox")
        assert runtime.container_ids() == []
        shutil.move(works, plugin)
        record = agent.pods.find("default", "a")
        assert record is not None
        record.wake()
        await cluster.until("a", is_ready)


def call_plugin(runtime: RuntimeUnderTest, command: str, **variables: str) -> tuple[int, dict[str, object]]:
    environment = {"CNI_COMMAND": command, "CNI_IFNAME": "eth0", "CNI_CONTAINERID": "x", **variables}
    config = json.dumps({"cniVersion": "0.4.0", "name": "kohort", "type": "kohort"})
    plugin = str(runtime.cni_bin / cni.PLUGIN)
    done = subprocess.run([plugin], input=config, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout or "{}")


async def test_networks_of_unknown_pods_can_be_removed_any_number_of_times(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    async with cluster.node():
        for namespace in ("", "/no/such/namespace", "/proc/self/ns/net"):
            for _ in range(2):
                arguments = {"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_UID=unknown", "CNI_NETNS": namespace}
                assert await asyncio.to_thread(call_plugin, runtime, "DEL", **arguments) == (0, {})
        code, answer = await asyncio.to_thread(call_plugin, runtime, "VERSION")
        assert code == 0 and "0.4.0" in str(answer["supportedVersions"])
        code, answer = await asyncio.to_thread(
            call_plugin, runtime, "ADD", CNI_ARGS="K8S_POD_UID=unknown", CNI_NETNS="/no/such/namespace"
        )
        assert code == 1 and "no node agent has this pod" in str(answer["msg"])


async def test_without_an_agent_the_plugin_asks_to_try_later(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    async with cluster.node(stop_pods=False):
        await cluster.run("a")
    code, answer = await asyncio.to_thread(call_plugin, runtime, "DEL", CNI_ARGS="K8S_POD_UID=u")
    assert (code, answer["code"]) == (1, cni.TRY_LATER)
    assert await asyncio.to_thread(call_plugin, runtime, "CHECK", CNI_ARGS="K8S_POD_UID=u") == (0, {})


async def test_a_network_that_takes_the_place_of_ours_makes_the_node_not_ready(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    async def says_so() -> bool:
        return "00-other.conflist" in cluster.agent.state.runtime_problem

    async with cluster.node():
        await cluster.run("a")
        other = runtime.cni_conf / "00-other.conflist"
        other.write_text('{"cniVersion": "0.4.0", "name": "other", "plugins": [{"type": "ptp"}]}')
        try:
            await cluster.until_true(says_so)
        finally:
            other.unlink()
        await cluster.until_true(cluster.node_is_ready)


def cni_files(runtime: RuntimeUnderTest) -> list[str]:
    return sorted(each.name for place in (runtime.cni_bin, runtime.cni_conf) for each in place.iterdir())


async def test_an_agent_without_pods_leaves_nothing_in_the_folders_of_the_runtime(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, tmp_path: Path
) -> None:
    async with cluster.node():
        assert cni_files(runtime) == ["10-kohort.conflist", "kohort", "loopback"]
        await cluster.run("a")
    assert cni_files(runtime) == ["10-kohort.conflist", "kohort", "loopback"], "the stopped pod is there still"
    await end_sandboxes(tmp_path / "node")
    assert cni_files(runtime) == [] and runtime.container_ids() == []
    async with cluster.node():
        await cluster.until("a", is_ready)
        await cluster.delete("a")
    assert cni_files(runtime) == []


@pytest.mark.parametrize("first", [0, 1])
async def test_two_clusters_share_a_runtime_and_either_may_go_first(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, tmp_path: Path, first: int
) -> None:
    place = tmp_path / "other"
    place.mkdir(mode=0o700)
    async with container_cluster(runtime.socket, place, cluster.image) as second:
        with_nodes = [contextlib.AsyncExitStack(), contextlib.AsyncExitStack()]
        try:
            await with_nodes[0].enter_async_context(cluster.node())
            with pytest.raises(CannotUseRuntime, match=f"another kohort, whose node has the directory {tmp_path}/node"):
                await examine(runtime.socket, place)
            cluster.shares = second.shares = True
            await with_nodes[1].enter_async_context(second.node())
            for each in (cluster, second):
                await each.run("a")
                await each.delete("a")
                await each.run("b")
            await with_nodes[first].aclose()
            await end_sandboxes((tmp_path / "node", place)[first])
            left = (second, cluster)[first]
            await left.run("c")
            for name in ("b", "c"):
                await left.delete(name)
        finally:
            for node in with_nodes:
                await node.aclose()
        await end_sandboxes(place)
    await end_sandboxes(tmp_path / "node")
    assert runtime.container_ids() == [] and cni_files(runtime) == []


async def test_pods_of_another_kohort_keep_a_runtime_from_being_used(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, tmp_path: Path
) -> None:
    async with cluster.node(stop_pods=False):
        await cluster.run("a")
    with pytest.raises(CannotUseRuntime, match=r"the pod default/a of another kohort.*--share-runtime"):
        await examine(runtime.socket, tmp_path / "other")
    assert (await examine(runtime.socket, tmp_path / "node")).name == runtime.name


async def test_a_network_of_others_is_left_alone(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, tmp_path: Path
) -> None:
    """The runtime has another network: pods use that of the machine."""
    other = runtime.cni_conf / "00-other.conflist"
    other.write_text('{"cniVersion": "0.4.0", "name": "other", "plugins": [{"type": "ptp"}]}')
    try:
        async with cluster.node():
            pod = await cluster.run("a")
            assert (await cluster.shell("a", "readlink /proc/self/ns/net")).strip() == os.readlink("/proc/self/ns/net")
            assert pod["status"]["podIP"]
            assert f"another network in {other}" in await cluster.until_event(NODE, "NetworkShared")
        assert "other" in other.read_text()
    finally:
        other.unlink()
