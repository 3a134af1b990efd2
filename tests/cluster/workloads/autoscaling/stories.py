"""Situations of an autoscaler, and what its status says afterwards.

No controller acts on the set of a story, and no node runs its leaders: the test writes both by hand, so that only the
autoscaler decides. `test_stories.py` runs every story with our controller, `tests/kubernetes/test_autoscaling.py` with
that of Kubernetes.
"""

from datetime import timedelta

import msgspec
from tests.builders import Pod, container, lws, pod

from kohort.cluster.apiserver.endpoints.resource_metrics import API_SERVICE
from kohort.groups.crd import definition
from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    LEADER_WORKER_SETS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.simulation_labels import SIMULATED, USAGE

API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
MEASURED, SILENT = "measured", "silent"
"""Nodes: the pods of one have metrics, those of the other have none."""
LONG_AGO = timedelta(minutes=10)

GOOD = "True ValidMetricFound"
WITHIN = "False DesiredWithinRange"
READY = "True ReadyForNewScale"
FOUND = "True SucceededGetScale"
NO_RESOURCE = "False FailedGetResourceMetric"

AT_ONCE: JsonObject = {"scaleDown": {"stabilizationWindowSeconds": 0}}
ONE_IN_HALF_AN_HOUR: JsonObject = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1800}]}


def cpu(percent: int = 50) -> JsonObject:
    return {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}},
    }


def amount(resource: str, average: str) -> JsonObject:
    return {
        "type": "Resource",
        "resource": {"name": resource, "target": {"type": "AverageValue", "averageValue": average}},
    }


def of_container(name: str, percent: int) -> JsonObject:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": name, "target": target}}


WAITING: JsonObject = {
    "type": "Pods",
    "pods": {"metric": {"name": "waiting"}, "target": {"type": "AverageValue", "averageValue": "4"}},
}
EXTERNAL: JsonObject = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "4"}},
}
OBJECT: JsonObject = {
    "type": "Object",
    "object": {
        "metric": {"name": "requests"},
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "front"},
        "target": {"type": "Value", "value": "10"},
    },
}


def leader(usage: str = "cpu=500m", state: str = "Ready", *, body: Pod | None = None) -> Pod:
    """`state` is Ready, Unready (it never was ready), Lapsed (it was ready until a minute ago) or a phase."""
    return (body or pod().requests(cpu="1", memory="1Gi")).annotations({USAGE: usage, "state": state}).on(MEASURED)


def leaders(count: int, usage: str = "cpu=500m", state: str = "Ready") -> tuple[Pod, ...]:
    return (leader(usage, state),) * count


def silent(state: str = "Ready") -> Pod:
    return leader(state=state).on(SILENT)


class Row(msgspec.Struct, frozen=True):
    """What can be seen once nothing changes any more."""

    current: int
    desired: int
    able: str = READY
    active: str = GOOD
    limited: str = WITHIN
    sizes: tuple[int, ...] = ()
    """All that the set was scaled to, in ascending order."""


class ScaledByHand(msgspec.Struct, frozen=True):
    replicas: int
    then: Row


class SecondAutoscaler(msgspec.Struct, frozen=True):
    """Of the same set."""

    then: Row


class Story(msgspec.Struct, frozen=True):
    name: str
    leaders: tuple[Pod, ...]
    then: Row
    replicas: int | None = None
    """As many as there are leaders if not given."""
    least: int = 1
    most: int = 10
    metrics: tuple[JsonObject, ...] = (cpu(),)
    behavior: JsonObject | None = None
    target: JsonObject = {}
    """Fields of `scaleTargetRef` that differ."""
    selector: str = f"{group_labels.NAME}=llm,{group_labels.WORKER_INDEX}=0"
    next: ScaledByHand | SecondAutoscaler | None = None
    same_words: bool = True
    """Whether our messages are those of Kubernetes."""

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    @property
    def rows(self) -> list[Row]:
        """One for each outcome."""
        return [self.then] if self.next is None else [self.then, self.next.then]

    @property
    def autoscaler(self) -> JsonObject:
        target = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "llm"} | self.target
        spec = {"scaleTargetRef": target, "minReplicas": self.least, "maxReplicas": self.most}
        behavior = {"behavior": self.behavior} if self.behavior is not None else {}
        return {"metadata": {"name": "llm"}, "spec": {**spec, "metrics": list(self.metrics), **behavior}}


