"""Traffic of a release and the data plane together: a real client, no request lost, none to the wrong version."""

import asyncio
from collections.abc import Mapping

import msgspec
import pytest
from tests.cluster.gateway.plane import GATEWAY, Stage, backend, http_route, ingress, stage
from tests.machine_load import within

from kohort.cluster.gateway.views import GATEWAYS
from kohort.kube.resources import HTTP_ROUTES, INGRESSES, SERVICES
from kohort.objects.json_types import JsonObject
from kohort.rollouts.action_result import Done, Problem, Waiting
from kohort.rollouts.traffic.model import (
    GatewayRef,
    HeaderMatch,
    IngressRef,
    Match,
    RouteRef,
    Selectors,
    TrafficRequest,
    TrafficStep,
)
from kohort.rollouts.traffic.routing import ClusterTraffic

OWNER = {
    "apiVersion": "rollouts.kruise.io/v1beta1",
    "kind": "Rollout",
    "name": "llm",
    "uid": "0b2f5d9e-0000-4000-8000-000000000001",
    "controller": True,
}
REQUESTS = 2000


class Release:
    def __init__(self, scene: Stage, ref: RouteRef) -> None:
        self.scene = scene
        self.traffic = ClusterTraffic(scene.cluster.client)
        self.request = TrafficRequest("default", OWNER, (ref,), selectors=Selectors("rev", "v1", "v2"))
        self.grace_times: Mapping[str, str] = {}

    async def finish(self, operation: str, step: TrafficStep | None = None) -> None:
        while True:
            request = msgspec.structs.replace(self.request, step=step or TrafficStep(), grace_times=self.grace_times)
            match await getattr(self.traffic, operation)(request):
                case Done(grace_times=times):
                    self.grace_times = self.grace_times if times is None else times
                    return
                case Waiting(seconds=seconds, grace_times=times):
                    self.grace_times = self.grace_times if times is None else times
                    await asyncio.sleep(seconds)
                case Problem(text=text):
                    raise AssertionError(text)


class Client:
    """Requests without a pause; what came back, in order."""

    def __init__(self, scene: Stage) -> None:
        self.scene = scene
        self.answers: list[tuple[int, str]] = []
        self.ended = False

    async def run(self) -> None:
        while not self.ended:
            self.answers.append(await self.scene.get())


def by_ingress() -> tuple[RouteRef, list[tuple[object, JsonObject]]]:
    return RouteRef("llm", 1, ingress=IngressRef("llm")), [(INGRESSES, ingress("llm", "llm"))]


def by_gateway() -> tuple[RouteRef, list[tuple[object, JsonObject]]]:
    route = http_route({"backendRefs": [backend("llm")]})
    return RouteRef("llm", 1, gateway=GatewayRef("llm")), [(GATEWAYS, GATEWAY), (HTTP_ROUTES, route)]


@pytest.mark.parametrize("way", [by_ingress, by_gateway])
async def test_a_release_loses_no_request_and_keeps_its_shares(way) -> None:  # type: ignore[no-untyped-def]
    ref, objects = way()
    async with stage("stable", "canary") as scene:
        client = scene.cluster.client
        await client.delete(SERVICES, "llm-canary", "default")
        for resource, obj in objects:
            await client.create(resource, obj)
        await scene.open()
        release, user = Release(scene, ref), Client(scene)
        running = [asyncio.ensure_future(user.run()) for _ in range(2)]
        try:
            await whole(scene, release, user)
        finally:
            user.ended = True
            await asyncio.gather(*running)
        assert {status for status, _ in user.answers} == {200}
        for operation in ("unpin_stable", "remove_canary_service"):
            await release.finish(operation)
        await release.traffic.close()
        assert scene.cluster.find(SERVICES, "llm-canary", "default") is None


async def whole(scene: Stage, release: Release, user: Client) -> None:
    await release.finish("pin_stable")
    await release.finish("route", TrafficStep(matches=(Match(headers=(HeaderMatch("user", "demo"),)),)))
    assert await scene.count(200, headers={"user": "demo"}) == {"canary": 200}
    assert set(user.answers) == {(200, "stable")}, "only who asks for it gets the canary"
    for weight in (20, 50, 100):
        await release.finish("route", TrafficStep(weight))
        await settled(scene, weight)
        seen = await scene.count(REQUESTS)
        assert abs(100 * seen.get("canary", 0) / REQUESTS - weight) <= 3, (weight, seen)
    start = asyncio.get_running_loop().time()
    back = asyncio.ensure_future(release.finish("route_all_to_stable"))
    await settled(scene, 0)
    assert asyncio.get_running_loop().time() - start < within(1.0), "back within a second, before the grace period"
    await back
    assert await scene.count(200) == {"stable": 200}


async def settled(scene: Stage, weight: int) -> None:
    """Until the proxy has seen the last change: its table says the weight."""

    def share() -> float:
        assert scene.plane.proxy is not None
        weights = next(route for route in scene.plane.proxy.table if not route.match.headers).weights()
        return 100 * weights.get("llm-canary", 0) / sum(weights.values())

    await scene.cluster.until(lambda: share() == weight, timeout=10)
