"""Pods of a Deployment in partition style leave the Service, and end their requests, before they are deleted."""

import asyncio

import pytest
from tests.builders import deployment
from tests.rollouts.deployments import NAME
from tests.rollouts.drained_pods import drained, draining_story
from tests.rollouts.releases import NAMESPACE, V1, V2, V3

from kohort.kube.resources import DEPLOYMENTS, EVENTS, PODS, REPLICA_SETS, ROLLOUTS, SERVICES
from kohort.objects.json_types import JsonObject
from kohort.objects.well_known_names import DELETION_COST
from kohort.rules import rollout_labels

ROUTED: list[JsonObject] = [
    {"replicas": "40%", "traffic": "40%", "pause": {}},
    {"replicas": "100%", "pause": {}},
]
UNROUTED: list[JsonObject] = [{"replicas": 2, "pause": {}}, {"replicas": "100%", "pause": {}}]
STEPS = pytest.mark.parametrize("steps", [ROUTED, UNROUTED], ids=["routed", "not routed"])
LIMITS = pytest.mark.parametrize(
    ("surge", "unavailable"), [(1, 0), (0, 1), (2, 2)], ids=["one more", "one fewer", "two more or fewer"]
)


def has_event(events: list[JsonObject], reason: str) -> bool:
    return any(one["reason"] == reason for one in events)


def busy(pod: JsonObject) -> int:
    return 2 if pod["spec"]["containers"][0]["image"] == V1 else 0


def idle(pod: JsonObject) -> int:
    del pod
    return 0


@STEPS
@LIMITS
async def test_every_pod_is_drained_in_steps_and_at_the_end(
    steps: list[JsonObject], surge: int, unavailable: int
) -> None:
    """Also those that the last step leaves, and the limits of the rolling update hold meanwhile."""
    async with draining_story(drained(steps[:1])) as story:
        rolling = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
        await story.edit({"spec": {"strategy": rolling}})
        await story.change(V2)
        await story.at(1)
        await story.until(lambda: story.pods() == [V1, V1, V1, V2, V2])
        await story.approve()
        await story.healthy(V2)
        await story.until(story.as_before)
        assert story.departures.images == [V1] * 5
        assert not story.departures.undrained
        assert story.departures.most_pods <= 5 + max(1, surge), "the first new pod is made before an old one goes"
        if steps is UNROUTED:
            assert story.departures.fewest_serving >= 5 - unavailable, "the Service leads to pods of both versions"


async def test_pods_go_when_their_requests_have_ended_and_no_sooner() -> None:
    async with draining_story(drained(UNROUTED, seconds=600)) as story:
        await story.edit({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}})
        story.servers.in_flight = busy
        await story.change(V2)
        await story.until(lambda: bool(story.leaving))
        leaving = story.leaving
        await asyncio.sleep(120)
        assert story.leaving == leaving and not story.departures.images, "nothing is deleted while requests last"
        assert "to be removed after requests in flight" in story.message, "the Rollout says what it waits for"
        assert has_event(story.cluster.objects(EVENTS, NAMESPACE), "PodsDraining")
        costs = {
            pod["metadata"]["name"]: (pod["metadata"].get("annotations") or {}).get(DELETION_COST)
            for pod in story.cluster.objects(PODS, NAMESPACE)
        }
        assert {name for name, cost in costs.items() if cost} == set(leaving)
        story.servers.in_flight = idle
        await story.at(1)
        await story.until(lambda: story.pods() == [V1, V1, V1, V2, V2])
        await story.until(story.as_before)
        assert not set(leaving) & {pod["metadata"]["name"] for pod in story.cluster.objects(PODS, NAMESPACE)}
        assert not story.departures.undrained