_SIDE = pod().containers(container("main", requests={"cpu": "1"}), container("side", requests={"cpu": "4"}))
_WHOLE = pod().but("spec.resources", {"requests": {"cpu": "2"}})
_PARTLY = pod().requests(cpu="2").but("spec.resources", {"requests": {"memory": "1Gi"}})

STORIES = [
    Story("usage above the target", leaders(2, "cpu=900m"), Row(4, 4, sizes=(4,))),
    Story("usage below the target is held", leaders(4, "cpu=100m"), Row(4, 4, "True ScaleDownStabilized")),
    Story("usage below the target", leaders(4, "cpu=100m"), Row(1, 1, sizes=(1,)), behavior=AT_ONCE),
    Story("usage within the tolerance", leaders(2, "cpu=540m"), Row(2, 2)),
    Story("usage at the edge of the tolerance", leaders(2, "cpu=550m"), Row(2, 2)),
    Story("usage beyond the tolerance", leaders(2, "cpu=560m"), Row(3, 3, sizes=(3,))),
    Story(
        "a smaller tolerance",
        leaders(2, "cpu=540m"),
        Row(3, 3, sizes=(3,)),
        behavior={"scaleUp": {"tolerance": "0.01"}},
    ),
    Story("a larger tolerance", leaders(2, "cpu=700m"), Row(2, 2), behavior={"scaleUp": {"tolerance": "0.5"}}),
    Story(
        "a larger tolerance downwards",
        leaders(2, "cpu=200m"),
        Row(2, 2),
        behavior={"scaleDown": {"stabilizationWindowSeconds": 0, "tolerance": "0.6"}},
    ),
    Story("a silent leader in a rise", (*leaders(2, "cpu=1"), silent()), Row(4, 4, sizes=(4,))),
    Story("a silent leader in a fall", (*leaders(2, "cpu=100m"), silent()), Row(3, 3), behavior=AT_ONCE),
    Story("an unready leader in a rise", (*leaders(2, "cpu=1"), leader("cpu=1", "Unready")), Row(4, 4, sizes=(4,))),
    Story(
        "an unready leader in a fall",
        (*leaders(2, "cpu=100m"), leader("cpu=1", "Unready")),
        Row(1, 1, sizes=(1,)),
        behavior=AT_ONCE,
    ),
    Story("a leader that was ready counts", (leader("cpu=1"), leader("cpu=1", "Lapsed")), Row(4, 4, sizes=(4,))),
    Story("a pending leader in a rise", (*leaders(2, "cpu=1"), leader(state="Pending")), Row(4, 4, sizes=(4,))),
    Story("a failed leader is left out", (*leaders(2, "cpu=1"), leader(state="Failed")), Row(4, 4, sizes=(4,))),
    Story("no leader is ready", leaders(2, "cpu=1", "Unready"), Row(2, 0, FOUND, NO_RESOURCE, "")),
    Story("the most", leaders(2, "cpu=4"), Row(3, 3, limited="True TooManyReplicas", sizes=(3,)), most=3),
    Story(
        "the most, with a policy that allows as many",
        leaders(2, "cpu=4"),
        Row(2, 2, limited="True TooManyReplicas"),
        most=2,
        behavior={"scaleUp": {"selectPolicy": "Disabled"}},
    ),
    Story(
        "the least",
        leaders(3, "cpu=10m"),
        Row(2, 2, limited="True TooFewReplicas", sizes=(2,)),
        least=2,
        behavior=AT_ONCE,
    ),
    Story(
        "the least, with nothing to do",
        leaders(2, "cpu=10m"),
        Row(2, 2, limited="True TooFewReplicas"),
        least=2,
        behavior=AT_ONCE,
    ),
    Story(
        "more than the most",
        leaders(3),
        Row(3, 3, "True ScaleDownStabilized", limited="True TooManyReplicas", sizes=(3,)),
        replicas=5,
        most=3,
    ),
    Story(
        "more than the most, without a window", leaders(3), Row(3, 3, sizes=(3,)), replicas=5, most=3, behavior=AT_ONCE
    ),
    Story("fewer than the least", leaders(3), Row(3, 3, sizes=(3,)), replicas=1, least=3),
    Story(
        "one container",
        (leader("cpu=900m", body=_SIDE),) * 2,
        Row(3, 3, sizes=(3,)),
        metrics=(of_container("main", 30),),
    ),
    Story(
        "a container that does not exist",
        leaders(2),
        Row(2, 0, FOUND, "False FailedGetContainerResourceMetric", ""),
        metrics=(of_container("other", 30),),
    ),
    Story("memory", leaders(2, "memory=1Gi"), Row(4, 4, sizes=(4,)), metrics=(amount("memory", "512Mi"),)),
    Story(
        "an amount of cpu",
        (leader("cpu=1"), leader("cpu=501m")),
        Row(4, 4, sizes=(4,)),
        metrics=(amount("cpu", "400m"),),
    ),
    Story(
        "one more in half an hour",
        leaders(2, "cpu=1"),
        Row(3, 3, limited="True ScaleUpLimit", sizes=(3,)),
        behavior={"scaleUp": ONE_IN_HALF_AN_HOUR},
    ),
    Story(
        "one fewer in half an hour",
        leaders(4, "cpu=100m"),
        Row(3, 3, limited="True ScaleDownLimit", sizes=(3,)),
        behavior={"scaleDown": {"stabilizationWindowSeconds": 0, **ONE_IN_HALF_AN_HOUR}},
    ),
    Story(
        "no more at all",
        leaders(2, "cpu=1"),
        Row(2, 2, limited="True ScaleUpLimit"),
        behavior={"scaleUp": {"selectPolicy": "Disabled"}},
    ),
    Story("twice as many at a time", leaders(1, "cpu=10"), Row(20, 20, sizes=(4, 8, 16, 20)), most=100),
    Story("nothing selected", leaders(2), Row(2, 0, FOUND, NO_RESOURCE, ""), selector="app=other"),
    Story("no selector", leaders(2), Row(2, 0, FOUND, "False InvalidSelector", ""), selector=""),
    Story(
        "no target",
        (),
        Row(0, 0, "False FailedGetScale", "", ""),
        target={"name": "other"},
    ),
    Story(
        "a kind of target that does not exist",
        (),
        Row(0, 0, "False FailedGetScale", "", ""),
        target={"apiVersion": "example.com/v1", "kind": "Machine"},
    ),
    Story(
        "a version of the target that is not served",
        leaders(2, "cpu=900m"),
        Row(4, 4, sizes=(4,)),
        target={"apiVersion": "leaderworkerset.x-k8s.io/v9"},
    ),
    Story("nothing left", leaders(2, "cpu=1"), Row(0, 0, FOUND, "False ScalingDisabled", ""), replicas=0),
    Story(
        "numbers that no leader reports",
        leaders(2),
        Row(2, 0, FOUND, "False FailedGetPodsMetric", ""),
        metrics=(WAITING,),
        same_words=False,
    ),
    Story(
        "external numbers",
        leaders(2),
        Row(2, 0, FOUND, "False FailedGetExternalMetric", ""),
        metrics=(EXTERNAL,),
        same_words=False,
    ),
    Story(
        "numbers of an object",
        leaders(2),
        Row(2, 0, FOUND, "False FailedGetObjectMetric", ""),
        metrics=(OBJECT,),
        same_words=False,
    ),
    Story(
        "one metric fails in a rise",
        leaders(2, "cpu=900m"),
        Row(4, 4, sizes=(4,)),
        metrics=(EXTERNAL, cpu()),
        same_words=False,
    ),
    Story(
        "one metric fails in a fall",
        leaders(2, "cpu=100m"),
        Row(2, 0, FOUND, "False FailedGetExternalMetric", ""),
        metrics=(EXTERNAL, cpu()),
        behavior=AT_ONCE,
        same_words=False,
    ),
    Story(
        "the larger of two metrics",
        leaders(2, "cpu=900m,memory=2Gi"),
        Row(8, 8, sizes=(4, 8)),
        metrics=(cpu(), amount("memory", "512Mi")),
    ),
    Story("no requests", (leader(body=pod()),), Row(1, 0, FOUND, NO_RESOURCE, "")),
    Story("requests of nothing", (leader(body=pod().requests(cpu="0")),) * 2, Row(2, 0, FOUND, NO_RESOURCE, "")),
    Story("requests of the pod", (leader("cpu=1800m", body=_WHOLE),) * 2, Row(4, 4, sizes=(4,))),
    Story("requests of the pod for another resource", (leader("cpu=1800m", body=_PARTLY),) * 2, Row(4, 4, sizes=(4,))),
    Story(
        "scaled in by hand, without behavior",
        leaders(4),
        Row(4, 4),
        next=ScaledByHand(2, Row(4, 4, sizes=(4,))),
    ),
    Story("scaled in by hand, with behavior", leaders(4), Row(4, 4), next=ScaledByHand(2, Row(2, 2)), behavior=AT_ONCE),
    Story(
        "two autoscalers",
        leaders(2),
        Row(2, 2),
        next=SecondAutoscaler(Row(2, 2, FOUND, "False AmbiguousSelector")),
        same_words=False,
    ),
]


