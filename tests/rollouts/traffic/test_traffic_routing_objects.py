"""TrafficRouting objects: their phases, sharing, and the order of deletion."""

import pytest
from tests.builders import service
from tests.rollouts.traffic.test_routing_on_a_cluster import user_ingress

from kohort.kube.errors import Invalid
from kohort.kube.manager import Manager
from kohort.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, INGRESSES, SERVICES, TRAFFIC_ROUTINGS
from kohort.objects.json_types import JsonObject
from kohort.rollouts import crd
from kohort.rollouts.action_result import DONE, Waiting
from kohort.rollouts.traffic import trafficrouting_phases
from kohort.rollouts.traffic.actions import CheckReferences, RouteAllToStable, RouteStep, TrafficAction
from kohort.rollouts.traffic.registration import register
from kohort.testing import Cluster
from kohort.testing.crashes import crash_at_every_write

WAIT = Waiting("waiting", 3)
CHECK, ROUTE, RESTORE = CheckReferences(), RouteStep(), RouteAllToStable()
OWN, FIRST, SECOND = (
    "rollouts.kruise.io/trafficrouting",
    "progressing.rollouts.kruise.io/first",
    "progressing.rollouts.kruise.io/second",
)


@pytest.mark.parametrize(
    ("phase", "used", "deleting", "action", "done", "waiting"),
    [
        ("", False, False, None, "Initial", "Initial"),
        ("Initial", False, False, CHECK, "Healthy", "Initial"),
        ("Healthy", False, False, None, "Healthy", "Healthy"),
        ("Healthy", True, False, None, "Progressing", "Progressing"),
        ("Progressing", True, False, ROUTE, "Progressing", "Progressing"),
        ("Progressing", False, False, None, "Finalizing", "Progressing"),
        ("Finalizing", False, False, RESTORE, "Healthy", "Finalizing"),
        ("Finalizing", True, False, None, "Progressing", "Finalizing"),
        ("Progressing", True, True, RESTORE, "Terminating", "Terminating"),
        ("Terminating", False, True, RESTORE, "Terminating", "Terminating"),
    ],
)
def test_phases(phase: str, used: bool, deleting: bool, action: TrafficAction | None, done: str, waiting: str) -> None:
    assert trafficrouting_phases.decide(phase, used=used, deleting=deleting) == action
    after = trafficrouting_phases.decide_after(phase, DONE, used=used, deleting=deleting)
    assert after.phase == done
    assert after.released is deleting
    still = trafficrouting_phases.decide_after(phase, WAIT, used=used, deleting=deleting)
    assert still.phase == waiting
    assert not still.released


def plug(manager: Manager) -> None:
    async def prepare() -> None:
        await manager.client.apply(CUSTOM_RESOURCE_DEFINITIONS, {**crd.traffic_routing()}, field_manager="test")

    manager.prepare(prepare)
    register(manager)


def routing(weight: int = 20, ingress: str = "llm") -> JsonObject:
    ref = {"service": "llm", "ingress": {"name": ingress, "classType": "nginx"}}
    metadata = {"name": "shared", "namespace": "default"}
    return {"metadata": metadata, "spec": {"objectRef": [ref], "strategy": {"weight": weight}}}


class Scene:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def prepare(self) -> "Scene":
        client = self.cluster.client
        await client.create(SERVICES, service("llm").selecting(app="llm").port(80))
        await client.create(INGRESSES, user_ingress())
        await client.create(TRAFFIC_ROUTINGS, routing())
        await self.cluster.until(lambda: self.phase == "Healthy")
        return self

    @property
    def object(self) -> JsonObject:
        found = self.cluster.find(TRAFFIC_ROUTINGS, "shared", "default")
        assert found is not None
        return found

    @property
    def phase(self) -> str:
        return str((self.object.get("status") or {}).get("phase", ""))

    @property
    def weight(self) -> str | None:
        canary = self.cluster.find(INGRESSES, "llm-canary", "default")
        return (
            None
            if canary is None
            else canary["metadata"]["annotations"].get("nginx.ingress.kubernetes.io/canary-weight")
        )

    async def used_by(self, *finalizers: str) -> None:
        body = {"metadata": {"finalizers": [OWN, *finalizers]}}
        await self.cluster.client.patch(TRAFFIC_ROUTINGS, "shared", "default", body)


