"""What a release needs and how long it takes: foreseen before its first step, and compared with what then happens."""

from typing import Any

import msgspec
import pytest
from tests.builders import pod
from tests.rollouts import deployments
from tests.rollouts.observations import rollout
from tests.rollouts.releases import (
    BLUE_GREEN_STEPS,
    CANARY_STEPS,
    V2,
    Story,
    group_set,
    release_cluster,
)
from tests.rollouts.releases import rollout as rollout_document
from tests.rules.test_start_times import started

from kohort.groups.planned_groups import plan_group
from kohort.kube import clock
from kohort.kube.resources import DEPLOYMENTS, NODES, STATEFUL_SETS, Resource
from kohort.objects.apps import Deployment, StatefulSet
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts import messages
from kohort.rollouts.forecast_types import ReleaseForecast
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.release_forecast import ClusterRoom, Released, forecast_release, replaced_at_once
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import group_labels
from kohort.testing.request_matching import reads

UNROUTED: list[JsonObject] = [{"replicas": "50%", "pause": {"duration": 100}}, {"replicas": "100%", "pause": {}}]


def node(cores: int, name: str = "a") -> Node:
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": {"cpu": str(cores), "pods": "100"}, "conditions": conditions}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


def room(*nodes: Node) -> ClusterRoom:
    return ClusterRoom(nodes, plan_group)


def groups(replicas: int = 4, size: int = 2, **rolling: Json) -> GroupSet:
    """Each pod asks for one core."""
    document = group_set(replicas=replicas, size=size)
    containers = document["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
    containers[0]["resources"] = {"requests": {"cpu": "1"}}
    document["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": rolling}
    return msgspec.convert(msgspec.to_builtins(document), GroupSet)


def workload(kind: str, replicas: int, **strategy: Json) -> tuple[JsonObject, JsonObject]:
    ref = {"apiVersion": "apps/v1", "kind": kind, "name": "llm"}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "llm"}}, "template": {"spec": {"containers": []}}}
    return ref, {"metadata": {"name": "llm", "namespace": "default"}, "spec": {**spec, **strategy}}


def group(index: int, seconds: int, size: int = 2) -> list[Pod]:
    labels = {group_labels.NAME: "llm", group_labels.GROUP_INDEX: str(index)}
    document = msgspec.to_builtins(started(0, seconds))
    document["metadata"] |= {"namespace": "default", "labels": labels}
    return [msgspec.convert(document, Pod) for _ in range(size)]


def with_steps(steps: list[JsonObject], *, blue_green: bool = False, **more: Json) -> Rollout:
    return rollout(blue_green=blue_green, steps=steps, trafficRoutings=[], **more)


def of_kind(ref: JsonObject, found: Rollout) -> Rollout:
    document = msgspec.to_builtins(found)
    document["spec"]["workloadRef"] = ref
    return msgspec.convert(document, Rollout)


GPU = "nvidia.com/gpu"


def rack(name: str, gpus: int, **labels: str) -> Node:
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": {GPU: str(gpus), "pods": "100"}, "conditions": conditions}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "status": status}, Node)


def accelerated(annotations: JsonObject | None = None) -> GroupSet:
    """Two groups of two pods with a GPU each, which is asked for as usual: by a limit."""
    document = group_set(replicas=2, size=2)
    containers = document["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"]
    containers[0]["resources"] = {"limits": {GPU: "1"}}
    document["metadata"]["annotations"] = annotations or {}
    return msgspec.convert(msgspec.to_builtins(document), GroupSet)


@pytest.mark.parametrize(("gpus", "fitting"), [(4, 2), (3, 1), (1, 0)])
def test_accelerators_that_are_only_limited_count(gpus: int, fitting: int) -> None:
    found = forecast_release(with_steps(UNROUTED), accelerated(), room(rack("a", gpus)), [])
    assert (found.fitting, found.lacking) == (fitting, () if found.has_room else (GPU,))