async def prepare(client: Client) -> None:
    """The kind of the targets, the resource metrics API, and the nodes."""
    await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    await client.create(API_SERVICES, API_SERVICE)
    for name, ready in ((MEASURED, "True"), (SILENT, "False")):
        node = await client.create(NODES, {"metadata": {"name": name, "labels": {SIMULATED: "true"}}})
        await client.patch_status(NODES, node, {"conditions": [{"type": "Ready", "status": ready}]})


async def begin(client: Client, told: Story, namespace: str) -> None:
    """The set with its leaders, and then the autoscaler."""
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, namespace)
    count = len(told.leaders) if told.replicas is None else told.replicas
    created = await client.create(LEADER_WORKER_SETS, lws("llm", namespace).replicas(count).size(1))
    status = {"replicas": count, **({"hpaPodSelector": told.selector} if told.selector else {})}
    await client.patch_status(LEADER_WORKER_SETS, created, status)
    for index, body in enumerate(told.leaders):
        await _create_leader(client, body.but("metadata.name", f"llm-{index}").namespaced(namespace))
    await client.create(HORIZONTAL_POD_AUTOSCALERS, told.autoscaler, namespace)


async def _create_leader(client: Client, body: Pod) -> None:
    labels = {group_labels.NAME: "llm", group_labels.WORKER_INDEX: "0"}
    created = await client.create(PODS, body.labels(labels))
    state = body["metadata"]["annotations"]["state"]
    phase = "Running" if state in ("Ready", "Unready", "Lapsed") else state
    started = clock.now() - LONG_AGO
    changed = {"Ready": started + timedelta(seconds=10), "Lapsed": clock.now() - timedelta(minutes=1)}
    condition = {"type": "Ready", "status": "True" if state == "Ready" else "False"}
    condition["lastTransitionTime"] = clock.format_time(changed.get(state, started))
    status = {"phase": phase, "startTime": clock.format_time(started), "conditions": [condition]}
    await client.patch_status(PODS, created, status)


