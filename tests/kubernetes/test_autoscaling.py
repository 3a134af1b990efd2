"""The autoscaler of Kubernetes: it scales LeaderWorkerSets by their leaders, and ours comes to the same decisions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from tests.builders import lws, pod
from tests.cluster.workloads.autoscaling.stories import (
    API_SERVICES,
    STORIES,
    Outcome,
    Row,
    Story,
    begin,
    cpu,
    go_on,
    outcome,
    prepare,
)
from tests.cluster.workloads.autoscaling.test_stories import outcomes
from tests.kubernetes.controlplane import ControlPlane
from tests.kubernetes.test_groups import PATIENCE, pods, running, settled
from tests.kubernetes.test_pairings import component, kohort_up

from kohort.cluster.apiserver.endpoints.resource_metrics import API_SERVICE
from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.kube.resources import EVENTS, HORIZONTAL_POD_AUTOSCALERS, LEADER_WORKER_SETS, PODS
from kohort.objects.json_types import JsonObject
from kohort.rules.simulation_labels import USAGE
from kohort.testing import virtual_time

SPACE = "default"
SYNC = ("--horizontal-pod-autoscaler-sync-period=2s", "--kube-api-qps=300", "--kube-api-burst=600")
"""The autoscaler looks every two seconds, at dozens of autoscalers."""
ALONE = "--controllers=horizontal-pod-autoscaler-controller"
IMPATIENT = ("--horizontal-pod-autoscaler-cpu-initialization-period=1s",)
"""Numbers of pods that have just started count."""


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(load(kubeconfig), field_manager="test")
    try:
        yield client
    finally:
        await client.close()


# A set, with all controllers of Kubernetes


def autoscaler(least: int, most: int) -> JsonObject:
    target = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "llm"}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most, "metrics": [cpu()]}
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    return {"metadata": {"name": "llm"}, "spec": {**spec, "behavior": behavior}}


async def _use(client: Client, usage: str, *names: str) -> None:
    for name in names:
        await client.patch(PODS, name, SPACE, {"metadata": {"annotations": {USAGE: usage}}})


async def _rescales(client: Client) -> set[str]:
    events = (await client.list(EVENTS, SPACE)).items
    return {one["message"] for one in events if one["reason"] == "SuccessfulRescale"}


async def _leaders_scale_a_set(kubeconfig: Path) -> None:
    """A new leader uses a quarter of what it requests, a worker four times as much as it requests. Two leaders with
    three quarters each and two new ones are at the target of one half."""
    async with connected(kubeconfig) as client:
        await client.create(API_SERVICES, API_SERVICE)
        requesting = pod().requests(cpu="1")
        body = lws("llm").replicas(2).size(2)
        body = body.leader(requesting.annotations({USAGE: "cpu=250m"}))
        await client.create(LEADER_WORKER_SETS, body.workers(requesting.annotations({USAGE: "cpu=4"})), SPACE)
        found = await settled(client, SPACE, 2)
        selector = found["status"]["hpaPodSelector"]
        selected = (await client.list(PODS, SPACE, label_selector=selector)).items
        assert {one["metadata"]["name"] for one in selected} == {"llm-0", "llm-1"}

        await _use(client, "cpu=750m", "llm-0", "llm-1")
        await client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(1, 8), SPACE)
        await settled(client, SPACE, 4, _wants(4))
        assert len(await pods(client, SPACE)) == 8
        shown = await _until(client, lambda status: status.get("desiredReplicas") == status.get("currentReplicas") == 4)
        current = {"averageUtilization": 50, "averageValue": "500m"}
        assert shown["currentMetrics"] == [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]

        await _use(client, "cpu=10m", "llm-0", "llm-1", "llm-2", "llm-3")
        await settled(client, SPACE, 1, _wants(1))
        async with asyncio.timeout(PATIENCE):
            while set(await pods(client, SPACE)) != {"llm-0", "llm-0-1"}:
                await asyncio.sleep(0.1)
        rescales = await _rescales(client)
        assert "New size: 4; reason: cpu resource utilization (percentage of request) above target" in rescales
        assert "New size: 1; reason: All metrics below target" in rescales


def _wants(groups: int) -> Callable[[JsonObject], bool]:
    return lambda found: bool(found["spec"]["replicas"] == groups)


async def _until(client: Client, holds: Callable[[JsonObject], bool]) -> JsonObject:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await client.get(HORIZONTAL_POD_AUTOSCALERS, "llm", SPACE)
            status: JsonObject = found.get("status") or {}
            if holds(status):
                return status
            await asyncio.sleep(0.1)


def test_the_autoscaler_of_kubernetes_scales_groups_by_their_leaders(binaries: Path, tmp_path: Path) -> None:
    with (
        kohort_up(tmp_path / "data", "--parts", "apiserver,scheduler,operator", "--simulated-nodes", "4") as kubeconfig,
        component(binaries, tmp_path / "controllers", "kube-controller-manager", kubeconfig, *SYNC, *IMPATIENT),
    ):
        asyncio.run(_leaders_scale_a_set(kubeconfig))


# The same stories for both autoscalers


@pytest.fixture(scope="module")
def told(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All stories have begun, and the autoscaler of Kubernetes runs, without any other controller."""
    directory = tmp_path_factory.mktemp("stories")

    async def begin_all(kubeconfig: Path) -> None:
        async with connected(kubeconfig) as client:
            await prepare(client)
            for number, story in enumerate(STORIES):
                await begin(client, story, f"story-{number}")

    with ExitStack() as stack:
        kubeconfig = stack.enter_context(kohort_up(directory / "data", "--parts", "apiserver"))
        asyncio.run(begin_all(kubeconfig))
        manager = component(binaries, directory / "manager", "kube-controller-manager", kubeconfig, ALONE, *SYNC)
        stack.enter_context(manager)
        yield kubeconfig