async def test_routes_follow_the_rollouts_that_use_them() -> None:
    async with Cluster(extra={"traffic": plug}) as cluster:
        scene = await Scene(cluster).prepare()
        assert scene.weight is None
        assert scene.object["metadata"]["finalizers"] == [OWN]
        await scene.used_by(FIRST, SECOND)
        await cluster.until(lambda: scene.weight == "20")
        assert scene.phase == "Progressing"
        await scene.used_by(SECOND)
        await cluster.settle()
        assert scene.weight == "20", "one of them still needs it"
        await cluster.client.patch(TRAFFIC_ROUTINGS, "shared", "default", {"spec": {"strategy": {"weight": 70}}})
        await cluster.until(lambda: scene.weight == "70")
        await cluster.client.delete(INGRESSES, "llm-canary", "default")
        await cluster.until(lambda: scene.weight == "70")
        await scene.used_by()
        await cluster.until(lambda: scene.phase == "Healthy")
        assert scene.weight is None
        await cluster.settle()
        assert scene.object["status"]["message"] == "TrafficRouting is Healthy"
        assert not scene.object["metadata"].get("annotations")
        live = cluster.find(SERVICES, "llm", "default")
        assert live is not None and live["spec"]["selector"] == {"app": "llm"}
        assert cluster.find(SERVICES, "llm-canary", "default") is None


async def test_w10_routes_are_restored_before_the_object_goes() -> None:
    async with Cluster(extra={"traffic": plug}) as cluster:
        scene = await Scene(cluster).prepare()
        await scene.used_by(FIRST)
        await cluster.until(lambda: scene.weight == "20")
        await cluster.client.delete(TRAFFIC_ROUTINGS, "shared", "default")
        await cluster.until(lambda: OWN not in scene.object["metadata"]["finalizers"])
        assert scene.weight is None
        assert scene.phase == "Terminating"
        await cluster.client.patch(TRAFFIC_ROUTINGS, "shared", "default", {"metadata": {"finalizers": []}})
        await cluster.until(lambda: cluster.find(TRAFFIC_ROUTINGS, "shared", "default") is None)


async def test_what_is_missing_is_said_in_status_and_event_and_waited_for() -> None:
    async with Cluster(extra={"traffic": plug}) as cluster:
        await cluster.client.create(SERVICES, service("llm").selecting(app="llm").port(80))
        await cluster.client.create(TRAFFIC_ROUTINGS, routing())
        scene = Scene(cluster)
        missing = "Ingress default/llm (objectRef[0].ingress.name) does not exist; create it or name another"
        await cluster.until(lambda: (scene.object.get("status") or {}).get("message") == missing)
        assert scene.phase == "Initial"
        await cluster.until(lambda: any(one["reason"] == "TrafficRoutingFailed" for one in cluster.objects(EVENTS)))
        await cluster.client.create(INGRESSES, user_ingress())
        await cluster.until(lambda: scene.phase == "Healthy")


@pytest.mark.parametrize("weight", [-1, 101])
async def test_a_share_that_is_none_is_refused(weight: int) -> None:
    async with Cluster(extra={"traffic": plug}) as cluster:
        shared = routing()
        shared["spec"]["strategy"]["weight"] = weight
        with pytest.raises(Invalid, match=r"spec\.strategy\.weight"):
            await cluster.client.create(TRAFFIC_ROUTINGS, shared)


async def test_a_restart_in_the_middle_comes_to_the_same_end() -> None:
    async with Cluster(extra={"traffic": plug}) as cluster:
        scene = await Scene(cluster).prepare()
        await scene.used_by(FIRST)
        for _ in range(6):
            await cluster.parts["traffic"].crash()
            await cluster.parts["traffic"].restart()
        await cluster.until(lambda: scene.weight == "20")
        await scene.used_by()
        await cluster.parts["traffic"].restart()
        await cluster.until(lambda: scene.phase == "Healthy")
        assert scene.weight is None


def test_dying_at_any_write_comes_to_the_same_end() -> None:
    async def story(cluster: Cluster) -> None:
        scene = await Scene(cluster).prepare()
        await scene.used_by(FIRST)
        await cluster.until(lambda: scene.weight == "20")
        await cluster.settle()
        await scene.used_by()
        await cluster.until(lambda: scene.phase == "Healthy")
        await cluster.settle()
        assert scene.weight is None
        assert [one["metadata"]["name"] for one in cluster.objects(INGRESSES, "default")] == ["llm"]
        assert not scene.object["metadata"].get("annotations")

    crash_at_every_write(lambda: Cluster(extra={"traffic": plug}), "traffic", story)
