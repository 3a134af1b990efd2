"""Operations on a cluster: order, grace periods, idempotence, restoring, problems in words."""

import asyncio
import re
from collections.abc import Mapping

import msgspec
import pytest
from tests.builders import container, pod, service
from tests.rollouts.routes import VIRTUAL_SERVICES, free_definition

from kohort.kube import clock
from kohort.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    ENDPOINT_SLICES,
    HTTP_ROUTES,
    HTTP_ROUTES_V1BETA1,
    INGRESSES,
    NAMESPACES,
    PODS,
    SERVICES,
    Resource,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.action_result import ActionResult, Done, Problem, Waiting
from kohort.rollouts.traffic.model import (
    GatewayRef,
    HeaderMatch,
    IngressRef,
    Match,
    NetworkRef,
    RouteRef,
    Selectors,
    TrafficRequest,
    TrafficStep,
)
from kohort.rollouts.traffic.routing import ClusterTraffic
from kohort.testing import Cluster

REVISION = "leaderworkerset.sigs.k8s.io/template-revision-hash"
WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
OWNER = {
    "apiVersion": "rollouts.kruise.io/v1beta1",
    "kind": "Rollout",
    "name": "llm",
    "uid": "0b2f5d9e-0000-4000-8000-000000000001",
    "controller": True,
    "blockOwnerDeletion": True,
}
SELECTORS = Selectors(REVISION, "v1", "v2", {WORKER: "0"})
NO_STEP = TrafficStep()


def user_ingress() -> JsonObject:
    backend = {"service": {"name": "llm", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    rules = [{"host": "a.example.com", "http": {"paths": paths}}]
    return {"metadata": {"name": "llm", "namespace": "default"}, "spec": {"ingressClassName": "nginx", "rules": rules}}


def user_route() -> JsonObject:
    backend = {"group": "", "kind": "Service", "name": "llm", "port": 80, "weight": 3}
    matches = [{"path": {"type": "PathPrefix", "value": "/"}}]
    return {
        "metadata": {"name": "llm", "namespace": "default", "annotations": {"mine": "x"}},
        "spec": {"rules": [{"matches": matches, "backendRefs": [backend]}]},
    }


def slice_for(name: str, ready: bool = True) -> JsonObject:
    return {
        "metadata": {"name": f"{name}-1", "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
        "ports": [{"port": 8000}],
    }


BY_INGRESS = RouteRef("llm", 3, ingress=IngressRef("llm"))
BY_GATEWAY = RouteRef("llm", 3, gateway=GatewayRef("llm"))
BY_ISTIO = RouteRef("llm", 3, custom_network_refs=(NetworkRef("networking.istio.io/v1", "VirtualService", "llm"),))
EVERYTHING = RouteRef("llm", 3, IngressRef("llm"), GatewayRef("llm"), BY_ISTIO.custom_network_refs)


class Story:
    """A caller that stores grace times and nothing else. Each call goes to a new object, as after a restart."""

    def __init__(self, cluster: Cluster, *refs: RouteRef) -> None:
        self.cluster = cluster
        self.refs = refs
        self.grace_times: Mapping[str, str] = {}
        self.results: list[ActionResult] = []

    async def prepare(self, routes: Resource = HTTP_ROUTES) -> "Story":
        client = self.cluster.client
        await client.create(SERVICES, service("llm").selecting(app="llm").port(80, target=8000))
        await client.create(INGRESSES, user_ingress())
        for resource in (routes, VIRTUAL_SERVICES):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, free_definition(resource))
        await asyncio.sleep(1)
        await client.create(routes, user_route())
        spec = {"hosts": ["a"], "http": [{"route": [{"destination": {"host": "llm"}}]}]}
        await client.create(VIRTUAL_SERVICES, {"metadata": {"name": "llm", "namespace": "default"}, "spec": spec})
        await client.create(ENDPOINT_SLICES, slice_for("llm-canary"))
        return self

    def request(self, step: TrafficStep = NO_STEP, **more: Json) -> TrafficRequest:
        given: Json = {"selectors": SELECTORS, **more}
        return TrafficRequest("default", OWNER, self.refs, step=step, grace_times=self.grace_times, **given)

    async def ask(self, operation: str, step: TrafficStep = NO_STEP, **more: Json) -> ActionResult:
        traffic = ClusterTraffic(self.cluster.client)
        try:
            result: ActionResult = await getattr(traffic, operation)(self.request(step, **more))
        finally:
            await traffic.close()
        if result.grace_times is not None:
            self.grace_times = result.grace_times
        self.results.append(result)
        return result

    async def waits(self, operation: str, step: TrafficStep = NO_STEP) -> Waiting:
        result = await self.ask(operation, step)
        assert isinstance(result, Waiting), result
        return result

    async def finish(self, operation: str, step: TrafficStep = NO_STEP, **more: Json) -> float:
        """Ask until it is done; how long that took."""
        clock_of_loop = asyncio.get_running_loop().time
        start = clock_of_loop()
        for _ in range(50):
            result = await self.ask(operation, step, **more)
            match result:
                case Done():
                    return clock_of_loop() - start
                case Waiting(seconds=seconds):
                    await asyncio.sleep(seconds)
                case Problem(text=text):
                    raise AssertionError(text)
        raise AssertionError(f"{operation} is never done")

    def object(self, resource: Resource, name: str) -> JsonObject:
        found = self.cluster.find(resource, name, "default")
        assert found is not None
        return found


def without_traces(obj: JsonObject) -> JsonObject:
    metadata = {
        key: value
        for key, value in obj["metadata"].items()
        if key not in ("resourceVersion", "managedFields", "generation")
    }
    return {**obj, "metadata": metadata}


@pytest.mark.parametrize("ref", [BY_INGRESS, BY_GATEWAY, BY_ISTIO], ids=["ingress", "gateway", "istio"])
async def test_a_release_leaves_no_trace_of_itself(ref: RouteRef) -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, ref).prepare()
        kinds = (SERVICES, INGRESSES, HTTP_ROUTES, VIRTUAL_SERVICES)
        before = [without_traces(obj) for kind in kinds for obj in cluster.objects(kind, "default")]
        assert isinstance(await story.ask("check"), Done)
        await story.finish("pin_stable")
        match = Match(headers=(HeaderMatch("user", "demo"),))
        for step in (TrafficStep(matches=(match,)), TrafficStep(20), TrafficStep(50), TrafficStep(100)):
            await story.finish("route", step)
            writes = cluster.writes
            assert isinstance(await story.ask("route", step), Done)
            assert cluster.writes == writes, "nothing is written when nothing changes"
        await story.finish("route_all_to_new")
        for operation in ("route_all_to_stable", "unpin_stable", "remove_canary_service"):
            await story.finish(operation)
        assert [without_traces(obj) for kind in kinds for obj in cluster.objects(kind, "default")] == before
        assert story.grace_times == {}


async def test_the_order_of_a_first_weighted_step() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_INGRESS).prepare()
        took = await story.finish("route", TrafficStep(20), since=clock.now())
        texts = [result.text for result in story.results if isinstance(result, Waiting) and result.changed]
        assert len(texts) == 3
        assert "create Service llm-canary" in texts[0] and "pin Service llm" in texts[0]
        assert "create Ingress llm-canary without traffic" in texts[1]
        assert "canary-weight=20" in texts[2]
        assert 12 <= took < 13, "four times the grace period: pods, Services, Ingress, weight"


