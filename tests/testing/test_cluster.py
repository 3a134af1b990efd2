"""A whole cluster in a test: what foreign operators get to work with."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.builders import lws

from kohort.kube import errors, kubeconfig
from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.credentials import Credentials, Static
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    CONFIG_MAPS,
    LEADER_WORKER_SETS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    Key,
)
from kohort.kube.transport import Connection, HttpsTransport
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import PartialObject
from kohort.testing import Cluster, write_storm
from kohort.testing.crashes import CrashUnsafe, crash_at_every_write, crash_repeatedly
from kohort.testing.request_matching import writes


def mirror(manager: Manager) -> None:
    """A small operator: every ConfigMap gets a Secret of its name, and a mark that it has one."""
    maps = manager.informer(CONFIG_MAPS, PartialObject)
    secrets = manager.informer(SECRETS, PartialObject)

    async def reconcile(key: Key) -> Requeue | None:
        if maps.get(key) is None:
            return None
        if secrets.get(key) is None:
            await manager.client.create(SECRETS, {"metadata": {"name": key.name, "namespace": key.namespace}})
        labels = {"mirrored": "yes"}
        if maps.get(key).metadata.labels != labels:  # type: ignore[union-attr]
            await manager.client.patch(CONFIG_MAPS, key.name, key.namespace, {"metadata": {"labels": labels}})
        return None

    manager.controller("mirror", reconcile).watches(maps).watches(secrets)


def forgetful(manager: Manager) -> None:
    """An operator that is not crash safe: it counts in a ConfigMap what it has done, in a second write."""
    maps = manager.informer(CONFIG_MAPS, PartialObject, namespace="default")

    async def reconcile(key: Key) -> None:
        if key.name != "order" or maps.get(Key("default", "done")) is not None:
            return
        await manager.client.create(SECRETS, {"metadata": {"generateName": "goods-", "namespace": "default"}})
        await manager.client.create(CONFIG_MAPS, {"metadata": {"name": "done", "namespace": "default"}})

    manager.controller("forgetful", reconcile).watches(maps)


async def order(cluster: Cluster, name: str = "order") -> None:
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})


def names(cluster: Cluster) -> set[str]:
    return {obj["metadata"]["name"] for obj in cluster.objects(SECRETS, "default")}


async def test_requests_of_the_test_reach_a_real_api_server() -> None:
    async with Cluster() as cluster:
        await order(cluster)
        found = cluster.find(CONFIG_MAPS, "order", "default")
        assert found is not None
        assert found["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
        with pytest.raises(errors.Invalid):
            await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "No_Capitals", "namespace": "default"}})
        with pytest.raises(errors.AlreadyExists):
            await order(cluster)


async def test_a_foreign_operator_runs_beside_our_own_parts() -> None:
    async with Cluster(parts=("workloads",), extra={"mirror": mirror}) as cluster:
        await order(cluster)
        await cluster.until(lambda: "order" in names(cluster))
        assert cluster.find(NAMESPACES, "default") is not None


async def test_everything_together_makes_groups_ready() -> None:
    parts = ("workloads", "scheduler", "operator")
    async with Cluster(parts=parts, nodes=3, node_settings={"start_latency": 5.0}) as cluster:
        await cluster.client.create(LEADER_WORKER_SETS, lws("inference").replicas(2).size(3).startup("LeaderReady"))
        await cluster.until(lambda: _ready_groups(cluster, "inference") == 2)
        pods = cluster.objects(PODS)
        assert len(pods) == 6
        assert {pod["spec"]["nodeName"] for pod in pods} <= {"sim-0", "sim-1", "sim-2"}
        assert asyncio.get_running_loop().time() >= 10, "workers start after their leaders, each after its latency"


def _ready_groups(cluster: Cluster, name: str) -> int:
    found = cluster.find(LEADER_WORKER_SETS, name, "default") or {}
    ready: int = found.get("status", {}).get("readyReplicas", 0)
    return ready


async def test_parts_can_die_and_come_back() -> None:
    async with Cluster(extra={"mirror": mirror}) as cluster:
        await order(cluster, "one")
        await cluster.until(lambda: "one" in names(cluster))
        part = cluster.parts["mirror"]
        await part.crash()
        await order(cluster, "two")
        await asyncio.sleep(3600)
        assert names(cluster) == {"one"}
        await part.restart()
        await cluster.until(lambda: names(cluster) == {"one", "two"})


async def test_faults_concern_one_part_only() -> None:
    async with Cluster(extra={"mirror": mirror}) as cluster:
        cluster.faults("mirror").refuse(errors.internal("no"), on=writes(SECRETS), times=5)
        await order(cluster)
        await cluster.client.create(SECRETS, {"metadata": {"name": "mine", "namespace": "default"}})
        await cluster.until(lambda: names(cluster) == {"mine", "order"})
        assert len(cluster.faults("mirror").writes) >= 6


async def test_a_stale_cache_is_survived_by_an_operator_that_takes_409_for_an_answer() -> None:
    async with Cluster(extra={"mirror": mirror}) as cluster:
        faults = cluster.faults("mirror")
        faults.hold(SECRETS)
        await cluster.client.create(SECRETS, {"metadata": {"name": "order", "namespace": "default"}})
        await order(cluster)
        await asyncio.sleep(30)
        faults.release()
        await cluster.until(lambda: _labels(cluster, "order") == {"mirrored": "yes"})


def _labels(cluster: Cluster, name: str) -> JsonObject:
    found = cluster.find(CONFIG_MAPS, name, "default")
    labels: JsonObject = (found or {"metadata": {}})["metadata"].get("labels", {})
    return labels


async def test_programs_outside_reach_it_through_a_socket(tmp_path: Path) -> None:
    async with Cluster() as cluster, cluster.listening() as address:
        transport = kubeconfig.load(address.kubeconfig(tmp_path))
        await order(cluster)
        found = await Client(transport).get(CONFIG_MAPS, "order", "default")
        assert found["metadata"]["name"] == "order"
        await transport.close()
        stranger = HttpsTransport(Connection(address.server, ca=address.authority.encode()))
        with pytest.raises(errors.Forbidden):
            await Client(stranger).get(CONFIG_MAPS, "order", "default")
        await stranger.close()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is needed")
def test_kubectl_reaches_it_through_a_socket(tmp_path: Path) -> None:
    """client-go keeps its token to itself unless the connection is encrypted."""

    async def story() -> None:
        async with Cluster() as cluster, cluster.listening() as address:
            command = ("kubectl", f"--kubeconfig={address.kubeconfig(tmp_path)}", "auth", "whoami")
            process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            output, _ = await process.communicate()
            assert (process.returncode, b"kubernetes-admin" in output) == (0, True)

    asyncio.run(story())


async def test_tokens_of_service_accounts_are_good_at_the_socket() -> None:
    async with Cluster() as cluster, cluster.listening() as address:
        await cluster.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot", "namespace": "default"}})
        request: JsonObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await cluster.client.create(SERVICE_ACCOUNTS, request, "default", subresource="token", name="robot")
        connection = Connection(address.server, ca=address.authority.encode())
        transport = HttpsTransport(connection, Credentials(Static(answer["status"]["token"])))
        with pytest.raises(errors.Forbidden, match=r"system:serviceaccount:default:robot"):
            await Client(transport).list(PODS, "default")
        await transport.close()


def test_a_part_that_is_not_there_has_no_faults() -> None:
    with pytest.raises(ValueError, match=r"no part 'mirrror' runs; there are: none"):
        Cluster().faults("mirrror")


async def test_waiting_in_vain_says_for_what() -> None:
    async with Cluster() as cluster:
        with pytest.raises(AssertionError, match=r"false after 50 s: .*len\(cluster\.objects\(PODS\)\) == 3"):
            await cluster.until(lambda: len(cluster.objects(PODS)) == 3, timeout=50)


async def test_a_part_that_fails_fails_the_test_that_waits() -> None:
    def broken(manager: Manager) -> None:
        async def run() -> None:
            await asyncio.sleep(5)
            raise RuntimeError("lost my mind")

        manager.background("broken", run)

    cluster = Cluster(extra={"broken": broken})
    with pytest.raises(ExceptionGroup) as caught:
        async with cluster:
            await cluster.until(lambda: False)
    assert caught.group_contains(RuntimeError, match="lost my mind")


async def test_an_operator_that_writes_without_end_fails_the_test_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers its own write with the next one, so that no time passes and no timeout comes."""
    monkeypatch.setattr(write_storm, "MOST_WRITES", 300)

    def restless(manager: Manager) -> None:
        maps = manager.informer(CONFIG_MAPS, PartialObject, namespace="default")

        async def reconcile(key: Key) -> None:
            version = maps.get(key).metadata.resource_version  # type: ignore[union-attr]
            await manager.client.patch(CONFIG_MAPS, key.name, key.namespace, {"data": {"seen": version}})

        manager.controller("restless", reconcile).watches(maps)

    with pytest.raises(AssertionError, match=r"times PATCH /api/v1/namespaces/default/configmaps/\S+ at one moment"):
        async with Cluster(extra={"restless": restless}) as cluster:
            await order(cluster)
            await cluster.settle()


