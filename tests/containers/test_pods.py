"""Pods in a container runtime: images, commands, logs, exit codes, exec, restarts."""

import asyncio
from pathlib import Path

import pytest
from tests.containers.cluster import ContainerCluster, is_ready, state_of, status_of
from tests.containers.containerd import image_archive
from tests.containers.runtime import SANDBOX_IMAGE, RuntimeUnderTest

from kohort.kube.resources import RUNTIME_CLASSES, SECRETS
from kohort.node import stale_state_cleanup
from kohort.node.mount_table import mounts_below
from kohort.node.runtimes.cri import image_removal
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient
from kohort.node.runtimes.cri.discovery import examine
from kohort.node.runtimes.interface import STDIN, STDOUT
from kohort.objects.json_types import JsonObject

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]


async def test_a_pod_runs_from_an_image_of_a_registry_and_leaves_nothing(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    async with cluster.node():
        pod = await cluster.run("a", {"command": ["sh", "-c", "echo hello; sleep 1000"]})
        found = status_of(pod)
        assert found["containerID"].startswith(f"{runtime.name}://")
        assert found["imageID"].startswith(cluster.image.partition(":1")[0]) and "@sha256:" in found["imageID"]
        assert await cluster.until_logged("a", "hello") == "hello\n"
        assert await cluster.shell("a", "cat /mark; hostname") == "onea\n"
        reasons = [reason for reason, _ in await cluster.events("a")]
        assert reasons[-2:] == ["Created", "Started"]
        await cluster.delete("a")
    assert runtime.container_ids() == []


async def test_command_and_arguments_replace_those_of_the_image(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, registry: str
) -> None:
    archive = image_archive(
        "x:1",
        entrypoint=["/bin/echo", "entry"],
        command=["default"],
        env=["PATH=/bin", "FROM_IMAGE=yes", "BOTH=image"],
        directory="/data",
    )
    image = runtime.push(registry, "test/entry:1", archive)
    cases: dict[str, tuple[dict[str, object], str]] = {
        "neither": ({}, "entry default\n"),
        "args": ({"args": ["own"]}, "entry own\n"),
        "command": ({"command": ["/bin/echo", "only"]}, "only\n"),
        "both": (
            {"command": ["/bin/echo", "one"], "args": ["$(WORD)"], "env": [{"name": "WORD", "value": "two"}]},
            "one two\n",
        ),
        "place": ({"command": ["/bin/pwd"]}, "/data\n"),
        "directory": ({"command": ["/bin/pwd"], "workingDir": "/tmp"}, "/tmp\n"),
        "env": (
            {"command": ["/bin/sh", "-c", "echo $FROM_IMAGE $BOTH"], "env": [{"name": "BOTH", "value": "pod"}]},
            "yes pod\n",
        ),
    }
    async with cluster.node():
        for name, (container, _) in cases.items():
            await cluster.create(name, {"image": image, **container}, restartPolicy="Never")
        for name, (_, expected) in cases.items():
            await cluster.until(name, lambda pod: pod["status"].get("phase") == "Succeeded")
            assert await cluster.log(name) == expected, name


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        (["true"], 0, "Completed"),
        (["sh", "-c", "exit 7"], 7, "Error"),
        (["sh", "-c", "sleep 9 & kill -9 $!; wait $!"], 137, "Error"),
    ],
)
async def test_exit_codes(cluster: ContainerCluster, command: list[str], code: int, reason: str) -> None:
    async with cluster.node():
        await cluster.create("a", {"command": command}, restartPolicy="Never")
        pod = await cluster.until("a", lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))
        ended = state_of(pod)["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (code, reason)
        assert ended["startedAt"] and ended["finishedAt"]


async def test_a_program_that_is_not_there(cluster: ContainerCluster) -> None:
    """A container of containerd ends with the attempt to start it; CRI-O looks for the program when it creates it."""
    async with cluster.node():
        await cluster.create("a", {"command": ["/no/such/program"]}, restartPolicy="Never")
        pod = await cluster.until("a", lambda pod: refused(pod) != "")
        assert "/no/such/program" in refused(pod)


def refused(pod: JsonObject) -> str:
    state = state_of(pod)
    if pod["status"].get("phase") == "Failed" and state["terminated"]["reason"] == "StartError":
        assert state["terminated"]["exitCode"] == 128
        return str(state["terminated"]["message"])
    if state.get("waiting", {}).get("reason") == "CreateContainerError":
        return str(state["waiting"]["message"])
    return ""


async def test_the_termination_message_is_read(cluster: ContainerCluster) -> None:
    async with cluster.node():
        await cluster.create(
            "a", {"command": ["sh", "-c", "echo why > /dev/termination-log; exit 1"]}, restartPolicy="Never"
        )
        pod = await cluster.until("a", lambda pod: pod["status"].get("phase") == "Failed")
        assert state_of(pod)["terminated"]["message"] == "why\n"


async def test_a_container_that_fails_is_restarted_and_its_earlier_log_kept(cluster: ContainerCluster) -> None:
    async with cluster.node():
        script = "echo run; test -e /data/x || { touch /data/x; exit 3; }; sleep 1000"
        mounts = [{"name": "v", "mountPath": "/data"}]
        volumes = [{"name": "v", "emptyDir": {}}]
        await cluster.create("a", {"command": ["sh", "-c", script], "volumeMounts": mounts}, volumes=volumes)
        pod = await cluster.until("a", lambda pod: status_of(pod).get("restartCount") == 1 and status_of(pod)["ready"])
        assert status_of(pod)["lastState"]["terminated"]["exitCode"] == 3
        assert await cluster.log("a", previous=True) == "run\n"
        assert await cluster.until_logged("a", "run") == "run\n"


async def test_of_a_container_that_restarts_only_the_last_end_is_kept(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    script = "echo x >> /data/starts; [ $(wc -l < /data/starts) -gt 3 ] || exit 3; sleep 1000"
    mounts, volumes = [{"name": "v", "mountPath": "/data"}], [{"name": "v", "emptyDir": {}}]
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}]
    container = {"command": ["sh", "-c", script], "volumeMounts": mounts, "restartPolicyRules": rules}
    async with cluster.node() as agent:
        await cluster.create("a", {**container, "restartPolicy": "Never"}, volumes=volumes)
        pod = await cluster.until("a", lambda pod: status_of(pod).get("restartCount") == 3, 120)
        await cluster.until("a", lambda pod: status_of(pod)["ready"])
        logs = agent.files.logs(pod["metadata"]["uid"])
        assert sorted(path.name for path in logs.rglob("*.log")) == ["2.log", "3.log"]
        assert len(runtime.container_ids()) == 3, "the sandbox, the running container, and the one before"