async def test_requests_that_do_not_end_do_not_stop_a_release() -> None:
    async with draining_story(drained(ROUTED, seconds=5)) as story:
        story.servers.in_flight = busy
        await story.change(V2)
        await story.at(1)
        await story.approve()
        await story.healthy(V2)
        await story.until(story.as_before)
        assert has_event(story.cluster.objects(EVENTS, NAMESPACE), "DrainTimedOut")
        assert all("requests in flight" in text for text in story.departures.undrained), "but nothing new arrived"


@STEPS
async def test_an_abort_gives_pods_that_leave_their_requests_back(steps: list[JsonObject]) -> None:
    async with draining_story(drained(steps, seconds=600)) as story:
        story.servers.in_flight = busy
        await story.change(V2)
        await story.until(lambda: bool(story.leaving))
        await story.change(V1)
        await story.until(story.as_before)
        await story.healthy(V1)
        assert V1 not in story.departures.images
        assert not story.departures.undrained


@STEPS
async def test_a_rollback_drains_the_new_version(steps: list[JsonObject]) -> None:
    """Where steps do not route, its pods get requests from the one Service until they go."""
    async with draining_story(drained(steps)) as story:
        await story.change(V2)
        await story.at(1)
        await story.until(lambda: story.pods() == [V1, V1, V1, V2, V2])
        story.servers.in_flight = lambda pod: 1 if pod["spec"]["containers"][0]["image"] == V2 else 0
        await story.change(V1)
        await asyncio.sleep(30)
        assert V2 in story.pods(), "requests of the new version are waited for, too"
        story.servers.in_flight = idle
        await story.healthy(V1)
        await story.until(story.as_before)
        assert not story.departures.undrained


async def test_another_version_is_released_while_pods_leave() -> None:
    async with draining_story(drained(ROUTED, seconds=600)) as story:
        story.servers.in_flight = busy
        await story.change(V2)
        await story.until(lambda: bool(story.leaving))
        await story.change(V3)
        story.servers.in_flight = idle
        await story.until(lambda: V3 in story.pods())
        await story.at(1)
        await story.approve()
        await story.healthy(V3)
        await story.until(story.as_before)
        assert not story.departures.undrained


@pytest.mark.parametrize("chosen", [True, False], ids=["one that leaves", "one that stays"])
async def test_a_pod_that_dies_meanwhile(chosen: bool) -> None:
    async with draining_story(drained(UNROUTED, seconds=600)) as story:
        story.servers.in_flight = busy
        await story.change(V2)
        await story.until(lambda: bool(story.leaving))
        leaving = set(story.leaving)
        old = [pod["metadata"]["name"] for pod in story.cluster.objects(PODS, NAMESPACE) if story_image(pod) == V1]
        victim = next(name for name in old if (name in leaving) == chosen)
        await story.cluster.client.delete(PODS, victim, NAMESPACE)
        await asyncio.sleep(30)
        story.servers.in_flight = idle
        await story.at(1)
        await story.approve()
        await story.healthy(V2)
        await story.until(story.as_before)
        others = [text for text in story.departures.undrained if not text.startswith(victim)]
        assert not others


@pytest.mark.parametrize("replicas", [2, 9])
async def test_a_deployment_is_scaled_while_pods_leave(replicas: int) -> None:
    async with draining_story(drained(UNROUTED, seconds=600)) as story:
        story.servers.in_flight = busy
        await story.change(V2)
        await story.until(lambda: bool(story.leaving))
        await story.edit({"spec": {"replicas": replicas}})
        await story.until(lambda: len(story.pods()) >= replicas or replicas == 2)
        story.servers.in_flight = idle
        await story.at(1)
        await story.until(lambda: len(story.pods()) == replicas)
        await story.edit({"spec": {"replicas": 5}})
        await story.until(lambda: len(story.pods()) == 5)
        await story.approve()
        await story.healthy(V2)
        await story.until(story.as_before)