def test_pods_that_keep_apart_need_a_node_each() -> None:
    ref, document = workload("Deployment", 3)
    apart = {"labelSelector": {"matchLabels": {"app": "llm"}}, "topologyKey": "kubernetes.io/hostname"}
    document["spec"]["template"] = {
        "metadata": {"labels": {"app": "llm"}},
        "spec": {
            "containers": [],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        },
    }
    nodes = [rack(name, 8, **{"kubernetes.io/hostname": name}) for name in "ab"]
    plan = of_kind(ref, with_steps(UNROUTED))
    found = forecast_release(plan, msgspec.convert(document, Deployment), room(*nodes), [])
    assert (found.fitting, found.lacking) == (2, ())
    assert "didn't match pod anti-affinity rules" in found.reason


def test_groups_with_a_rack_to_themselves_need_a_free_one() -> None:
    """Two racks have room for eight pods, and each takes one group."""
    exclusive = accelerated({group_labels.EXCLUSIVE: "rack"})
    nodes = [rack(name, 4, rack=name) for name in ("a", "b")]
    assert forecast_release(with_steps(UNROUTED), exclusive, room(*nodes), []).has_room
    found = forecast_release(with_steps(UNROUTED), exclusive, room(*nodes[:1]), [])
    assert (found.fitting, found.lacking, found.step_without_room) == (1, (), 2)
    assert found.reason == "node label rack has 1 value, and every group needs one to itself with room for all its pods"


@pytest.mark.parametrize(
    ("cores", "fitting", "step"),
    [(8, 4, 0), (7, 3, 2), (4, 2, 2), (3, 1, 1), (0, 0, 1)],
)
def test_each_step_is_compared_with_the_room_there_is(cores: int, fitting: int, step: int) -> None:
    found = forecast_release(with_steps(UNROUTED), groups(), room(node(cores)), [])
    assert (found.replicas, found.extra_replicas) == ((2, 4), 4)
    assert (found.fitting, found.step_without_room, found.has_room) == (fitting, step, step == 0)


def test_blue_green_of_groups_needs_room_for_all_at_its_end() -> None:
    half = with_steps([{"replicas": "50%", "pause": {}}], blue_green=True)
    found = forecast_release(half, groups(), room(node(5)), [])
    assert (found.replicas, found.extra_replicas, found.fitting, found.step_without_room) == ((2,), 4, 2, 2)
    assert "the end of the release does not fit" in messages.capacity(found)


SURGING: dict[str, Any] = {"maxSurge": 1, "maxUnavailable": 0}
EAGER: dict[str, Any] = {"maxSurge": 1, "maxUnavailable": 1}


@pytest.mark.parametrize(
    ("steps", "blue_green", "rolling", "extra"),
    [
        (UNROUTED[:1], False, {}, 2),
        (UNROUTED[:1], False, SURGING, 3),
        (UNROUTED[:1], False, EAGER, 3),
        (UNROUTED[:1], False, {**SURGING, "partition": 3}, 3),
        (UNROUTED, False, SURGING, 4),
        (UNROUTED, True, SURGING, 4),
        (UNROUTED[:1], True, SURGING, 4),
    ],
)
def test_the_surge_of_the_promotion_needs_room_beside_a_canary_that_is_not_full(
    steps: list[JsonObject], blue_green: bool, rolling: dict[str, Any], extra: int
) -> None:
    found = forecast_release(with_steps(steps, blue_green=blue_green), groups(**rolling), room(node(4)), [])
    assert found.extra_replicas == extra
    assert found.step_without_room == (0 if extra == 2 else 2)


@pytest.mark.parametrize(("limits", "extra"), [(SURGING, 5), (EAGER, 4)])
def test_a_deployment_that_keeps_all_pods_needs_room_for_its_surge(limits: dict[str, Any], extra: int) -> None:
    ref, document = workload("Deployment", 4, strategy={"rollingUpdate": limits})
    plan = of_kind(ref, with_steps(UNROUTED))
    assert forecast_release(plan, msgspec.convert(document, Deployment), None, []).extra_replicas == extra


@pytest.mark.parametrize(
    ("kind", "extra", "count"),
    [("Deployment", False, 1), ("Deployment", True, 2), ("StatefulSet", False, 2)],
    ids=["partition style of a Deployment keeps an old pod", "an extra Deployment", "partition style of a StatefulSet"],
)
def test_a_percentage_means_what_the_controller_makes_of_it(kind: str, extra: bool, count: int) -> None:
    ref, document = workload(kind, replicas=2)
    steps: list[JsonObject] = [{"replicas": "90%", "pause": {}}]
    plan = of_kind(ref, with_steps(steps, enableExtraWorkloadForCanary=extra))
    view: type[Deployment] | type[StatefulSet] = Deployment if kind == "Deployment" else StatefulSet
    found = forecast_release(plan, msgspec.convert(document, view), room(), [])
    assert found.replicas == (count,)


