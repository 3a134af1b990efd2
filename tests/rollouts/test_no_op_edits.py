"""Edits under a Rollout that change no revision: nothing is held, nothing is released, nothing rolls."""

import copy

import msgspec
import pytest
from tests.rollouts import deployments as web
from tests.rollouts.observations import WORKLOAD, observation
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, Story, group_set, midway, release_cluster, rollout

from kohort.kube.resources import DEPLOYMENTS, LEADER_WORKER_SETS, REPLICA_SETS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rollouts import release_state_machine
from kohort.rules import rollout_labels
from kohort.rules.group_template import earlier_fingerprint

TEMPLATE = "leaderWorkerTemplate"


def with_resources(cpu: str = "1000m") -> JsonObject:
    subject = copy.deepcopy(group_set())
    container = subject["spec"][TEMPLATE]["workerTemplate"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": cpu}}
    return subject


def edits() -> dict[str, JsonObject]:
    """Each as a whole set that is put in place of the stored one."""
    network = with_resources()
    network["spec"][TEMPLATE]["workerTemplate"]["spec"]["hostNetwork"] = False
    policy = with_resources()
    policy["spec"][TEMPLATE]["resizePolicy"] = "Recreate"
    bare = with_resources()
    bare["spec"][TEMPLATE].pop("restartPolicy", None)
    bare["spec"].pop("networkConfig", None)
    return {"quantity": with_resources("1"), "false": network, "resize policy": policy, "defaults left out": bare}


async def put(story: Story, subject: JsonObject) -> None:
    stored = await story.client.get(LEADER_WORKER_SETS, NAME, NAMESPACE)
    body = {**stored, "spec": subject["spec"]}
    await story.client.update(LEADER_WORKER_SETS, body)


async def test_they_start_no_release() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(with_resources())
        before = {one["metadata"]["uid"] for one in story.pods()}
        leaders = cluster.find(STATEFUL_SETS, NAME, NAMESPACE) or {}
        for name, subject in edits().items():
            await put(story, subject)
            await cluster.settle(20)
            assert rollout_labels.IN_PROGRESSING not in (story.stable["metadata"].get("annotations") or {}), name
            assert story.phase == "Healthy", name
        assert {one["metadata"]["uid"] for one in story.pods()} == before
        after = cluster.find(STATEFUL_SETS, NAME, NAMESPACE) or {}
        assert after["spec"]["template"] == leaders["spec"]["template"]
        assert not story.events("ReleaseNotControlled")


@pytest.mark.parametrize("name", ["quantity", "false", "resize policy"])
async def test_they_leave_a_release_where_it_is(name: str) -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(with_resources())
        new = with_resources()
        new["spec"][TEMPLATE]["workerTemplate"]["spec"]["containers"][0]["image"] = V2
        await put(story, new)
        await story.at(1)
        canary = story.canary["metadata"]["uid"]
        again = edits()[name]
        again["spec"][TEMPLATE]["workerTemplate"]["spec"]["containers"][0]["image"] = V2
        await put(story, again)
        await cluster.settle(30)
        await story.at(1)
        assert story.canary["metadata"]["uid"] == canary
        assert not story.events("Superseded")


async def test_the_old_template_in_another_spelling_is_a_rollback() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(with_resources())
        new = with_resources()
        new["spec"][TEMPLATE]["workerTemplate"]["spec"]["containers"][0]["image"] = V2
        await put(story, new)
        await story.at(1)
        await put(story, with_resources("1"))
        await story.healthy(V1)
        assert (story.condition("Succeeded") or {})["status"] == "False"


async def test_a_release_that_an_earlier_version_began_goes_on_and_can_be_rolled_back() -> None:
    """What that version recorded is put into the store as it wrote it, while the operator is away."""
    async with midway() as story:
        await story.cluster.parts["operator"].crash()
        old = copy.deepcopy(story.stable["spec"])
        old[TEMPLATE]["workerTemplate"]["spec"]["containers"][0]["image"] = V1
        annotations = {rollout_labels.STABLE_FINGERPRINT: earlier_fingerprint(old)}
        stored = await story.client.get(LEADER_WORKER_SETS, NAME, NAMESPACE)
        stored["metadata"]["annotations"] |= annotations
        version = earlier_fingerprint(stored["spec"])
        metadata = stored["metadata"]
        bucket = f"{LEADER_WORKER_SETS.plural}.{LEADER_WORKER_SETS.group}"
        await story.cluster.server.store.write(
            bucket, NAMESPACE, NAME, stored, expected=int(metadata["resourceVersion"]), labels=metadata["labels"]
        )
        await story.status(canaryRevision=version)
        await story.cluster.parts["operator"].restart()
        canary = story.canary["metadata"]["uid"]
        await story.cluster.settle(20)
        await story.at(1)
        assert story.canary["metadata"]["uid"] == canary
        assert story.progress["canaryRevision"] != version
        assert not story.events("Superseded")
        await story.change(V1)
        await story.healthy(V1)
        assert (story.condition("Succeeded") or {})["status"] == "False"


async def test_a_resting_rollout_of_an_earlier_version_is_no_uncontrolled_release() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        await story.status(canaryRevision=earlier_fingerprint(story.stable["spec"]))
        await cluster.settle(10)
        assert not story.events("ReleaseNotControlled")


def test_no_release_begins_that_services_could_not_tell_apart_from_the_stable_version() -> None:
    """A set that other software has keyed may carry the very key that the new version gets."""
    workload = msgspec.structs.replace(WORKLOAD, expected_key=WORKLOAD.stable_revision)
    decision = release_state_machine.decide(observation(reason=rollout_labels.INITIALIZING, workload=workload))
    assert decision.action is None
    assert "same revision key aaa" in decision.state.message
    assert [event.reason for event in decision.events] == ["InitializeFailed"]


async def test_edits_of_a_deployment_that_make_no_new_pods_start_no_release() -> None:
    async with web.story() as story:
        await story.begin(rollout(steps=web.STEPS))
        client, cluster = story.cluster.client, story.cluster
        before = [one["metadata"]["uid"] for one in cluster.objects(REPLICA_SETS, NAMESPACE)]
        edits: list[JsonObject] = [{"hostNetwork": False}, {"volumes": []}]
        for edit in edits:
            stored = await client.get(DEPLOYMENTS, web.NAME, NAMESPACE)
            stored["spec"]["template"]["spec"] |= edit
            await client.update(DEPLOYMENTS, stored)
            await cluster.settle(20)
            assert rollout_labels.IN_PROGRESSING not in story.stable["metadata"]["annotations"], edit
        assert [one["metadata"]["uid"] for one in cluster.objects(REPLICA_SETS, NAMESPACE)] == before
        assert story.phase == "Healthy"