async def test_commands_in_a_container(cluster: ContainerCluster, runtime: RuntimeUnderTest) -> None:
    async with cluster.node():
        await cluster.run("a")
        assert await cluster.execute("a", "sh", "-c", "echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")
        assert await cluster.execute("a", "wc", "-c", stdin=b"x" * 300_000) == (0, "300000\n", "")
        code, out, _ = await cluster.execute("a", "sh", "-c", "tty", tty=True, stdin=b"")
        assert (code, out.strip()) == (0, "/dev/pts/0")
        code, out, _ = await cluster.execute("a", "sh", "-c", "sleep 1; stty size", tty=True, size=(33, 77))
        assert (code, out.strip()) == (0, "33 77")
        code, _, problem = await cluster.execute("a", "nosuchprogram")
        assert code == (255 if runtime.name == "cri-o" else 126) and "executable file not found" in problem


async def test_lines_longer_than_the_runtime_keeps_together_are_put_together(cluster: ContainerCluster) -> None:
    async with cluster.node():
        script = "head -c 50000 /dev/zero | tr '\\0' x; echo; printf 'no newline'"
        await cluster.create("a", {"command": ["sh", "-c", script]}, restartPolicy="Never")
        await cluster.until("a", lambda pod: pod["status"].get("phase") == "Succeeded")
        assert await cluster.log("a") == "x" * 50000 + "\nno newline"


