"""Agents and runtimes that are killed, sandboxes that end, pods that others have made."""

import asyncio
import json
import os
import signal
import tempfile
from pathlib import Path

import pytest
from tests.containers.cluster import NODE, ContainerCluster, container_cluster, is_ready, state_of, status_of
from tests.containers.containerd import Containerd, image_archive, pause_archive
from tests.containers.runtime import SANDBOX_IMAGE, RuntimeUnderTest
from tools.container_packages import missing as missing_packages
from tools.container_runtimes import home

from kohort.kube.resources import CONFIG_MAPS, NODES, PODS
from kohort.node import stale_state_cleanup
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient
from kohort.node.runtimes.cri.configuration import POD_UID
from kohort.node.runtimes.cri.discovery import CannotUseRuntime, examine
from kohort.node.runtimes.cri.runtime import CriRuntime

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]
NEWER = "1.7.35"
COUNT = ["sh", "-c", "n=0; while :; do echo $n; n=$((n+1)); sleep 0.05; done"]


async def test_an_agent_takes_over_what_its_predecessor_has_started(cluster: ContainerCluster) -> None:
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    async with cluster.node(stop_pods=False):
        before = await cluster.run("a", {"command": COUNT, "readinessProbe": probe})
        await cluster.create("b", {"command": ["sh", "-c", "sleep 2; exit 5"]}, restartPolicy="Never")
        await cluster.until("b", lambda pod: "running" in state_of(pod))
    await asyncio.sleep(2.5)  # "b" ends while no agent runs
    async with cluster.node():
        pod = await cluster.until("b", lambda pod: pod["status"].get("phase") == "Failed")
        assert state_of(pod, "c")["terminated"]["exitCode"] == 5
        after = await cluster.until("a", lambda pod: status_of(pod)["ready"])
        assert status_of(after)["containerID"] == status_of(before)["containerID"]
        assert status_of(after)["restartCount"] == 0 and after["status"]["podIP"] == before["status"]["podIP"]
        assert await cluster.shell("a", "echo inside") == "inside\n"
        numbers = [int(line) for line in (await cluster.log("a")).split()]
        assert numbers == list(range(len(numbers)))


