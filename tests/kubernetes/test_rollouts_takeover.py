"""Rollouts change hands, from a released Kruise Rollouts manager to our operator: one at rest, and one in the middle of
a release, which begins again at its first step. No pod of the version that serves is touched."""

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
from kohort.kube.resources import INGRESSES, ROLLOUTS
from kohort.objects.jsontypes import JsonObject

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


async def _serving(*releases: Release) -> set[str]:
    """The pods of the version before."""
    found = [one for release in releases for one in (await release.pods()).items()]
    return {uid for uid, pod in found if pod["spec"]["containers"][0]["image"] == V1}


async def _is_ours(client: Client, namespace: str) -> bool:
    """Our operator has written this status: theirs does not know which label tells versions apart."""
    status = (await client.get(ROLLOUTS, "llm", namespace))["status"]
    return "revisionKey" in (status.get("canaryStatus") or {})


@pytest.mark.timeout(300)
async def test_taken_over_at_rest_and_in_the_middle(plane: ControlPlane, tmp_path: Path) -> None:
    async with administrator(plane, "resting", "midway") as client, simulated_nodes(plane):
        resting, midway = Release(client, "resting", "Deployment"), Release(client, "midway", "Deployment")
        with kruise(plane, tmp_path / "kruise"):
            await _accepted(client)
            for release in (resting, midway):
                await release.begin(rollout("Deployment", STEPS, INGRESS), (INGRESSES, ingress()))
            await midway.change(V2)
            await midway.approve(1)
            await midway.at(2)
            assert await midway.weight() == "60"
            before = await _serving(resting, midway)

        with operator(plane.kubeconfig, tmp_path / "operator.log") as process:
            await process.says("webhook configurations point here")
            # Their name for the version that is released is a hash that only they can compute.
            await midway.until(_is_ours, client, "midway")
            await midway.at(1)
            assert await midway.weight() == "20"
            await midway.approve(1)
            await midway.at(2)
            assert await midway.weight() == "60"
            assert await _serving(resting, midway) == before
            # The last step is everything: nobody is asked about that.
            await midway.approve(2)
            await midway.healthy(V2)

            assert {one["spec"]["containers"][0]["image"] for one in (await resting.pods()).values()} == {V1}
            await resting.change(V2)
            await resting.approve(1)
            await resting.approve(2)
            await resting.healthy(V2)
            assert process.stop() == 0