async def test_w02_a_change_is_noted_before_it_is_made_and_waits_are_kept_over_restarts() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_INGRESS).prepare()
        noted = await story.waits("pin_stable")
        assert (noted.seconds, noted.changed) == (0.0, False)
        assert REVISION not in story.object(SERVICES, "llm")["spec"]["selector"]
        made = await story.waits("pin_stable")
        assert (made.changed, made.seconds) == (True, 3)
        await asyncio.sleep(1)
        assert 1.9 < (await story.waits("pin_stable")).seconds <= 2.0
        await asyncio.sleep(2)
        assert isinstance(await story.ask("pin_stable"), Done)


async def test_w02_a_crash_between_a_change_and_its_answer_does_not_skip_the_grace_period() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_INGRESS).prepare()
        await story.finish("route", TrafficStep(20))
        noted = await story.waits("route_all_to_stable")
        await story.ask("route_all_to_stable")
        assert noted.grace_times is not None
        story.grace_times = noted.grace_times
        assert cluster.find(INGRESSES, "llm-canary", "default") is None
        assert (await story.waits("route_all_to_stable")).seconds > 2


async def test_a_grace_of_zero_waits_for_nothing_when_a_release_ends() -> None:
    async with Cluster() as cluster:
        hasty = msgspec.structs.replace(BY_GATEWAY, grace_period_seconds=0)
        story = await Story(cluster, hasty).prepare()
        await story.finish("route", TrafficStep(20))
        result = await story.ask("route_all_to_stable")
        assert isinstance(result, Done) and result.changed
        assert story.object(HTTP_ROUTES, "llm")["spec"] == user_route()["spec"]