async def test_commands_are_run_in_containers_of_a_predecessor_whatever_their_image_says(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    """That the container is not root's is known from the image alone; what its environment was made of is gone."""
    runtime.load(image_archive("kohort.test/user:1", command=["sleep", "infinity"], user="1234"))
    values = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values"}, "data": {"a": "b"}}
    await cluster.client.create(CONFIG_MAPS, values, "default")
    probe = {"exec": {"command": ["test", "!", "-e", "/tmp/stop"]}, "periodSeconds": 1, "failureThreshold": 1}
    context = {"runAsNonRoot": True}
    wanted = {"image": "kohort.test/user:1", "imagePullPolicy": "Never", "readinessProbe": probe}
    async with cluster.node(stop_pods=False):
        await cluster.run("image-user", wanted, securityContext=context)
        await cluster.run("lost-values", {"readinessProbe": probe, "envFrom": [{"configMapRef": {"name": "values"}}]})
    await cluster.client.delete(CONFIG_MAPS, "values", "default")
    async with cluster.node():
        for name in ("image-user", "lost-values"):
            await cluster.until(name, is_ready)
            await cluster.shell(name, "touch /tmp/stop")
            await cluster.until(name, lambda pod: not is_ready(pod))


async def test_pods_that_were_deleted_without_an_agent_are_removed(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    async with cluster.node(stop_pods=False):
        await cluster.run("a")
    await cluster.client.delete(PODS, "a", "default", grace_seconds=0)
    async with cluster.node():

        async def nothing_is_left() -> bool:
            return runtime.container_ids() == []

        await cluster.until_true(nothing_is_left)


async def test_the_runtime_is_killed_and_nothing_restarts(cluster: ContainerCluster, runtime: RuntimeUnderTest) -> None:
    async def not_ready() -> bool:
        return not await cluster.node_is_ready()

    async with cluster.node():
        before = await cluster.run("a", {"command": COUNT})
        await cluster.create("b", {"command": ["sh", "-c", "sleep 3; exit 6"]}, restartPolicy="Never")
        await cluster.until("b", lambda pod: "running" in state_of(pod))
        runtime.kill()
        try:
            await cluster.until_true(not_ready)
            await asyncio.sleep(3)  # "b" ends meanwhile
        finally:
            runtime.start()
        pod = await cluster.until("b", lambda pod: pod["status"].get("phase") == "Failed")
        code = state_of(pod)["terminated"]["exitCode"]
        assert code in (6, 255), "255 is what containerd says of an end that it has missed, at times"
        await cluster.until_true(cluster.node_is_ready)
        after = await cluster.client.get(PODS, "a", "default")
        assert status_of(after)["containerID"] == status_of(before)["containerID"]
        assert status_of(after)["restartCount"] == 0 and "running" in state_of(after)
        numbers = [int(line) for line in (await cluster.log("a")).split()]
        assert numbers == list(range(len(numbers))), "output was lost"


async def test_output_waits_for_a_runtime_that_is_away_however_much_it_is(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    """Ten times what a pipe holds. A container that waits for its reader continues where it was."""
    lines = 50_000
    script = f"while [ ! -e /tmp/go ]; do sleep 0.1; done; seq 0 {lines - 1}; echo written > /tmp/done; sleep 1000"
    async with cluster.node():
        before = await cluster.run("a", {"command": ["sh", "-c", f"(sleep 3; touch /tmp/go) & {script}"]})
        runtime.kill()
        await asyncio.sleep(5)  # the container begins to write meanwhile
        runtime.start()
        await cluster.until_logged("a", f"\n{lines - 1}\n")
        assert [int(line) for line in (await cluster.log("a")).split()] == list(range(lines))
        after = await cluster.client.get(PODS, "a", "default")
        assert status_of(after)["containerID"] == status_of(before)["containerID"]


async def test_exec_probes_are_left_out_while_the_runtime_is_away(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1}
    async with cluster.node():
        before = await cluster.run("a", {"livenessProbe": probe, "readinessProbe": probe})

        async def errored() -> bool:
            found = [message for reason, message in await cluster.events("a") if reason == "Unhealthy"]
            return {"Liveness", "Readiness"} <= {each.split()[0] for each in found if "probe errored" in each}

        runtime.kill()
        try:
            await cluster.until_true(errored)
        finally:
            runtime.start()
        await cluster.until_true(cluster.node_is_ready)
        assert not any("probe failed" in message for _, message in await cluster.events("a"))
        after = await cluster.client.get(PODS, "a", "default")
        assert status_of(after)["containerID"] == status_of(before)["containerID"] and status_of(after)["ready"]


async def test_an_update_of_containerd_is_noticed_while_the_agent_runs(tmp_path: Path) -> None:
    """Debian's containerd has no events, 1.7 has them."""
    if reason := missing_packages():
        pytest.skip(reason)
    newer = home("containerd", NEWER)
    if not newer.is_dir():
        pytest.skip(f"python -m tools.container_runtimes containerd {NEWER} compiles what this test updates to")
    with tempfile.TemporaryDirectory(prefix="kohort-") as directory:  # paths of sockets must be short
        runtime = Containerd(Path(directory))
        try:
            runtime.start()
            runtime.load(pause_archive())
            runtime.load(image_archive("kohort.test/busybox:1"))
            place = tmp_path / "node"
            place.mkdir(mode=0o700)
            async with container_cluster(runtime.socket, place, "kohort.test/busybox:1") as cluster:
                await _updated(cluster, runtime, newer)
        finally:
            runtime.stop()


async def _updated(cluster: ContainerCluster, runtime: Containerd, newer: Path) -> None:
    async def version() -> str:
        node = await cluster.client.get(NODES, NODE)
        return str(node["status"]["nodeInfo"]["containerRuntimeVersion"])

    async def is_updated() -> bool:
        return NEWER in await version()

    async def is_as_before() -> bool:
        return NEWER not in await version()

    async with cluster.node() as agent:
        found = agent.runtime
        assert isinstance(found, CriRuntime)

        async def has_events() -> bool:
            return found.has_events

        before = await cluster.run("a", {"command": COUNT})
        had_events = found.has_events
        runtime.kill()
        runtime.programs = newer
        runtime.start()
        await cluster.until_true(is_updated)
        await cluster.until_true(has_events)
        after = await cluster.client.get(PODS, "a", "default")
        assert status_of(after)["containerID"] == status_of(before)["containerID"]
        await cluster.run("b", {"command": COUNT})
        runtime.kill()
        runtime.programs = None
        runtime.start()
        await cluster.until_true(is_as_before)
        assert found.has_events == had_events


async def test_a_pod_whose_sandbox_ends_starts_again_with_its_init_containers(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    mounts = [{"name": "v", "mountPath": "/data"}]
    init = {
        "name": "init",
        "image": cluster.image,
        "command": ["sh", "-c", "echo x >> /data/inits"],
        "volumeMounts": mounts,
    }
    async with cluster.node():
        before = await cluster.run(
            "a", {"volumeMounts": mounts}, initContainers=[init], volumes=[{"name": "v", "emptyDir": {}}]
        )
        await end_sandbox(runtime.socket, before["metadata"]["uid"])
        await cluster.until_event("a", "SandboxChanged")
        after = await cluster.until(
            "a", lambda pod: status_of(pod).get("restartCount") == 1 and status_of(pod).get("ready", False)
        )
        assert status_of(after)["containerID"] != status_of(before)["containerID"]
        assert await cluster.shell("a", "cat /data/inits") == "x\nx\n"


async def test_a_pod_that_does_not_restart_ends_with_its_sandbox(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    async with cluster.node():
        before = await cluster.run("a", restartPolicy="Never")
        await end_sandbox(runtime.socket, before["metadata"]["uid"])
        after = await cluster.until("a", lambda pod: pod["status"]["phase"] == "Failed")
        assert state_of(after)["terminated"]["exitCode"] == 137
        assert (status_of(after)["restartCount"], status_of(after)["containerID"]) == (
            0,
            status_of(before)["containerID"],
        )


async def test_a_sandbox_that_ends_at_once_is_made_again_with_pauses(tmp_path: Path) -> None:
    if reason := missing_packages():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="kohort-") as directory:  # paths of sockets must be short
        runtime = Containerd(Path(directory))
        try:
            runtime.start()
            runtime.load(pause_archive("/bin/true"))
            runtime.load(image_archive("kohort.test/busybox:1"))
            place = tmp_path / "node"
            place.mkdir(mode=0o700)
            made = container_cluster(runtime.socket, place, "kohort.test/busybox:1")
            async with made as cluster, cluster.node():
                await cluster.create("a")
                message = await cluster.until_event("a", "BackOff")
                assert "has ended 2 times" in message and SANDBOX_IMAGE in message
                await cluster.delete("a")
            await stale_state_cleanup.end(place)
        finally:
            runtime.stop()


async def end_sandbox(socket: Path, uid: str) -> None:
    """By the end of its process or, where the runtime runs none for it, by a call as `crictl stopp` makes it."""
    client = CriClient(socket)
    try:
        labels = cri.PodSandboxFilter(label_selector={POD_UID: uid})
        (found,) = (await client.call(cri.LIST_POD_SANDBOX, cri.ListPodSandboxRequest(labels))).items
        status = await client.call(cri.POD_SANDBOX_STATUS, cri.PodSandboxStatusRequest(found.id, True))
        if pid := json.loads(status.info["info"]).get("pid"):
            os.kill(pid, signal.SIGKILL)
        else:
            await client.call(cri.STOP_POD_SANDBOX, cri.StopPodSandboxRequest(found.id))
    finally:
        await client.close()


async def test_a_runtime_with_pods_of_others_is_refused(cluster: ContainerCluster, runtime: RuntimeUnderTest) -> None:
    client = CriClient(runtime.socket)
    labels = {"io.kubernetes.pod.uid": "u", "io.kubernetes.pod.name": "p", "io.kubernetes.pod.namespace": "kube-system"}
    options = cri.LinuxSandboxSecurityContext(cri.NamespaceOption(cri.NamespaceMode.NODE, cri.NamespaceMode.CONTAINER))
    config = cri.PodSandboxConfig(
        cri.PodSandboxMetadata("p", "u", "kube-system"), labels=labels, linux=cri.LinuxPodSandboxConfig("", options)
    )
    id = (await client.call(cri.RUN_POD_SANDBOX, cri.RunPodSandboxRequest(config))).pod_sandbox_id
    try:
        with pytest.raises(CannotUseRuntime, match="kube-system/p"):
            await examine(runtime.socket)
        assert (await examine(runtime.socket, share=True)).name == runtime.name
    finally:
        await client.call(cri.STOP_POD_SANDBOX, cri.StopPodSandboxRequest(id))
        await client.call(cri.REMOVE_POD_SANDBOX, cri.RemovePodSandboxRequest(id))
        await client.close()
