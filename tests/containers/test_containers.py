"""What containers are given: rights, mounts, order of starts and stops, probes, hooks, logs that rotate."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.containers.cluster import ContainerCluster, is_ready, state_of, status_of
from tests.containers.runtime import RuntimeUnderTest

from kohort.kube.client import PatchType
from kohort.kube.resources import PODS
from kohort.node.runtimes.cri.runtime import CriRuntime
from kohort.objects.json_types import JsonObject

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]


async def seen_by(cluster: ContainerCluster, name: str, context: JsonObject, script: str, **spec: object) -> str:
    await cluster.run(name, {"securityContext": context}, **spec)
    found = await cluster.shell(name, script)
    await cluster.delete(name)
    return found


def skip_without_rights(runtime: RuntimeUnderTest) -> None:
    """containerd gives a privileged container the rights that containerd itself has, and can leave `oom_score_adj` of
    sandboxes alone. CRI-O gives all rights that the kernel knows, and lowers it where a sandbox has a process."""
    own = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    known = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    if runtime.name == "cri-o" and int(own.split()[1], 16) != (1 << known + 1) - 1:
        pytest.skip("NOT RUN: this machine withholds rights from root that CRI-O needs")


async def test_users_and_groups(cluster: ContainerCluster) -> None:
    async with cluster.node():
        assert await seen_by(cluster, "root", {}, "id -u; id -g") == "0\n0\n"
        assert await seen_by(cluster, "user", {"runAsUser": 1234}, "id -u; id -g") == "1234\n2345\n"
        whole = {"runAsUser": 1234, "runAsGroup": 77, "fsGroup": 88, "supplementalGroups": [99]}
        groups = await seen_by(cluster, "groups", {}, "id -u; id -g; id -G", securityContext=whole)
        uid, gid, all_groups = groups.splitlines()
        assert (uid, gid) == ("1234", "77") and {"77", "88", "99", "3456"} <= set(all_groups.split())
        assert await seen_by(cluster, "own", {"runAsUser": 5}, "id -u", securityContext=whole) == "5\n"


async def test_rights(cluster: ContainerCluster) -> None:
    status = "cat /proc/self/status"

    def field(text: str, name: str) -> str:
        return next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name}:"))

    async with cluster.node():
        plain = await seen_by(cluster, "plain", {}, status)
        assert (field(plain, "Seccomp"), field(plain, "NoNewPrivs")) == ("0", "0")
        usual = int(field(plain, "CapEff"), 16)
        assert usual and not usual & 1 << 12, "no NET_ADMIN"
        added = {"capabilities": {"add": ["NET_ADMIN"], "drop": ["CHOWN"]}}
        more = int(field(await seen_by(cluster, "added", added, status), "CapEff"), 16)
        assert more == (usual | 1 << 12) & ~1
        none = await seen_by(cluster, "none", {"capabilities": {"drop": ["ALL"]}}, status)
        assert int(field(none, "CapEff"), 16) == 0
        filtered = {"seccompProfile": {"type": "RuntimeDefault"}, "allowPrivilegeEscalation": False}
        strict = await seen_by(cluster, "strict", filtered, status)
        assert (field(strict, "Seccomp"), field(strict, "NoNewPrivs")) == ("2", "1")
        writes = "touch /x 2>/dev/null && echo written || echo refused; touch /tmp/v/x && echo volume"
        volume = {"volumes": [{"name": "v", "emptyDir": {}}]}
        await cluster.run(
            "fixed",
            {
                "securityContext": {"readOnlyRootFilesystem": True},
                "volumeMounts": [{"name": "v", "mountPath": "/tmp/v"}],
            },
            **volume,
        )
        assert await cluster.shell("fixed", writes) == "refused\nvolume\n"
        script = "wc -c < /proc/keys; echo 1 2>/dev/null > /proc/sys/kernel/panic || echo fixed"
        assert await seen_by(cluster, "hidden", {}, f"({script}) 2>/dev/null") == "0\nfixed\n"


async def test_a_privileged_container(cluster: ContainerCluster, runtime: RuntimeUnderTest) -> None:
    skip_without_rights(runtime)
    async with cluster.node():
        free = await seen_by(cluster, "free", {"privileged": True}, "ls /dev | wc -l; grep CapEff /proc/self/status")
        assert int(free.split()[0]) > 20 and int(free.split()[2], 16) & 1 << 21, "SYS_ADMIN"


async def test_a_container_that_must_not_be_root_is_refused(cluster: ContainerCluster) -> None:
    async with cluster.node():
        await cluster.create("a", {"securityContext": {"runAsNonRoot": True}})
        pod = await cluster.until("a", lambda pod: bool(state_of(pod).get("waiting", {}).get("message")))
        assert state_of(pod)["waiting"]["reason"] == "CreateContainerConfigError"
        assert "image will run as root" in state_of(pod)["waiting"]["message"]


async def test_processes_are_shared_if_the_pod_says_so(cluster: ContainerCluster, runtime: RuntimeUnderTest) -> None:
    skip_without_rights(runtime)
    pair: list[JsonObject] = [{"name": "c"}, {"name": "other", "command": ["sleep", "12345"]}]
    async with cluster.node():
        await cluster.run("alone", *pair)
        assert "12345" not in await cluster.shell("alone", "ps")
        await cluster.run("shared", *pair, shareProcessNamespace=True)
        assert "sleep 12345" in await cluster.shell("shared", "ps")


async def test_mounts(cluster: ContainerCluster) -> None:
    mounts = [
        {"name": "data", "mountPath": "/a"},
        {"name": "data", "mountPath": "/b", "readOnly": True},
        {"name": "data", "mountPath": "/sub", "subPath": "below"},
        {"name": "memory", "mountPath": "/mem"},
        {"name": "config", "mountPath": "/config"},
    ]
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "words", "namespace": "default"},
        "data": {"key": "value"},
    }
    from kohort.kube.resources import CONFIG_MAPS

    async with cluster.node():
        await cluster.client.create(CONFIG_MAPS, config, "default")
        await cluster.run(
            "a",
            {"volumeMounts": mounts},
            volumes=[
                {"name": "data", "emptyDir": {}},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
                {"name": "config", "configMap": {"name": "words"}},
            ],
        )
        assert await cluster.shell("a", "echo x > /a/f; cat /b/f; echo y > /sub/g; cat /a/below/g") == "x\ny\n"
        assert await cluster.shell("a", "touch /b/z 2>/dev/null || echo refused; cat /config/key") == "refused\nvalue"
        assert "tmpfs" in await cluster.shell("a", "grep ' /mem ' /proc/mounts")
        assert await cluster.shell("a", "grep -c a /etc/hosts; test -s /etc/resolv.conf") != "0\n"


async def test_mounts_of_the_host_arrive_if_the_pod_asks_for_them(cluster: ContainerCluster, tmp_path: object) -> None:
    import subprocess
    import tempfile

    place = tempfile.mkdtemp(prefix="kohort-shared-")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
    subprocess.run(["mount", "--make-shared", place], check=True)
    try:
        async with cluster.node():
            mount = {"name": "host", "mountPath": "/host"}
            await cluster.run(
                "a",
                {"name": "c", "volumeMounts": [{**mount, "mountPropagation": "HostToContainer"}]},
                {"name": "alone", "volumeMounts": [mount]},
                volumes=[{"name": "host", "hostPath": {"path": place}}],
            )
            subprocess.run(["mkdir", f"{place}/later"], check=True)
            subprocess.run(["mount", "-t", "tmpfs", "later", f"{place}/later"], check=True)
            assert "later" in await cluster.shell("a", "grep ' /host/later ' /proc/mounts")
            assert await cluster.shell("a", "grep -c ' /host/later ' /proc/mounts || true", "alone") == "0\n"
    finally:
        subprocess.run(["umount", "-R", "-l", place], check=False)


async def test_init_containers_sidecars_and_main_ones_start_and_stop_in_order(cluster: ContainerCluster) -> None:
    mounts = [{"name": "v", "mountPath": "/data"}]

    def says(name: str, then: str, **more: object) -> JsonObject:
        begin = f"echo start {name} >> /data/order"
        return {
            "name": name,
            "image": cluster.image,
            "command": ["sh", "-c", f"{begin}; {then}"],
            "volumeMounts": mounts,
            **more,
        }

    def until_stopped(name: str) -> str:
        return f"trap 'echo stop {name} >> /data/order; exit 0' TERM; while :; do sleep 0.1; done"

    async with cluster.node() as agent:
        await cluster.run(
            "a",
            says("main", until_stopped("main")),
            initContainers=[
                says("first", "true"),
                says("side", until_stopped("side"), restartPolicy="Always"),
                says("last", "true"),
            ],
            volumes=[{"name": "v", "emptyDir": {}}],
            terminationGracePeriodSeconds=20,
        )
        record = agent.pods.find("default", "a")
        assert record is not None and record.volumes is not None
        order = record.volumes["v"] + "/order"
        with open(order, "rb") as written:
            await cluster.delete("a", grace=20)
            lines = written.read().decode().splitlines()
        assert lines == ["start first", "start side", "start last", "start main", "stop main", "stop side"]


async def test_grace_hooks_and_signals(cluster: ContainerCluster) -> None:
    mounts = [{"name": "v", "mountPath": "/data"}]
    trap = "trap 'echo usr1 >> /data/x; exit 0' USR1; while :; do sleep 0.1; done"
    container = {
        "command": ["sh", "-c", trap],
        "volumeMounts": mounts,
        "lifecycle": {
            "postStart": {"exec": {"command": ["sh", "-c", "echo post >> /data/x"]}},
            "preStop": {"exec": {"command": ["sh", "-c", "echo pre >> /data/x"]}},
        },
    }
    async with cluster.node() as agent:
        await cluster.run("a", container, volumes=[{"name": "v", "emptyDir": {}}], terminationGracePeriodSeconds=3)
        record = agent.pods.find("default", "a")
        assert record is not None and record.volumes is not None
        with open(record.volumes["v"] + "/x", "rb") as written:
            begun = time.monotonic()
            await cluster.delete("a", grace=3)
            assert 2 < time.monotonic() - begun < 30, "it ignores SIGTERM"
            assert written.read().decode() == "post\npre\n"


async def test_probes(cluster: ContainerCluster) -> None:
    async with cluster.node():
        await cluster.create(
            "a",
            {
                "readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1},
                "livenessProbe": {
                    "exec": {"command": ["test", "!", "-e", "/tmp/dead"]},
                    "periodSeconds": 1,
                    "failureThreshold": 1,
                },
            },
        )
        await cluster.until("a", lambda pod: "running" in state_of(pod))
        await cluster.until_event("a", "Unhealthy")
        await cluster.shell("a", "touch /tmp/ready")
        await cluster.until("a", is_ready)
        await cluster.shell("a", "touch /tmp/dead")
        await cluster.until("a", lambda pod: status_of(pod)["restartCount"] == 1)


async def test_an_ephemeral_container_sees_the_processes_of_its_target(cluster: ContainerCluster) -> None:
    async with cluster.node():
        await cluster.run("a", {"name": "c", "command": ["sleep", "54321"]})
        patch = {
            "spec": {
                "ephemeralContainers": [
                    {
                        "name": "debug",
                        "image": cluster.image,
                        "command": ["sh", "-c", "ps; sleep 1000"],
                        "targetContainerName": "c",
                    }
                ]
            }
        }
        await cluster.client.patch(PODS, "a", "default", patch, PatchType.STRATEGIC, "ephemeralcontainers")
        await cluster.until("a", lambda pod: "running" in state_of(pod, "debug"))
        assert "sleep 54321" in await cluster.until_logged("a", "54321", "debug")


async def test_logs_rotate_without_a_gap(cluster: ContainerCluster) -> None:
    async with cluster.node() as agent:
        script = "n=0; while :; do echo $n; n=$((n+1)); [ $((n % 100)) = 0 ] && sleep 0.02; done"
        await cluster.run("a", {"command": ["sh", "-c", script]})
        runtime = agent.runtime
        assert isinstance(runtime, CriRuntime)
        for _ in range(3):
            await cluster.until_logged("a", "\n")
            await runtime.rotate_logs(largest=1)
            await asyncio.sleep(0.3)
        numbers = [int(line) for line in (await cluster.log("a")).splitlines()]
        assert numbers == list(range(len(numbers))) and len(numbers) > 100
        record = agent.pods.find("default", "a")
        assert record is not None
        names = sorted(path.name for path in agent.files.logs(record.uid).rglob("*") if path.is_file())
        assert names == ["0.log", "0.log.1", "0.log.2", "0.log.3"]
