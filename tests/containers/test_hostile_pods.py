"""Pods of a user who may write anything into a namespace: others on the node, and the machine, do not notice."""

import os
from pathlib import Path

import pytest
from tests.containers.cluster import NODE, ContainerCluster, is_ready, state_of

from kohort.kube.resources import CONFIG_MAPS, PODS
from kohort.objects.json_types import JsonObject

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]
VICTIM = {"command": ["sh", "-c", "echo said; exit 3"]}


async def victim_is_served(cluster: ContainerCluster) -> None:
    """A pod of another user starts, ends, and its end is seen."""
    await cluster.create("victim", VICTIM, restartPolicy="Never")
    pod = await cluster.until("victim", lambda pod: pod["status"].get("phase") == "Failed")
    assert state_of(pod)["terminated"]["exitCode"] == 3
    await cluster.until_logged("victim", "said")
    await cluster.delete("victim")


async def test_an_environment_that_does_not_fit_into_the_status_of_a_container(cluster: ContainerCluster) -> None:
    """The runtime repeats it with every `<` as six characters."""
    data = {f"V{number}": "<" * (100 << 10) for number in range(9)}
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "large"}, "data": data}, "default")
    sources = [{"prefix": f"P{number}", "configMapRef": {"name": "large"}} for number in range(2)]
    async with cluster.node():
        await cluster.create("a", {"envFrom": sources, "command": ["sh", "-c", "exit 4"]}, restartPolicy="Never")
        pod = await cluster.until("a", lambda pod: pod["status"].get("phase") == "Failed")
        assert state_of(pod)["terminated"]["exitCode"] == 4
        await victim_is_served(cluster)
    async with cluster.node():  # and an agent that finds such a container
        await victim_is_served(cluster)
        await cluster.delete("a")


async def test_labels_and_annotations_of_every_size(cluster: ContainerCluster) -> None:
    labels = {f"l{number}.example/{'n' * 50}{number}": "v" * 63 for number in range(3000)}
    async with cluster.node():
        pod: JsonObject = {
            "metadata": {"name": "a", "labels": labels, "annotations": {"large": "x" * (250 << 10)}},
            "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": cluster.image}]},
        }
        pod["spec"]["automountServiceAccountToken"] = False
        await cluster.client.create(PODS, pod, "default")
        await cluster.until("a", is_ready)
        await victim_is_served(cluster)
        await cluster.delete("a")


def machine_files() -> tuple[int, bytes]:
    motd = Path("/etc/motd")
    return os.stat("/dev/null").st_rdev, motd.read_bytes() if motd.exists() else b""


def has_ended_or_waits(pod: JsonObject) -> bool:
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    containers = pod["status"].get("containerStatuses") or []
    return ended or any("message" in each["state"].get("waiting", {}) for each in containers)


@pytest.mark.parametrize("path", ["/", "relative", "../../../etc/motd", "/proc/1/comm", "/etc", "/dev/null", "/a/../b"])
async def test_termination_messages_at_odd_places(cluster: ContainerCluster, path: str) -> None:
    before = machine_files()
    async with cluster.node():
        await cluster.create("a", {"terminationMessagePath": path, "command": ["true"]}, restartPolicy="Never")
        await cluster.until("a", has_ended_or_waits)
        await victim_is_served(cluster)
        await cluster.delete("a")
    assert machine_files() == before


async def test_a_termination_message_is_cut_whatever_the_container_makes_of_it(cluster: ContainerCluster) -> None:
    cases = {
        "large": "yes | head -c 50000000 > /dev/termination-log",
        "link": "rm -f /dev/termination-log; ln -sf /etc/passwd /dev/termination-log",
        "pipe": "rm -f /dev/termination-log; mkfifo /dev/termination-log",
        "bytes": "printf '\\377\\000\\033[31m' > /dev/termination-log",
    }
    async with cluster.node():
        found = {}
        for name, script in cases.items():
            await cluster.create(name, {"command": ["sh", "-c", f"{script}; exit 0"]}, restartPolicy="Never")
            pod = await cluster.until(name, lambda pod: pod["status"].get("phase") == "Succeeded")
            found[name] = state_of(pod)["terminated"].get("message", "")
        assert (len(found["large"]), found["link"], found["pipe"]) == (4096, "", "")
        assert found["bytes"].endswith("[31m")