async def test_the_service_is_pinned_while_pods_leave() -> None:
    """Pods of both versions had the label; those of the new one are not behind the Service any more."""
    steps: list[JsonObject] = [
        {"replicas": 2, "pause": {"duration": 1}},
        {"replicas": 2, "traffic": "40%", "pause": {}},
    ]
    async with draining_story(drained(steps, seconds=600)) as story:
        story.servers.in_flight = busy
        await story.change(V2)
        await story.until(lambda: bool(story.leaving))

        def pinned() -> bool:
            service = story.cluster.find(SERVICES, "llm-leader", NAMESPACE) or {"spec": {}}
            return rollout_labels.TEMPLATE_HASH in service["spec"]["selector"]

        await story.until(pinned)
        assert story.leaving
        story.servers.in_flight = idle
        await story.until(lambda: story.pods() == [V1, V1, V1, V2, V2])
        await story.until(story.as_before)
        assert not story.departures.undrained


async def test_an_edit_that_drops_all_annotations_while_pods_leave() -> None:
    async with draining_story(drained(UNROUTED, seconds=600)) as story:
        story.servers.in_flight = busy
        await story.change(V2)
        await story.until(lambda: bool(story.leaving))
        await story.edit({"metadata": {"annotations": None}})
        await asyncio.sleep(10)
        assert story.leaving and not story.departures.images
        await story.change(V1)
        await story.until(story.as_before)
        await story.healthy(V1)


async def test_a_cost_that_the_user_has_given_to_a_pod_comes_back() -> None:
    async with draining_story(drained(UNROUTED, seconds=600)) as story:
        story.servers.in_flight = busy
        for pod in story.cluster.objects(PODS, NAMESPACE):
            body = {"metadata": {"annotations": {DELETION_COST: "7"}}}
            await story.cluster.client.patch(PODS, pod["metadata"]["name"], NAMESPACE, body)
        await story.change(V2)
        await story.until(lambda: bool(story.leaving))
        await story.change(V1)
        await story.until(lambda: not story.leaving)
        await story.until(lambda: set(costs(story.cluster.objects(PODS, NAMESPACE))) <= {"7", None})
        await story.healthy(V1)


@pytest.mark.parametrize("how", ["disabled", "deleted"])
async def test_a_rollout_that_goes_away_leaves_nothing_behind(how: str) -> None:
    async with draining_story(drained(UNROUTED, seconds=600)) as story:
        story.servers.in_flight = busy
        await story.change(V2)
        await story.until(lambda: bool(story.leaving))
        if how == "deleted":
            await story.cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
        else:
            await story.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, {"spec": {"disabled": True}})
        await story.until(story.as_before)
        await story.until(lambda: story.pods() == [V2] * 5)


@pytest.mark.parametrize("away", [False, True], ids=["operator there", "operator away"])
async def test_a_deployment_that_is_deleted_while_pods_leave_and_made_again_is_served(away: bool) -> None:
    async with draining_story(drained(UNROUTED, seconds=600)) as story:
        story.servers.in_flight = busy
        await story.change(V2)
        await story.until(lambda: bool(story.leaving))
        operator = story.cluster.parts["operator"]
        if away:
            await operator.stop()
        await story.cluster.client.delete(DEPLOYMENTS, NAME, NAMESPACE, propagation="Background")
        await story.until(lambda: not story.cluster.objects(PODS, NAMESPACE))
        await story.until(lambda: not story.cluster.objects(REPLICA_SETS, NAMESPACE))
        if away:
            await operator.restart(operator.faults)
        await story.cluster.client.create(DEPLOYMENTS, deployment(NAME).replicas(5), NAMESPACE)

        def is_free() -> bool:
            service = story.cluster.find(SERVICES, "llm-leader", NAMESPACE) or {"spec": {}}
            return rollout_labels.SERVES not in service["spec"]["selector"]

        await story.until(is_free)


def story_image(pod: JsonObject) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def costs(pods: list[JsonObject]) -> list[str | None]:
    return [(pod["metadata"].get("annotations") or {}).get(DELETION_COST) for pod in pods]
