"""Autoscalers that are turned off for a blue-green release, and on again."""

import pytest

from kohort.kube.resources import HORIZONTAL_POD_AUTOSCALERS, Key
from kohort.objects.json_types import JsonObject
from kohort.rollouts.workloads.autoscaler_pause import set_enabled
from kohort.testing import Cluster

SET = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
KEY = Key("default", "llm")
OFF = "llm-DisableByRollout"


def autoscaler(name: str, target: str = "llm", of: tuple[str, str] = SET) -> JsonObject:
    reference = {"apiVersion": of[0], "kind": of[1], "name": target}
    return {"metadata": {"name": name}, "spec": {"maxReplicas": 4, "scaleTargetRef": reference}}


def targets(cluster: Cluster) -> dict[str, str]:
    found = cluster.objects(HORIZONTAL_POD_AUTOSCALERS, KEY.namespace)
    return {one["metadata"]["name"]: one["spec"]["scaleTargetRef"]["name"] for one in found}


async def test_every_autoscaler_of_the_workload_is_turned_off_and_on_again() -> None:
    async with Cluster() as cluster:
        for name in ("by-cpu", "by-queue"):
            await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler(name), KEY.namespace)
        assert sorted(await set_enabled(cluster.client, KEY, *SET, enabled=False)) == ["by-cpu", "by-queue"]
        assert targets(cluster) == {"by-cpu": OFF, "by-queue": OFF}
        assert sorted(await set_enabled(cluster.client, KEY, *SET, enabled=True)) == ["by-cpu", "by-queue"]
        assert targets(cluster) == {"by-cpu": "llm", "by-queue": "llm"}


@pytest.mark.parametrize("enabled", [True, False])
async def test_an_autoscaler_that_is_as_wanted_is_not_written(enabled: bool) -> None:
    async with Cluster() as cluster:
        subject = autoscaler("own", "llm" if enabled else OFF)
        made = await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, subject, KEY.namespace)
        assert await set_enabled(cluster.client, KEY, *SET, enabled=enabled) == []
        found = cluster.find(HORIZONTAL_POD_AUTOSCALERS, "own", KEY.namespace)
        assert found is not None
        assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(autoscaler("other", "llm-2"), id="of another set"),
        pytest.param(autoscaler("other", "llm", ("apps/v1", "Deployment")), id="of a Deployment of that name"),
        pytest.param(autoscaler("other", "llm", ("leaderworkerset.x-k8s.io/v2", SET[1])), id="of another version"),
        pytest.param(autoscaler("other", "DisableByRollout-llm"), id="of a set with a similar name"),
    ],
)
async def test_autoscalers_of_other_workloads_stay(subject: JsonObject) -> None:
    async with Cluster() as cluster:
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, subject, KEY.namespace)
        before = targets(cluster)
        assert await set_enabled(cluster.client, KEY, *SET, enabled=False) == []
        assert targets(cluster) == before


async def test_autoscalers_of_other_namespaces_stay() -> None:
    async with Cluster() as cluster:
        await cluster.client.create(HORIZONTAL_POD_AUTOSCALERS, autoscaler("own"), "kube-public")
        assert await set_enabled(cluster.client, KEY, *SET, enabled=False) == []