async def test_nothing_is_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with Cluster(parts=("workloads",)) as cluster:
        await cluster.parts["workloads"].restart()
        assert os.listdir(tmp_path)
    assert os.listdir(tmp_path) == []


def test_an_unknown_part_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(ValueError, match="no part 'nodes'; there are: operator, scheduler, workloads"):
        Cluster(parts=("nodes",))


def test_a_crash_safe_operator_survives_a_crash_at_every_write() -> None:
    async def story(cluster: Cluster) -> None:
        await order(cluster, "one")
        await order(cluster, "two")
        await cluster.settle()
        assert names(cluster) == {"one", "two"}
        assert _labels(cluster, "one") == _labels(cluster, "two") == {"mirrored": "yes"}

    assert crash_at_every_write(lambda: Cluster(extra={"mirror": mirror}), "mirror", story) >= 8


def test_many_crashes_in_one_run() -> None:
    async def story(cluster: Cluster) -> None:
        await order(cluster)
        await cluster.settle(quiet=5.0)
        assert names(cluster) == {"order"}
        assert _labels(cluster, "order") == {"mirrored": "yes"}

    crashes = crash_repeatedly(lambda: Cluster(extra={"mirror": mirror}), "mirror", story)
    secret = "/api/v1/namespaces/default/secrets"
    assert crashes[:2] == [f"before POST {secret}", f"after POST {secret}"]
    with pytest.raises(CrashUnsafe, match=r"forgetful crashed 20 times, .*: still not finished after 20 crashes"):
        crash_repeatedly(lambda: Cluster(extra={"forgetful": forgetful}), "forgetful", _one_order, max_crashes=20)


async def _one_order(cluster: Cluster) -> None:
    await order(cluster)
    await cluster.settle(quiet=5.0)
    assert len(names(cluster)) == 1


def test_an_operator_that_is_not_crash_safe_is_caught_at_the_very_write() -> None:
    expected = r"forgetful crashed after write 1 \(POST /api/v1/namespaces/default/secrets\)"
    with pytest.raises(CrashUnsafe, match=expected):
        crash_at_every_write(lambda: Cluster(extra={"forgetful": forgetful}), "forgetful", _one_order)


def test_the_workload_controllers_survive_a_crash_at_every_write_of_a_statefulset() -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {
        "replicas": 3,
        "serviceName": "web",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": template,
    }

    async def story(cluster: Cluster) -> None:
        await cluster.client.create(STATEFUL_SETS, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await cluster.settle()
        assert {pod["metadata"]["name"] for pod in cluster.objects(PODS)} == {"web-0", "web-1", "web-2"}
        found = cluster.find(STATEFUL_SETS, "web", "default")
        assert found is not None
        assert (found["status"]["replicas"], found["status"]["observedGeneration"]) == (3, 1)

    assert crash_at_every_write(lambda: Cluster(parts=("workloads",)), "workloads", story) >= 10
