"""Routes that were set for a step and are changed by others while it waits."""

import pytest
from tests.rollouts.routes import VIRTUAL_SERVICES
from tests.rollouts.traffic.test_routing_on_a_cluster import (
    BY_GATEWAY,
    BY_INGRESS,
    BY_ISTIO,
    REVISION,
    Story,
    slice_for,
    user_route,
)

from kohort.kube.resources import ENDPOINT_SLICES, HTTP_ROUTES, INGRESSES, SERVICES, Resource
from kohort.objects.json_types import JsonObject
from kohort.rollouts.traffic.model import RouteRef, TrafficStep
from kohort.rollouts.traffic.routing import ClusterTraffic
from kohort.testing import Cluster

STEP = TrafficStep(20)
AGAIN: JsonObject = {"spec": {"rules": user_route()["spec"]["rules"]}}
"""What `kubectl apply` of the manifest does to an HTTPRoute."""


async def drift(story: Story) -> str:
    traffic = ClusterTraffic(story.cluster.client)
    try:
        return await traffic.find_drift(story.request(STEP))
    finally:
        await traffic.close()


@pytest.mark.parametrize(
    ("ref", "resource", "name", "patch", "words"),
    [
        (BY_GATEWAY, HTTP_ROUTES, "llm", AGAIN, "HTTPRoute llm: route 20% to llm-canary"),
        (BY_GATEWAY, HTTP_ROUTES, "llm", None, "HTTPRoute default/llm"),
        (BY_INGRESS, INGRESSES, "llm-canary", None, "create Ingress llm-canary"),
        (BY_INGRESS, SERVICES, "llm-canary", None, "create Service llm-canary"),
        (BY_INGRESS, SERVICES, "llm", {"spec": {"selector": {REVISION: None}}}, "pin Service llm"),
        (BY_ISTIO, VIRTUAL_SERVICES, "llm", {"spec": {"http": []}}, "route VirtualService llm"),
    ],
)
async def test_what_others_changed_is_found_and_set_again(
    ref: RouteRef, resource: Resource, name: str, patch: JsonObject | None, words: str
) -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, ref).prepare()
        await story.finish("route", STEP)
        assert await drift(story) == ""
        if patch is None:
            await cluster.client.delete(resource, name, "default")
        else:
            await cluster.client.patch(resource, name, "default", patch)
        assert words in await drift(story)
        if (resource, patch) != (HTTP_ROUTES, None):
            await story.finish("route", STEP)
            assert await drift(story) == ""


async def test_no_route_is_missed_while_there_is_no_canary() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_GATEWAY).prepare()
        await story.finish("route", STEP)
        slow = slice_for("llm-canary", ready=False)
        await cluster.client.update(ENDPOINT_SLICES, slow, "default")
        await cluster.client.patch(HTTP_ROUTES, "llm", "default", AGAIN)
        assert await drift(story) == ""
