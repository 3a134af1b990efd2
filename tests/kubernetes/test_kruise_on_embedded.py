"""The released Kruise Rollouts manager, unmodified, on our control plane: it installs, its webhooks are called, and it
releases a Deployment and a StatefulSet step by step."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.builders import stateful_set
from tests.kubernetes.kruise import install_kruise, kruise
from tests.kubernetes.releases import NAME, PATIENCE, V1, V2, Release, ingress, is_labelled, pod, rollout
from tests.kubernetes.test_pairings import kohort_up
from tools.rollouts.build import ROLLOUTS as RELEASED

from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.kubeconfig import load
from kohort.kube.resources import INGRESSES, NAMESPACES, PODS, ROLLOUTS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels

INGRESS: JsonObject = {"ingress": {"name": NAME, "classType": "nginx"}}
STEPS: list[JsonObject] = [
    {"replicas": 1, "traffic": "20%", "pause": {}},
    {"replicas": 2, "traffic": "60%", "pause": {}},
    {"replicas": "100%", "traffic": "100%", "pause": {"duration": 1}},
]
BATCHES: list[JsonObject] = [{"replicas": 1, "pause": {}}, {"replicas": "100%", "pause": {"duration": 1}}]


@dataclass(frozen=True)
class Embedded:
    kubeconfig: Path
    binaries: Path

    def kubectl(self, *words: str, text: str | None = None) -> str:
        command = [str(self.binaries / "kubectl"), "--kubeconfig", str(self.kubeconfig), *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout


@asynccontextmanager
async def embedded_with_kruise(binaries: Path, directory: Path) -> AsyncIterator[Client]:
    if RELEASED.find() is None:
        pytest.skip("no Kruise Rollouts manager to run: build it with `make programs`")
    words = ["--parts", "apiserver,workloads,scheduler", "--simulated-nodes", "4"]
    with kohort_up(directory / "data", *words) as kubeconfig:
        home = Embedded(kubeconfig, binaries)
        client = Client(load(kubeconfig), field_manager="test")
        try:
            install_kruise(home)
            with kruise(home, directory / "kruise"):
                await _answering(client)
                yield client
        finally:
            await client.close()


async def _answering(client: Client) -> None:
    """The manager is not ready at once; it is when its webhooks answer."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.create(ROLLOUTS, rollout("Deployment", STEPS, INGRESS), "default", dry_run=True)
            except ApiError:
                await asyncio.sleep(0.2)
            else:
                return


async def _space(client: Client, name: str) -> str:
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name


async def _images(client: Client, namespace: str) -> list[str]:
    found = (await client.list(PODS, namespace)).items
    return sorted(one["spec"]["containers"][0]["image"] for one in found if "deletionTimestamp" not in one["metadata"])


async def _approved(client: Client, namespace: str, step: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            status = (await client.get(ROLLOUTS, NAME, namespace)).get("status") or {}
            progress = status.get("canaryStatus") or {}
            if (progress.get("currentStepIndex"), progress.get("currentStepState")) == (step, rollout_labels.PAUSED):
                break
            await asyncio.sleep(0.1)
    body = {"status": {"canaryStatus": {"currentStepState": rollout_labels.READY}}}
    await client.patch(ROLLOUTS, NAME, namespace, body, subresource="status")


@pytest.mark.timeout(300)
async def test_the_released_manager_releases_on_our_control_plane(binaries: Path, tmp_path: Path) -> None:
    async with embedded_with_kruise(binaries, tmp_path) as client:
        release = Release(client, await _space(client, "canary"), "Deployment")
        await release.begin(rollout("Deployment", STEPS, INGRESS), (INGRESSES, ingress()))
        await release.noticed()
        await release.change(V2)
        await release.at(1)
        assert await release.weight() == "20"
        assert await _images(client, "canary") == [V1, V1, V1, V2]
        await release.approve(1)
        await release.at(2)
        assert await release.weight() == "60"
        await release.approve(2)
        await release.healthy(V2)

        space = await _space(client, "batches")
        plan = rollout("StatefulSet", BATCHES, {})
        plan["spec"]["workloadRef"]["apiVersion"] = "apps/v1"
        plan["spec"]["strategy"]["canary"] = {"steps": BATCHES}
        subject = stateful_set(NAME).namespaced(space).replicas(3).but("spec.template.spec", pod(V1))
        await client.create(STATEFUL_SETS, subject, space)
        await client.create(ROLLOUTS, plan, space)
        async with asyncio.timeout(PATIENCE):
            while ((await client.get(ROLLOUTS, NAME, space)).get("status") or {}).get(
                "phase"
            ) != rollout_labels.HEALTHY:
                await asyncio.sleep(0.1)
            while not await is_labelled(client, STATEFUL_SETS, space):
                await asyncio.sleep(0.1)
        await client.patch(STATEFUL_SETS, NAME, space, {"spec": {"template": {"spec": pod(V2)}}})
        await _approved(client, space, 1)
        async with asyncio.timeout(PATIENCE):
            while await _images(client, space) != [V2, V2, V2]:
                await asyncio.sleep(0.1)