def compared(found: Outcome, story: Story) -> Outcome:
    """Without what differs on purpose."""
    if story.same_words:
        return found
    return Outcome(found.row, {}, found.metrics, {(type, reason, "") for type, reason, _ in found.events})


@pytest.mark.parametrize("number", range(len(STORIES)), ids=[str(story) for story in STORIES])
def test_both_autoscalers_come_to_the_same(told: Path, number: int) -> None:
    story, namespace = STORIES[number], f"story-{number}"
    expected = [compared(one, story) for one in virtual_time.run(outcomes(story))]

    async def scenario() -> None:
        async with connected(told) as client:
            await becomes(client, expected[0])
            if story.next is not None:
                await go_on(client, story, namespace)
                await becomes(client, expected[1])

    async def becomes(client: Client, wanted: Outcome) -> None:
        found = None
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := compared(await outcome(client, namespace), story)) != wanted:
                    await asyncio.sleep(0.2)
        except TimeoutError:
            assert found == wanted

    asyncio.run(scenario())


def test_nothing_changes_any_more(told: Path) -> None:
    """The autoscaler has looked at every story many times by now."""

    async def rows() -> list[Row]:
        async with connected(told) as client:
            return [(await outcome(client, f"story-{number}")).row for number in range(len(STORIES))]

    assert asyncio.run(rows()) == [story.rows[-1] for story in STORIES]


# On the API server of Kubernetes


async def test_an_autoscaler_keeps_its_bounds_on_kubernetes(kubernetes: ControlPlane) -> None:
    """There are no metrics, but bounds hold without them."""
    async with running(kubernetes, "autoscaled") as client:
        await client.create(LEADER_WORKER_SETS, lws("llm", "autoscaled").replicas(3).size(2))
        await settled(client, "autoscaled", 3)
        await client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(1, 2), "autoscaled")
        await settled(client, "autoscaled", 2, _wants(2))