async def test_a_runtime_class_chooses_the_handler(cluster: ContainerCluster) -> None:
    def runtime_class(name: str, handler: str) -> dict[str, object]:
        return {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler}

    async with cluster.node():
        await cluster.client.create(RUNTIME_CLASSES, runtime_class("usual", "runc"))
        await cluster.client.create(RUNTIME_CLASSES, runtime_class("strange", "no-such-handler"))
        await cluster.run("a", runtimeClassName="usual")
        await cluster.create("b", runtimeClassName="strange")
        assert "no-such-handler" in await cluster.until_event("b", "FailedCreatePodSandBox")


async def test_a_client_attaches_to_the_streams_of_a_container(cluster: ContainerCluster) -> None:
    async with cluster.node() as agent:
        await cluster.run("a", {"command": ["sh", "-c", "while read x; do echo got $x; done"], "stdin": True})
        record = agent.pods.find("default", "a")
        assert record is not None
        instance = record.runs["c"].instance
        assert instance is not None
        session = await agent.runtime.attach(instance.id)
        await session.write(STDIN, b"hello\n")
        async with asyncio.timeout(120):
            assert await session.read() == (STDOUT, b"got hello\n")
        await session.close()


async def test_a_killed_agent_leaves_pods_that_can_be_ended_without_one(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, tmp_path: Path
) -> None:
    """What `kohort down` does."""
    async with cluster.node(stop_pods=False):
        await cluster.run("a")
        await cluster.create("b", {"command": ["true"]}, restartPolicy="Never")
        await cluster.until("b", lambda pod: pod["status"].get("phase") == "Succeeded")
    assert await stale_state_cleanup.end(tmp_path / "node") == 1
    assert runtime.container_ids() == []


async def test_secrets_are_in_memory_and_leave_nothing_mounted(cluster: ContainerCluster, tmp_path: Path) -> None:
    secret: JsonObject = {"metadata": {"name": "s", "namespace": "default"}, "data": {"key": "b25l"}}
    volumes = [{"name": "v", "secret": {"secretName": "s"}}, {"name": "d", "emptyDir": {}}]
    mounts = [{"name": "v", "mountPath": "/secret"}, {"name": "d", "mountPath": "/scratch"}]
    holder: JsonObject = {"command": ["sleep", "1000"], "volumeMounts": mounts}
    script = "cat /secret/key; grep -E ' /(secret|scratch) ' /proc/mounts | cut -d' ' -f2-4 | cut -d, -f1"
    pods = tmp_path / "node" / "pods"
    async with cluster.node(stop_pods=False):
        await cluster.client.create(SECRETS, secret, "default")
        uid = (await cluster.run("a", holder, volumes=volumes))["metadata"]["uid"]
        assert "one/secret tmpfs ro\n" in await cluster.shell("a", script)
        assert mounts_below(pods) == [str(pods / uid / "volumes" / "v")]
    async with cluster.node(stop_pods=False):
        assert await cluster.shell("a", "cat /secret/key") == "one"
        assert mounts_below(pods) == [str(pods / uid / "volumes" / "v")], "the next agent mounts nothing over it"
        await cluster.delete("a")
        assert mounts_below(pods) == []
        await cluster.run("b", holder, volumes=volumes)
    await stale_state_cleanup.end(tmp_path / "node")
    assert mounts_below(pods) == []


async def image_names(client: CriClient) -> set[str]:
    images = (await client.call(cri.LIST_IMAGES, cri.ListImagesRequest())).images
    return {name for each in images for name in each.repo_tags}