def test_partition_style_needs_no_room() -> None:
    ref, document = workload("StatefulSet", 4)
    plan = of_kind(ref, with_steps(UNROUTED))
    found = forecast_release(plan, msgspec.convert(document, StatefulSet), room(node(0)), [])
    assert (found.extra_replicas, found.fitting, found.has_room) == (0, None, True)
    assert messages.capacity(found) == ""


LIMITS = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}


@pytest.mark.parametrize(
    ("subject", "pace"),
    [
        (groups(4), 1),
        (groups(4, maxUnavailable=2), 2),
        (groups(4, maxUnavailable="50%", maxSurge=1), 3),
        (groups(4, maxUnavailable=0, maxSurge=0), 1),
        (msgspec.convert(workload("StatefulSet", 4)[1], StatefulSet), 1),
        (msgspec.convert(workload("Deployment", 4)[1], Deployment), 2),
        (msgspec.convert(workload("Deployment", 4, strategy=LIMITS)[1], Deployment), 2),
    ],
)
def test_the_pace_of_the_rolling_update(subject: Released, pace: int) -> None:
    assert replaced_at_once(subject) == pace


@pytest.mark.parametrize(
    ("plan", "subject", "seconds"),
    [
        # 3 s to settle, two starts of steps, a pause of 100 s; then the stable set, group by group
        (with_steps(UNROUTED), groups(), 3 + 2 * 40 + 100 + 4 * 40),
        (with_steps(UNROUTED), groups(maxUnavailable=2), 3 + 2 * 40 + 100 + 2 * 40),
        (with_steps(UNROUTED, blue_green=True), groups(), 3 + 2 * 40 + 100 + 40),
        (with_steps(UNROUTED[:1], blue_green=True), groups(), 3 + 40 + 100 + 40 + 40),
        (with_steps([UNROUTED[0], UNROUTED[0]]), groups(), 3 + 40 + 200 + 4 * 40),
    ],
)
def test_the_duration_is_the_sum_of_starts_and_pauses(plan: Rollout, subject: GroupSet, seconds: int) -> None:
    running = [*group(0, 40), *group(1, 40), *group(2, 40, size=1)]
    found = forecast_release(plan, subject, None, running)
    assert (found.start_seconds, found.duration_seconds) == (40, seconds)


@pytest.mark.parametrize(("kind", "view", "rounds"), [("Deployment", Deployment, 2), ("StatefulSet", StatefulSet, 4)])
def test_pods_that_are_drained_leave_a_grace_period_before(
    kind: str, view: type[Deployment] | type[StatefulSet], rounds: int
) -> None:
    """In partition style, where they are replaced in rounds."""
    ref, document = workload(kind, 4)
    running = msgspec.to_builtins(started(0, 40))
    running["metadata"] |= {"namespace": "default", "labels": {"app": "llm"}}
    durations = []
    for seconds in (0, 60):
        routes: Json = [{"service": "llm", "gracePeriodSeconds": 5, "drainTimeoutSeconds": seconds}]
        plan = rollout(steps=UNROUTED, trafficRoutings=routes, enableExtraWorkloadForCanary=False)
        found = forecast_release(
            of_kind(ref, plan), msgspec.convert(document, view), None, [msgspec.convert(running, Pod)]
        )
        assert found.duration_seconds is not None
        durations.append(found.duration_seconds)
    assert durations[1] - durations[0] == rounds * 5


