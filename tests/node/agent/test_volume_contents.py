"""What volumes contain while time passes."""

import asyncio
import gc
import os
import threading
from pathlib import Path

import pytest
from tests.node.agent.node_bench import NODE, Bench, container, node

from kohort.kube import errors
from kohort.kube.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, SERVICE_ACCOUNTS
from kohort.node import pressure
from kohort.node.pressure import Pressure
from kohort.node.volumes import ConfigSources, Content, PodVolumes
from kohort.objects.json_types import JsonObject
from kohort.rules.local_volumes import PROVISIONED_BY, PROVISIONER

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


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


async def test_a_mode_of_zero_is_a_mode(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        settings: JsonObject = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "1", "b": "2"}}
        await bench.cluster.client.create(CONFIG_MAPS, settings, "default")
        items = [{"key": "a", "path": "a"}, {"key": "b", "path": "b", "mode": 0o440}]
        volumes = [{"name": "v", "configMap": {"name": "settings", "defaultMode": 0, "items": items}}]
        uid = await bench.create("p", volumes=volumes)
        await bench.until(lambda: bench.phase() == "Running")
        place = tmp_path / "pods" / uid / "volumes" / "v"
        assert [(place / name).stat().st_mode & 0o777 for name in ("a", "b")] == [0, 0o440]


@pytest.mark.parametrize(
    ("type", "path", "problem"),
    [
        ("Socket", "file", "is not a socket file"),
        ("CharDevice", "file", "is not a character device"),
        ("BlockDevice", "directory", "is not a block device"),
        ("File", "directory", "is not a file"),
        ("FileOrCreate", "directory", "is not a file"),
        ("Directory", "file", "is not a directory"),
        ("DirectoryOrCreate", "file", "is not a directory"),
        ("", "nothing", "does not exist"),
    ],
)
async def test_a_host_path_must_be_what_the_pod_expects(tmp_path: Path, type: str, path: str, problem: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    async with node(tmp_path / "node") as bench:
        await bench.create(volumes=[{"name": "v", "hostPath": {"path": str(tmp_path / path), "type": type}}])
        await bench.until(lambda: any(problem in each for each in bench.said()))
        assert bench.status()["state"] == {"waiting": {"reason": "ContainerCreating"}}


@pytest.mark.parametrize(
    ("type", "path"),
    [("Directory", "made"), ("DirectoryOrCreate", "new/one"), ("FileOrCreate", "new"), ("CharDevice", "/dev/null")],
)
async def test_a_host_path_that_is_what_the_pod_expects(tmp_path: Path, type: str, path: str) -> None:
    (tmp_path / "made").mkdir()
    async with node(tmp_path / "node") as bench:
        await bench.create(volumes=[{"name": "v", "hostPath": {"path": str(tmp_path / path), "type": type}}])
        await bench.until(lambda: bench.phase() == "Running")
        assert (tmp_path / path).exists()


async def test_contents_that_pods_have_read_are_forgotten(tmp_path: Path) -> None:
    """Every namespace may make any number of ConfigMaps and pods, one after the other."""
    of_other_tests = kept_contents()
    async with node(tmp_path) as bench:
        for number in range(5):
            settings: JsonObject = {"metadata": {"name": f"s{number}", "namespace": "default"}, "data": {"a": "1"}}
            await bench.cluster.client.create(CONFIG_MAPS, settings, "default")
            await bench.create("p", volumes=[{"name": "v", "configMap": {"name": f"s{number}"}}])
            await bench.until(lambda: bench.phase() == "Running")
            await bench.cluster.client.delete(PODS, "p", "default", grace_seconds=0)
            await bench.until(lambda: not bench.agent.pods.records())
            await asyncio.sleep(100)
        assert kept_contents() - of_other_tests <= 1


def kept_contents() -> int:
    gc.collect()
    return sum(isinstance(each, Content) for each in gc.get_objects())


async def test_a_token_is_forgotten_with_its_pod(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        account: JsonObject = {"metadata": {"name": "mine", "namespace": "default"}}
        await bench.cluster.client.create(SERVICE_ACCOUNTS, account, "default")
        projected = {"sources": [{"serviceAccountToken": {"path": "token"}}]}
        uid = await bench.create("p", volumes=[{"name": "v", "projected": projected}], serviceAccountName="mine")
        await bench.until(lambda: bench.phase() == "Running")
        record = bench.agent.pods.with_uid(uid)
        assert record is not None
        client = bench.cluster.client
        volumes = PodVolumes(client, ConfigSources(client), bench.agent.state.machine, None, secrets_in_memory=False)
        tokens = []
        for _ in range(2):
            await volumes.prepare(record.pod, tmp_path / "volumes", "10.0.0.1")
            tokens.append((tmp_path / "volumes" / "v" / "token").read_text())
        assert tokens[0] == tokens[1]
        volumes.forget(uid)
        await asyncio.sleep(2)
        await volumes.prepare(record.pod, tmp_path / "volumes", "10.0.0.1")
        assert (tmp_path / "volumes" / "v" / "token").read_text() != tokens[0]


@as_root
@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({}, (0, 0, 0o644)),
        ({"runAsUser": 1000}, (1000, 0, 0o600)),
        ({"fsGroup": 4321}, (0, 4321, 0o640)),
        ({"runAsUser": 1000, "fsGroup": 4321}, (1000, 4321, 0o640)),
    ],
)
async def test_who_may_read_a_token(tmp_path: Path, context: JsonObject, expected: tuple[int, int, int]) -> None:
    async with node(tmp_path) as bench:
        account: JsonObject = {"metadata": {"name": "mine", "namespace": "default"}}
        await bench.cluster.client.create(SERVICE_ACCOUNTS, account, "default")
        volumes = [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]
        uid = await bench.create("p", volumes=volumes, serviceAccountName="mine", securityContext=context)
        await bench.until(lambda: bench.phase() == "Running")
        found = (tmp_path / "pods" / uid / "volumes" / "v" / "token").stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == expected