async def go_on(client: Client, told: Story, namespace: str) -> None:
    """What happens next in the story."""
    match told.next:
        case ScaledByHand(replicas=replicas):
            await client.patch(LEADER_WORKER_SETS, "llm", namespace, {"spec": {"replicas": replicas}})
        case SecondAutoscaler():
            await client.create(
                HORIZONTAL_POD_AUTOSCALERS, {**told.autoscaler, "metadata": {"name": "other"}}, namespace
            )


class Outcome(msgspec.Struct, frozen=True):
    """All that an autoscaler says, without times."""

    row: Row
    messages: dict[str, str]
    """Of the conditions."""
    metrics: list[JsonObject]
    events: set[tuple[str, str, str]]
    """Type, reason and message."""


async def outcome(client: Client, namespace: str) -> Outcome:
    found = await client.get(HORIZONTAL_POD_AUTOSCALERS, "llm", namespace)
    status = found.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    said = {type: f"{one['status']} {one['reason']}" for type, one in conditions.items()}
    events = [
        one
        for one in (await client.list(EVENTS, namespace)).items
        if (one["involvedObject"]["kind"], one["involvedObject"]["name"]) == ("HorizontalPodAutoscaler", "llm")
    ]
    sizes = [one["message"].split(";")[0] for one in events if one["reason"] == "SuccessfulRescale"]
    row = Row(
        status.get("currentReplicas") or 0,
        status.get("desiredReplicas") or 0,
        said.get("AbleToScale", ""),
        said.get("ScalingActive", ""),
        said.get("ScalingLimited", ""),
        tuple(sorted(int(size.removeprefix("New size: ")) for size in sizes)),
    )
    return Outcome(
        row,
        {type: one["message"] for type, one in conditions.items()},
        status.get("currentMetrics") or [],
        {(one["type"], one["reason"], one["message"]) for one in events},
    )
