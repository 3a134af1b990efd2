"""A Kubernetes that lacks what kohort could use: no maxUnavailable of StatefulSets, no pods/resize, no Gateway API, no
streaming lists. Everything works with exactly the installed rights, and the operator says what is missing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import lws
from tests.kubernetes.access import AccessLog, installed_rights, streamed
from tests.kubernetes.controlplane import ControlPlane, control_plane, free_ports
from tests.kubernetes.operators import administrator, installed, operator, service_words, simulated_nodes
from tests.kubernetes.releases import V2, Release, ingress, rollout
from tests.kubernetes.test_group_resizes import condition, cpus, edit, resizable, uids, until
from tests.kubernetes.test_groups import PATIENCE, pods, settled

from kohort.install.options import InstallOptions
from kohort.kube.client import Client
from kohort.kube.resources import CONFIG_MAPS, EVENTS, INGRESSES, LEADER_WORKER_SETS, ROLLOUTS, SERVICES
from kohort.objects.json_types import JsonObject

SYSTEM = "older-system"
EMULATED = "--emulated-version=1.33"
ABSENT = ("InPlacePodVerticalScaling=false", "MaxUnavailableStatefulSet=false", "WatchList=false")
SAID = {
    "StatefulSet maxUnavailable": "one at a time",
    "in-place pod resize": "recreate groups",
    "Gateway API": "Ingresses only",
}
"""What is missing, and words of what that means."""


@pytest.fixture(scope="module")
def older(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    flags = {
        "kube-apiserver": [EMULATED, f"--feature-gates={','.join(ABSENT)}"],
        "kube-controller-manager": [EMULATED],
        "kube-scheduler": [EMULATED],
    }
    directory = tmp_path_factory.mktemp("older")
    with control_plane(binaries, directory, "kube-controller-manager", "kube-scheduler", flags=flags) as plane:
        yield plane


async def test_an_older_cluster(older: ControlPlane, tmp_path: Path) -> None:
    options = InstallOptions(namespace=SYSTEM, replicas=0)
    (port,) = free_ports(1)
    log = AccessLog(older.audit_log, SYSTEM)
    async with (
        administrator(older, "groups", "release", "routed", "in-place", "in-place-only") as client,
        simulated_nodes(older),
        installed(older, client, options, port) as kubeconfig,
    ):
        with operator(kubeconfig, tmp_path / "operator.log", *service_words(port, SYSTEM)) as process:
            await process.says("controllers started")
            async with asyncio.TaskGroup() as stories:
                stories.create_task(_groups(client))
                stories.create_task(_release(client))
                stories.create_task(_impossible_route(client))
                stories.create_task(_in_place_or_recreate(client))
                stories.create_task(_in_place_only(client))
            status = (await client.get(CONFIG_MAPS, "kohort-status", SYSTEM))["data"]
            missing = dict(line.split(": ", 1) for line in status["missing"].splitlines())
            assert missing.keys() == SAID.keys()
            for name, words in SAID.items():
                assert words in missing[name]
                said = process.said(f"the cluster has no {name}")
                assert said is not None and said["means"] == missing[name]
            assert process.stop() == 0
    assert log.refused() == []
    assert sorted(streamed(installed_rights(options)) - log.used()) == []


async def _groups(client: Client) -> None:
    """Changed resources recreate the groups, one after the other although two might be away."""
    rolling = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 2}}
    await client.create(
        LEADER_WORKER_SETS, lws("llm", "groups").replicas(2).size(2).but("spec.rolloutStrategy", rolling)
    )
    first = await settled(client, "groups", 2)
    before = {one["metadata"]["uid"] for one in (await pods(client, "groups")).values()}
    container = {"name": "main", "image": "new:2", "resources": {"requests": {"cpu": "20m"}}}
    body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}}}
    await client.patch(LEADER_WORKER_SETS, "llm", "groups", body)
    old = first["status"]["updateRevision"]
    await settled(client, "groups", 2, lambda one: one["status"]["updateRevision"] != old)
    after = {one["metadata"]["uid"] for one in (await pods(client, "groups")).values()}
    assert not before & after


async def _in_place_or_recreate(client: Client) -> None:
    """Resources that cannot change in place are rolled, and an event says why."""
    space = "in-place"
    await client.create(LEADER_WORKER_SETS, resizable(space).size(2), space)
    first = await settled(client, space, 1)
    before = set(uids(await pods(client, space)).values())
    await edit(client, space, "200m")
    old = first["status"]["updateRevision"]
    await settled(client, space, 1, lambda one: one["status"]["updateRevision"] != old)
    after = await pods(client, space)
    assert cpus(after) == {"200m"}
    assert not before & set(uids(after).values())
    async with asyncio.timeout(PATIENCE):
        while not await _said(client, space, "GroupRecreate", "the cluster does not serve pods/resize"):
            await asyncio.sleep(0.1)


async def _said(client: Client, namespace: str, reason: str, words: str) -> bool:
    page = await client.list(EVENTS, namespace)
    return any(one["reason"] == reason and words in str(one) for one in page.items)


async def _in_place_only(client: Client) -> None:
    space = "in-place-only"
    await client.create(LEADER_WORKER_SETS, resizable(space, "InPlaceOnly").size(2), space)
    await settled(client, space, 1)
    before = await pods(client, space)
    await edit(client, space, "200m")
    found = await until(client, space, lambda one: condition(one).get("reason") == "NotSupported")
    assert condition(found)["status"] == "False"
    assert "the cluster does not serve pods/resize" in condition(found)["message"]
    after = await pods(client, space)
    assert (uids(after), cpus(after)) == (uids(before), {"100m"})


async def _release(client: Client) -> None:
    release = Release(client, "release")
    steps: list[JsonObject] = [{"replicas": 1, "traffic": "50%", "pause": {}}]
    route = {"ingress": {"name": "llm", "classType": "nginx"}}
    await release.begin(rollout("LeaderWorkerSet", steps, route), (INGRESSES, ingress()))
    await release.change(V2)
    await release.at(1)
    assert await release.weight() == "50"
    await release.approve(1)
    await release.healthy(V2)


async def _impossible_route(client: Client) -> None:
    """A release through a kind that the cluster does not have says so."""
    plan = rollout("LeaderWorkerSet", [{"replicas": 1, "traffic": "50%"}], {"gateway": {"httpRouteName": "llm"}})
    ports = [{"port": 80}]
    service = {"metadata": {"name": "llm"}, "spec": {"selector": {"app": "llm"}, "ports": ports}}
    await client.create(SERVICES, service, "routed")
    await client.create(LEADER_WORKER_SETS, lws("llm", "routed").replicas(1).size(1))
    await client.create(ROLLOUTS, plan, "routed")
    await settled(client, "routed", 1)
    # A change that comes before the Rollout has looked at the set is no release: it would be the first version.
    async with asyncio.timeout(PATIENCE):
        while ((await client.get(ROLLOUTS, "llm", "routed")).get("status") or {}).get("phase") != "Healthy":
            await asyncio.sleep(0.1)
    container = {"name": "main", "image": "new:2"}
    body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}}}
    await client.patch(LEADER_WORKER_SETS, "llm", "routed", body)
    async with asyncio.timeout(PATIENCE):
        while "HTTPRoute" not in str((await client.get(ROLLOUTS, "llm", "routed")).get("status")):
            await asyncio.sleep(0.1)