async def test_traffic_waits_for_a_ready_endpoint() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_GATEWAY).prepare()
        await cluster.client.update(ENDPOINT_SLICES, slice_for("llm-canary", ready=False))
        for _ in range(10):
            result = await story.waits("route", TrafficStep(20))
            await asyncio.sleep(result.seconds)
        assert "llm-canary has no ready endpoint" in result.text
        assert story.object(HTTP_ROUTES, "llm")["spec"] == user_route()["spec"]
        await cluster.client.update(ENDPOINT_SLICES, slice_for("llm-canary"))
        await story.finish("route", TrafficStep(20))
        await cluster.client.update(ENDPOINT_SLICES, slice_for("llm-canary", ready=False))
        lost = await story.ask("route", TrafficStep(20))
        assert [event.reason for event in lost.events] == ["CanaryUnavailable"]


async def test_a_ready_pod_on_loopback_counts_although_no_slice_can_name_it() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_GATEWAY).prepare()
        await cluster.client.delete(ENDPOINT_SLICES, "llm-canary-1", "default")
        leader = pod("new-0").labels({"app": "llm", REVISION: "v2", WORKER: "0"})
        await cluster.client.create(PODS, leader)
        status = {"podIP": "127.16.0.1", "conditions": [{"type": "Ready", "status": "False"}]}
        await cluster.client.patch(PODS, "new-0", "default", {"status": status}, subresource="status")
        for _ in range(8):
            result = await story.waits("route", TrafficStep(20))
            await asyncio.sleep(result.seconds)
        assert "no ready endpoint" in result.text
        status["conditions"] = [{"type": "Ready", "status": "True"}]
        await cluster.client.patch(PODS, "new-0", "default", {"status": status}, subresource="status")
        await story.finish("route", TrafficStep(20))


async def test_row_36_all_providers_of_a_reference_are_driven() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, EVERYTHING).prepare()
        await story.finish("route", TrafficStep(20))
        weight = story.object(INGRESSES, "llm-canary")["metadata"]["annotations"]
        assert weight["nginx.ingress.kubernetes.io/canary-weight"] == "20"
        (rule,) = story.object(HTTP_ROUTES, "llm")["spec"]["rules"]
        assert [one["weight"] for one in rule["backendRefs"]] == [80, 20]
        (istio,) = story.object(VIRTUAL_SERVICES, "llm")["spec"]["http"]
        assert [one["weight"] for one in istio["route"]] == [80, 20]
        await story.finish("route_all_to_stable")
        assert story.object(HTTP_ROUTES, "llm")["spec"] == user_route()["spec"]
        assert "weight" not in story.object(VIRTUAL_SERVICES, "llm")["spec"]["http"][0]["route"][0]


async def test_a_cluster_that_serves_routes_only_in_v1beta1() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_GATEWAY).prepare(HTTP_ROUTES_V1BETA1)
        assert isinstance(await story.ask("check"), Done)
        await story.finish("route", TrafficStep(20))
        (rule,) = story.object(HTTP_ROUTES_V1BETA1, "llm")["spec"]["rules"]
        assert [one["weight"] for one in rule["backendRefs"]] == [80, 20]
        await story.finish("route_all_to_new")
        await story.finish("route_all_to_stable")
        assert story.object(HTTP_ROUTES_V1BETA1, "llm")["spec"] == user_route()["spec"]


async def test_ending_a_release_whose_objects_are_gone_is_no_obstacle() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, EVERYTHING).prepare()
        await story.finish("route", TrafficStep(20))
        for resource in (INGRESSES, HTTP_ROUTES, VIRTUAL_SERVICES, SERVICES):
            await cluster.client.delete(resource, "llm", "default")
        for operation in ("route_all_to_stable", "unpin_stable", "remove_canary_service"):
            await story.finish(operation, selectors=Selectors(""))
        assert cluster.objects(INGRESSES, "default") == []
        assert [one["metadata"]["name"] for one in cluster.objects(SERVICES, "default")] in ([], ["kubernetes"])


@pytest.mark.parametrize("resource", [SERVICES, HTTP_ROUTES, INGRESSES, VIRTUAL_SERVICES], ids=lambda one: one.kind)
async def test_a_release_can_succeed_without_what_was_deleted_meanwhile(resource: Resource) -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, EVERYTHING).prepare()
        await story.finish("route", TrafficStep(50))
        await cluster.client.delete(resource, "llm", "default")
        for operation in ("route_all_to_new", "unpin_stable", "route_all_to_stable", "remove_canary_service"):
            await story.finish(operation)
        assert cluster.find(SERVICES, "llm-canary", "default") is None


