"""U1: a cluster changes hands, from a released LeaderWorkerSet manager to our operator and back, and no pod notices."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import lws
from tests.kubernetes.controlplane import ControlPlane, control_plane
from tests.kubernetes.operators import administrator, operator, simulated_nodes, webhooks_answer
from tests.kubernetes.test_groups import PATIENCE, pods, settled
from tests.kubernetes.upstream import upstream
from tools.lws import build

from kohort.kube.client import Client
from kohort.kube.errors import InternalError
from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS, SERVICES, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

SPACE = "takeover"


@pytest.fixture
def plane(binaries: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """Of its own, because the definitions are exchanged."""
    if build.find() is None and shutil.which("go") is None:
        pytest.skip("no LeaderWorkerSet manager to take over from: install Go to build one")
    build.build()
    with control_plane(binaries, tmp_path / "plane", "kube-controller-manager", "kube-scheduler") as found:
        yield found


def sets() -> list[JsonObject]:
    """One plain set, and one with everything that changes templates."""
    plain = lws("llm", SPACE).replicas(2).size(3)
    container = {"name": "main", "image": "leader:1", "resources": {"limits": {"cpu": "1000m"}}}
    leader = {"spec": {"containers": [container]}}
    rich = lws("rich", SPACE).replicas(2).size(2).but("spec.leaderWorkerTemplate.leaderTemplate", leader)
    rich = rich.but("spec.networkConfig", {"subdomainPolicy": group_labels.UNIQUE})
    rich = rich.but("metadata.labels", {"team": "a"}).but("metadata.annotations", {"note": "b"})
    rolling = {"maxSurge": 1, "maxUnavailable": 1}
    return [plain, rich.but("spec.rolloutStrategy", {"type": "RollingUpdate", "rollingUpdateConfiguration": rolling})]


async def _picture(client: Client) -> JsonObject:
    """Everything that must not change when the manager does."""
    revisions = (await client.list(CONTROLLER_REVISIONS, SPACE, label_selector=group_labels.NAME)).items
    stateful_sets = (await client.list(STATEFUL_SETS, SPACE)).items
    services = (await client.list(SERVICES, SPACE)).items
    return {
        "pods": {name: one["metadata"]["uid"] for name, one in (await pods(client, SPACE)).items()},
        "sets": {one["metadata"]["name"]: (one["metadata"]["generation"], one["spec"]) for one in stateful_sets},
        "revisions": sorted((one["metadata"]["name"], one["metadata"]["uid"], one["revision"]) for one in revisions),
        "services": sorted((one["metadata"]["name"], one["metadata"]["uid"]) for one in services),
    }


async def _create(client: Client) -> None:
    """The manager is not ready at once; it is when its webhooks answer."""
    for one in sets():
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await client.create(LEADER_WORKER_SETS, one)
                except InternalError:
                    await asyncio.sleep(0.2)
                else:
                    break


async def _both_settled(client: Client) -> None:
    await settled(client, SPACE, 2)
    await settled(client, SPACE, 2, name="rich")


async def _scaled(client: Client, replicas: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.patch(LEADER_WORKER_SETS, "llm", SPACE, {"spec": {"replicas": replicas}})
            except InternalError:
                await asyncio.sleep(0.2)
            else:
                break
    await settled(client, SPACE, replicas)


async def test_taken_over_and_given_back_without_a_restart(plane: ControlPlane, tmp_path: Path) -> None:
    async with (
        administrator(plane, SPACE) as client,
        simulated_nodes(plane),
        upstream(client, plane.kubeconfig, tmp_path / "upstream") as theirs,
    ):
        await _create(client)
        await _both_settled(client)
        before = await _picture(client)
        theirs.stop()

        with operator(plane.kubeconfig, tmp_path / "operator.log") as ours:
            await webhooks_answer(ours, client, SPACE)
            # Scaling shows that every set has been through a reconcile of ours, since they share a queue.
            await _scaled(client, 3)
            await _scaled(client, 2)
            async with asyncio.timeout(PATIENCE):
                while len((await _picture(client))["pods"]) != len(before["pods"]):
                    await asyncio.sleep(0.1)
            after = await _picture(client)
            assert after["pods"] == before["pods"]
            assert after["revisions"] == before["revisions"]
            assert after["services"] == before["services"]
            assert after["sets"].keys() == before["sets"].keys()
            for name, (generation, spec) in before["sets"].items():
                now_generation, now = after["sets"][name]
                assert now["template"] == spec["template"], name
                if name != "llm":
                    assert (now_generation, now) == (generation, spec), name
            assert ours.stop() == 0

        # And back.
        await theirs.prepare(client)
        theirs.start()
        await _scaled(client, 3)
        returned = await _picture(client)
        assert {name: returned["pods"][name] for name in before["pods"]} == before["pods"]
        assert returned["sets"]["rich"] == before["sets"]["rich"]