async def bound_claim(bench: Bench, name: str, *, annotations: JsonObject | None = None, **source: JsonObject) -> None:
    """A claim that is bound to a volume with this source."""
    client = bench.cluster.client
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeMode": "Filesystem"}
    wanted = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
    claim = await client.create(
        PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": wanted}, "default"
    )
    bound = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": claim["metadata"]["uid"]}
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}
    spec = {**common, "capacity": {"storage": "1Gi"}, "claimRef": bound, **source}
    spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    await client.create(PERSISTENT_VOLUMES, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
    status = {"status": {"phase": "Bound"}}
    await client.patch(PERSISTENT_VOLUME_CLAIMS, name, "default", status, subresource="status")


async def run_with_claim(bench: Bench, pod: str, claim: str, **context: object) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    await bench.create(pod, volumes=volumes, securityContext=context)
    await bench.until(lambda: bench.phase(pod) == "Running")


def group_and_mode(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_gid, found.st_mode & 0o7777


@as_root
async def test_a_local_volume_belongs_to_the_group_of_its_first_pod(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "file").write_text("x")
    async with node(tmp_path / "node") as bench:
        await bound_claim(bench, "data", local={"path": str(data)})
        await run_with_claim(bench, "first", "data", fsGroup=4321)
        assert group_and_mode(data) == (4321, 0o2775) and (data / "file").stat().st_gid == 4321
        (data / "file").chmod(0o600)
        await run_with_claim(bench, "second", "data", fsGroup=77)
        assert group_and_mode(data) == (4321, 0o2775), "the first pod uses it"
        await asyncio.sleep(120)
        assert group_and_mode(data / "file") == (4321, 0o600), "volumes are refreshed, not given away again"
        await bench.crash()
        await bench.restart("first")
        await asyncio.sleep(120)
        assert group_and_mode(data / "file") == (4321, 0o600)


@as_root
async def test_a_host_path_behind_a_claim_keeps_its_group(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    async with node(tmp_path / "node") as bench:
        await bound_claim(bench, "data", hostPath={"path": str(data), "type": ""})
        await run_with_claim(bench, "p", "data", fsGroup=4321)
        assert group_and_mode(data) == (0, 0o755)


async def test_every_user_may_write_to_a_volume_that_was_provisioned_here(tmp_path: Path) -> None:
    data = tmp_path / "provisioned" / "pvc-1"
    async with node(tmp_path / "node") as bench:
        await bound_claim(bench, "data", annotations={PROVISIONED_BY: PROVISIONER}, local={"path": str(data)})
        await run_with_claim(bench, "p", "data", runAsUser=1000)
        assert data.stat().st_mode & 0o777 == 0o777


async def test_a_pod_that_has_ended_keeps_no_volumes(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        mounted = container("c", volumeMounts=[{"name": "v", "mountPath": "/run/v"}])
        scratch = [{"name": "v", "emptyDir": {}}]
        uid = await bench.create("p", containers=[mounted], volumes=scratch, restartPolicy="OnFailure")
        await bench.until(lambda: bench.running() == ["c_0"])
        files = bench.agent.files
        (files.volumes(uid) / "v" / "written").write_text("x")
        bench.runtime.end(f"{uid}_c_0", 1)
        await bench.until(lambda: bench.running() == ["c_1"])
        assert (files.volumes(uid) / "v" / "written").exists(), "its container starts again"
        files.log(uid, "c", 1).parent.mkdir(parents=True, exist_ok=True)
        files.log(uid, "c", 1).write_text("last words")
        bench.runtime.end(f"{uid}_c_1", 0)
        await bench.until(lambda: bench.phase() == "Succeeded" and not files.volumes(uid).exists())
        assert files.log(uid, "c", 1).read_text() == "last words"


async def test_volumes_of_a_pod_that_ended_right_before_its_agent_are_removed(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create("p", volumes=[{"name": "v", "emptyDir": {}}], restartPolicy="Never")
        await bench.until(lambda: bench.running() == ["c_0"])
        bench.runtime.end(f"{uid}_c_0", 0)
        await bench.until(lambda: bench.phase() == "Succeeded")
        volumes = bench.agent.files.volumes(uid)
        await bench.crash()
        (volumes / "v").mkdir(parents=True, exist_ok=True)
        await bench.restart()
        await bench.until(lambda: not volumes.exists())


async def test_an_eviction_frees_the_disk_while_the_api_cannot_be_written(tmp_path: Path) -> None:
    """As when the disk of its store is full: what would make room must not wait for it."""
    async with node(tmp_path) as bench:
        uid = await bench.create("p", volumes=[{"name": "v", "emptyDir": {}}])
        await bench.until(lambda: bench.running() == ["c_0"])
        files = bench.agent.files
        (files.volumes(uid) / "v" / "written").write_bytes(b"x" * (2 << 20))
        files.layer(uid, "c", 0).mkdir(parents=True)
        refused = errors.internal("the write could not be made durable")
        bench.cluster.faults("node").refuse(refused, on=lambda request: request.method != "GET", times=20)
        await bench.agent.evictions.set_pressure(Pressure(disk=True))
        await bench.until(lambda: not files.volumes(uid).exists() and not files.layers(uid).exists())
        assert bench.phase() == "Running", "the API does not know it yet"
        await bench.until(lambda: bench.phase() == "Failed")
        assert bench.pod()["status"]["reason"] == "Evicted"
        assert not bench.runtime.running() and not await bench.runtime.instances()


async def test_files_of_pods_are_counted_beside_everything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod with a million files must not stop the agent while the disk is full."""
    count, threads = pressure.written_bytes, set()

    def observed(directory: Path) -> int:
        threads.add(threading.current_thread())
        return count(directory)

    monkeypatch.setattr(pressure, "written_bytes", observed)
    async with node(tmp_path) as bench:
        await bench.create("p", volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}])
        await bench.until(lambda: bench.running() == ["c_0"])
        await bench.agent.evictions.set_pressure(Pressure(disk=True))
        await bench.agent.evictions.evict_over_size_limit()
    assert threads and threading.main_thread() not in threads