async def test_no_references_are_always_done() -> None:
    async with Cluster() as cluster:
        story = Story(cluster)
        for operation in (
            "check",
            "pin_stable",
            "route",
            "route_all_to_new",
            "route_all_to_stable",
            "unpin_stable",
            "remove_canary_service",
        ):
            assert isinstance(await story.ask(operation, TrafficStep(5)), Done)


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        (RouteRef("nobody", ingress=IngressRef("llm")), "Service default/nobody .*does not exist; create it"),
        (RouteRef("llm", ingress=IngressRef("nobody")), "Ingress default/nobody .*does not exist"),
        (RouteRef("llm", ingress=IngressRef("llm", "exotic")), r"exotic lua script is not found.*ConfigMap"),
        (RouteRef("llm", gateway=GatewayRef("nobody")), "HTTPRoute default/nobody .*does not exist"),
        (RouteRef("llm", custom_network_refs=(NetworkRef("v1", "Nothing", "x"),)), "serves no kind Nothing in v1"),
        (
            RouteRef("llm", custom_network_refs=(NetworkRef("networking.istio.io/v1", "VirtualService", "x"),)),
            "VirtualService default/x .*does not exist",
        ),
        (
            RouteRef("llm", custom_network_refs=(NetworkRef("v1", "Service", "llm"),)),
            r"no script.* ConfigMap kruise-rollout/kruise-rollout-configuration .*lua\.traffic\.routing\.Service\.",
        ),
    ],
)
async def test_what_is_missing_is_named_with_its_remedy(ref: RouteRef, words: str) -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, ref).prepare()
        writes = cluster.writes
        result = await story.ask("check")
        assert isinstance(result, Problem)
        assert re.search(words, result.text), result.text
        assert cluster.writes == writes


async def test_leaders_are_looked_at_before_a_release() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_INGRESS).prepare()
        for index in ("0", "1"):
            member = pod(f"llm-0-{index}").labels({"app": "llm", WORKER: index}).containers(container())
            await cluster.client.create(PODS, member)
        result = await story.ask("check")
        assert isinstance(result, Done)
        assert [event.reason for event in result.events] == ["ServiceSelectsWorkers"]


async def configure(cluster: Cluster, **scripts: str) -> None:
    await cluster.client.create(NAMESPACES, {"metadata": {"name": "kruise-rollout"}})
    data = {f"lua.traffic.routing.{key}": script for key, script in scripts.items()}
    metadata = {"name": "kruise-rollout-configuration", "namespace": "kruise-rollout"}
    await cluster.client.create(CONFIG_MAPS, {"metadata": metadata, "data": data})


async def test_a_script_of_the_user_counts_before_the_built_in_class() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_INGRESS).prepare()
        script = 'obj.annotations["mine/weight"] = obj.weight .. obj.canaryService return obj.annotations'
        await configure(cluster, **{"ingress.nginx": script})
        await story.finish("route", TrafficStep(20))
        assert story.object(INGRESSES, "llm-canary")["metadata"]["annotations"] == {"mine/weight": "20llm-canary"}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("while true do end", "did not finish within 1 s"),
        ("local t = {} while true do t[#t + 1] = {} end", "memory"),
        ("return 5", "table of texts"),
        ("return { a = { b = 1 } }", "table of texts"),
    ],
)
async def test_a_bad_script_is_a_problem_in_words_and_changes_nothing(script: str, words: str) -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_INGRESS).prepare()
        await configure(cluster, **{"ingress.nginx": script})
        result = await story.ask("route", TrafficStep(20))
        while isinstance(result, Waiting):
            await asyncio.sleep(result.seconds)
            result = await story.ask("route", TrafficStep(20))
        assert isinstance(result, Problem)
        assert words in result.text and "lua.traffic.routing.ingress.nginx" in result.text
        assert cluster.find(INGRESSES, "llm-canary", "default") is None


async def test_a_shared_service_is_neither_copied_nor_pinned() -> None:
    async with Cluster() as cluster:
        story = await Story(cluster, BY_ISTIO).prepare()
        before = story.object(SERVICES, "llm")
        await story.finish("pin_stable", generates_canary_service=False)
        await story.finish("route", TrafficStep(30), generates_canary_service=False)
        assert story.object(SERVICES, "llm") == before
        assert cluster.find(SERVICES, "llm-canary", "default") is None
        (istio,) = story.object(VIRTUAL_SERVICES, "llm")["spec"]["http"]
        assert istio["route"][1] == {"destination": {"host": "llm", "subset": "canary"}, "weight": 30}