async def test_unused_images_are_removed_and_used_ones_kept(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = runtime.push(registry, "test/unused:1", image_archive("x:1", command=["true"], mark="unused"))
    async with cluster.node():
        await cluster.run("a")
        await cluster.create("b", {"image": name}, restartPolicy="Never")
        await cluster.until("b", lambda pod: pod["status"].get("phase") == "Succeeded")
        await cluster.delete("b")
        client = CriClient(runtime.socket)
        removal = image_removal.ImageRemoval(client)
        assert await removal.remove_unused() == [], "the disk is not full, or they are too young"
        monkeypatch.setattr(image_removal, "excess_bytes", lambda capacity, available: capacity)
        monkeypatch.setattr(image_removal, "LEAST_AGE", 0.0)
        before = await image_names(client)
        assert await removal.remove_unused() != []
        images = await image_names(client)
        await client.close()
        assert name in before and name not in images and cluster.image in images
        assert (SANDBOX_IMAGE in images) == (SANDBOX_IMAGE in before)
        assert await cluster.shell("a", "cat /mark") == "one"


async def test_groups_of_the_image_are_left_out_or_refused(
    cluster: ContainerCluster, runtime: RuntimeUnderTest
) -> None:
    """containerd before 2.0 cannot leave them out."""
    exactly = {"supplementalGroupsPolicy": "Strict", "supplementalGroups": [99], "runAsUser": 1234, "runAsGroup": 77}
    async with cluster.node():
        await cluster.create("groups", securityContext=exactly)
        pod = await cluster.until("groups", lambda pod: is_ready(pod) or pod["status"].get("phase") == "Failed")
        if (await examine(runtime.socket, share=True)).gives_exact_groups:
            assert (await cluster.shell("groups", "id -G")).split() == ["77", "99"]
        else:
            assert pod["status"]["reason"] == "SupplementalGroupsPolicyNotSupported"
        await cluster.delete("groups")


async def test_fields_that_the_node_does_not_have_are_refused(cluster: ContainerCluster) -> None:
    async with cluster.node():
        await cluster.create("users", hostUsers=False)
        assert "can't set `spec.hostUsers: false`" in await cluster.until_event("users", "FailedCreatePodSandBox")
        await cluster.create("files", volumes=[{"name": "v", "image": {"reference": cluster.image}}])
        assert "volumes of type image are not supported" in await cluster.until_event("files", "FailedMount")
        for name in ("users", "files"):
            await cluster.delete(name)


async def test_names_files_and_long_commands(cluster: ContainerCluster) -> None:
    write: JsonObject = {
        "name": "write",
        "image": cluster.image,
        "command": ["sh", "-c", "echo \"COLOUR='red'\" > /data/env"],
        "volumeMounts": [{"name": "v", "mountPath": "/data"}],
    }
    reference = {"volumeName": "v", "path": "env", "key": "COLOUR"}
    async with cluster.node():
        await cluster.run(
            "a",
            {"env": [{"name": "C", "valueFrom": {"fileKeyRef": reference}}]},
            hostnameOverride="other.example",
            initContainers=[write],
            volumes=[{"name": "v", "emptyDir": {}}],
        )
        assert await cluster.shell("a", "hostname; echo $C") == "other.example\nred\n"
        words = "x" * 20_000
        assert await cluster.shell("a", f"echo {words}") == f"{words}\n"
        await cluster.delete("a")


async def test_a_container_that_writes_more_than_its_limit_of_storage_is_evicted(cluster: ContainerCluster) -> None:
    limits = {"limits": {"ephemeral-storage": "5Mi"}}
    command = ["sh", "-c", "dd if=/dev/zero of=/file bs=1M count=10; sleep 1000"]
    async with cluster.node():
        await cluster.create("a", {"command": command, "resources": limits})
        pod = await cluster.until("a", lambda pod: pod["status"].get("phase") == "Failed", 90)
        assert pod["status"]["reason"] == "Evicted"
        assert "exceeds the total limit of containers 5Mi" in pod["status"]["message"]