def test_without_a_ready_group_nothing_is_promised() -> None:
    found = forecast_release(with_steps(UNROUTED), groups(), None, [pod("llm-0").as_view(Pod)])
    assert (found.start_seconds, found.duration_seconds) == (None, None)
    assert messages.duration(found) == ""


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            ReleaseForecast("group", (1, 2), 2, fitting=2, start_seconds=40, duration_seconds=300, approvals=2),
            "nodes have room for the 2 groups of the new version; "
            "the release takes about 5 min, besides 2 approvals (a group starts in 40 s)",
        ),
        (
            ReleaseForecast("group", (1, 2), 2, 1, ("nvidia.com/gpu",), "", 2, 40, 90, judged=True),
            "nodes have room for 1 of the 2 groups of the new version: no node has enough nvidia.com/gpu, step 2 does "
            "not fit; the release takes about 90 s, besides its analyses (a group starts in 40 s)",
        ),
        (
            ReleaseForecast("pod", (1,), 1, 0, (), "no node is open", 1),
            "nodes have room for 0 of the one pod of the new version: no node takes their pods "
            "(no node is open), step 1 does not fit",
        ),
        (ReleaseForecast("pod", (1,), 0), "no pod shows how long a start takes"),
    ],
)
def test_the_words(found: ReleaseForecast, text: str) -> None:
    assert messages.release_forecast(found) == text


PAUSED: dict[str, Any] = {"pause": {"duration": 20}}


def automatic(steps: list[JsonObject]) -> list[JsonObject]:
    return [{**step, **PAUSED} for step in steps]


def foreseen(story: Story | deployments.Story) -> JsonObject:
    conditions = story.rollout["status"].get("conditions") or []
    return next((one for one in conditions if one["type"] == "Capacity"), {})


def seconds_in(text: str) -> float:
    number, unit = text.split("takes about ")[1].split(" ")[:2]
    return float(number) * {"s": 1, "min": 60}[unit.rstrip(",;")]


@pytest.mark.parametrize(
    "plan",
    [
        rollout_document(steps=automatic(CANARY_STEPS)),
        rollout_document(steps=automatic(BLUE_GREEN_STEPS), blue_green=True),
        rollout_document(steps=automatic(CANARY_STEPS), routed=False),
    ],
    ids=["canary", "blue-green", "without routes"],
)
async def test_a_release_of_groups_takes_about_as_long_as_its_status_says(plan: JsonObject) -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(plan=plan)
        began = clock.seconds()
        await story.change(V2)
        await story.until(lambda: "takes about" in story.rollout["status"]["message"])
        condition = foreseen(story)
        assert (condition["status"], condition["reason"]) == ("True", "RoomForAll")
        assert condition["message"].startswith("nodes have room for the 2 groups of the new version; ")
        assert story.rollout["status"]["message"].endswith(condition["message"])
        await story.healthy(V2)
        assert clock.seconds() - began == pytest.approx(seconds_in(condition["message"]), rel=0.35)


@pytest.mark.parametrize(
    ("resource", "extra"), [(DEPLOYMENTS, True), (DEPLOYMENTS, False), (STATEFUL_SETS, False)], ids=str
)
async def test_a_release_of_pods_takes_about_as_long_as_its_status_says(resource: Resource, extra: bool) -> None:
    async with deployments.story(resource) as story:
        steps = [{**step, "replicas": count} for step, count in zip(deployments.STEPS, (1, 3), strict=True)]
        plan = rollout_document(steps=automatic(steps))
        plan["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = extra
        await story.begin(plan)
        began = clock.seconds()
        await story.change(V2)
        await story.until(lambda: "takes about" in story.message)
        text = str(foreseen(story)["message"])
        assert text.startswith("nodes have room for the 3 pods") is extra
        await story.healthy(V2)
        assert clock.seconds() - began == pytest.approx(seconds_in(text), rel=0.35)


async def test_a_release_without_room_begins_all_the_same_and_says_so() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.cordon()
        await story.change(V2)
        await story.until(lambda: bool(story.canaries))
        text = "nodes have room for 0 of the 2 groups of the new version: no node takes their pods "
        text += "(12 node(s) were unschedulable), step 1 does not fit"
        assert foreseen(story)["message"].startswith(text)
        assert (foreseen(story)["status"], foreseen(story)["reason"]) == ("False", "CapacityMissing")
        await story.until(lambda: text in story.rollout["status"]["message"])
        assert [text in one for one in story.events("CapacityMissing")] == [True]
        await story.cordon(closed=False)
        await story.at(1)


async def test_nodes_that_cannot_be_read_stop_only_a_release_that_requires_room() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        cluster.faults("operator").refuse(403, on=reads(NODES), times=None)
        await story.change(V2)
        await story.at(1)
        assert (foreseen(story)["status"], foreseen(story)["reason"]) == ("Unknown", "NotReadable")
        assert "could not be read" in foreseen(story)["message"]
