"""Rollouts change hands, from a released Kruise Rollouts manager to our operator: one at rest, and two in the middle of
a release, a canary and blue-green, which go on at their step. No pod is touched by the change of hands."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.controlplane import ControlPlane, control_plane
from tests.kubernetes.kruise import install_kruise, kruise
from tests.kubernetes.operators import administrator, operator, simulated_nodes
from tests.kubernetes.releases import V1, V2, Release, ingress, rollout
from tools.rollouts.build import ROLLOUTS as RELEASED

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import BATCH_RELEASES, INGRESSES, ROLLOUTS
from kohort.objects.json_types import JsonObject

INGRESS: JsonObject = {"ingress": {"name": "llm", "classType": "nginx"}}
STEPS: list[JsonObject] = [
    {"replicas": 1, "traffic": "20%", "pause": {}},
    {"replicas": 2, "traffic": "60%", "pause": {}},
    {"replicas": "100%", "traffic": "100%", "pause": {}},
]


@pytest.fixture
def plane(binaries: Path, tmp_path: Path) -> Iterator[ControlPlane]:
    """Of its own, because the definitions are exchanged."""
    if RELEASED.find() is None:
        pytest.skip("no Kruise Rollouts manager to take over from: build it with `make programs`")
    with control_plane(binaries, tmp_path / "plane", "kube-controller-manager", "kube-scheduler") as found:
        install_kruise(found)
        yield found


async def _accepted(client: Client) -> None:
    """The manager is not ready at once; it is when its webhooks answer."""
    async with asyncio.timeout(60):
        while True:
            try:
                plan = rollout("Deployment", STEPS, INGRESS)
                await client.create(ROLLOUTS, plan, "default", dry_run=True)
            except ApiError:
                await asyncio.sleep(0.2)
            else:
                return


async def _running(*releases: Release) -> set[str]:
    return {uid for release in releases for uid in await release.pods()}


async def _is_ours(client: Client, namespace: str) -> bool:
    """Our operator has written both statuses: theirs does not know which label tells versions apart, and has another
    name for the version. The batch has been looked at under that name."""
    status = (await client.get(ROLLOUTS, "llm", namespace))["status"]
    progress = status.get("canaryStatus") or status.get("blueGreenStatus") or {}
    batch = (await client.get(BATCH_RELEASES, "llm", namespace))["status"]
    return (
        "revisionKey" in progress
        and batch["observedRolloutID"] == progress["observedRolloutID"]
        and batch["updateRevision"] == (progress.get("canaryRevision") or progress.get("updatedRevision"))
        and (batch["canaryStatus"]["currentBatch"], batch["canaryStatus"]["batchState"]) == (1, "Ready")
    )


async def _plan_hash(client: Client, namespace: str) -> str:
    annotations = (await client.get(ROLLOUTS, "llm", namespace))["metadata"]["annotations"]
    return str(annotations["rollouts.kruise.io/hash"])


@pytest.mark.timeout(300)
async def test_taken_over_at_rest_and_in_the_middle(plane: ControlPlane, tmp_path: Path) -> None:
    async with administrator(plane, "resting", "midway", "swapping") as client, simulated_nodes(plane):
        resting, midway, swapping = (Release(client, name, "Deployment") for name in ("resting", "midway", "swapping"))
        with kruise(plane, tmp_path / "kruise"):
            await _accepted(client)
            for release in (resting, midway, swapping):
                plan = rollout("Deployment", STEPS, INGRESS, blue_green=release is swapping)
                await release.begin(plan, (INGRESSES, ingress()))
                await release.noticed()
            for release in (midway, swapping):
                await release.change(V2)
            for release in (midway, swapping):
                await release.approve(1)
                await release.at(2)
                assert await release.weight() == "60"
            before = await _running(resting, midway, swapping)
            hashes = [await _plan_hash(client, name) for name in ("midway", "swapping")]

        with operator(plane.kubeconfig, tmp_path / "operator.log") as process:
            await process.says("webhook configurations point here")
            for release in (midway, swapping):
                await release.until(_is_ours, client, release.namespace)
            for release in (midway, swapping):
                await release.at(2)
                assert await release.weight() == "60"
            assert await _running(resting, midway, swapping) == before
            assert [await _plan_hash(client, name) for name in ("midway", "swapping")] == hashes
            await midway.approve(2)
            # The last step of a canary is everything: nobody is asked about that.
            await midway.healthy(V2)
            await swapping.change(V1)
            await swapping.healthy(V1)

            assert {one["spec"]["containers"][0]["image"] for one in (await resting.pods()).values()} == {V1}
            await resting.change(V2)
            await resting.approve(1)
            await resting.approve(2)
            await resting.healthy(V2)
            assert process.stop() == 0
