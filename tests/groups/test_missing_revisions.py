"""A revision that groups still have is deleted, and with it the template of their workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.builders import lws
from tests.groups.resize.test_group_resizes import cpu_of, cpus, edit, resizable, uids
from tests.groups.test_features import new_image
from tests.groups.test_lifecycle import NAMESPACE, create, groups_cluster, images, patch, pods, settled, status

from kohort.cli.actions.snapshot_reader import snapshot
from kohort.groups.waiting_reason import PATIENCE
from kohort.inspection.set_causes import causes
from kohort.kube.resources import CONTROLLER_REVISIONS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster

HELD_FROM = 3


def revisions(cluster: Cluster) -> list[JsonObject]:
    """The metadata of those of the set, not of its StatefulSets."""
    found = (one["metadata"] for one in cluster.objects(CONTROLLER_REVISIONS, NAMESPACE))
    return [one for one in found if one["ownerReferences"][0]["kind"] == "LeaderWorkerSet"]


async def delete_old_revision(cluster: Cluster) -> str:
    """Returns its key."""
    newest = status(cluster)["updateRevision"]
    (old,) = [one for one in revisions(cluster) if one["labels"][group_labels.REVISION] != newest]
    await cluster.client.delete(CONTROLLER_REVISIONS, old["name"], NAMESPACE)
    key: str = old["labels"][group_labels.REVISION]
    return key


def partition(index: int) -> JsonObject:
    return {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": index}}}}


@asynccontextmanager
async def two_groups_without_workers() -> AsyncIterator[tuple[Cluster, str]]:
    """A held roll has replaced group 3 of 4. The old revision is gone, and so are the workers of groups 0 and 1."""
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(4).size(2))
        await cluster.until(lambda: settled(cluster, 4))
        await patch(cluster, "llm", {"spec": {**new_image("two")["spec"], **partition(HELD_FROM)["spec"]}})
        await cluster.until(lambda: status(cluster).get("updatedReplicas") == 1)
        await cluster.until(lambda: status(cluster).get("readyReplicas") == 4)
        key = await delete_old_revision(cluster)
        for name in ("llm-0", "llm-1"):
            await cluster.client.delete(STATEFUL_SETS, name, NAMESPACE)
        await asyncio.sleep(4 * PATIENCE)
        assert status(cluster)["readyReplicas"] == 2
        yield cluster, key


def waiting(cluster: Cluster) -> JsonObject:
    found: JsonObject
    (found,) = [one for one in status(cluster)["conditions"] if one["type"] == "Waiting"]
    return found


async def explanation(cluster: Cluster) -> list[tuple[str, tuple[str, ...]]]:
    found = await snapshot(cluster.client, NAMESPACE, "llm", surroundings=True)
    return [(cause.found, cause.objects) for cause in causes(found)]


async def test_a_partition_holds_a_group_whose_revision_was_deleted_and_the_set_says_so() -> None:
    async with two_groups_without_workers() as (cluster, key):
        text = f"its workers cannot be created, because its revision {key} was deleted"
        found = waiting(cluster)
        assert (found["status"], found["reason"], found["message"]) == ("True", "RevisionMissing", f"group 0: {text}")
        assert (await explanation(cluster))[0] == (text, ("group 0", "group 1"))
        assert status(cluster)["updatedReplicas"] == 1


async def test_a_group_whose_revision_was_deleted_is_made_anew_with_the_new_template() -> None:
    """Group 2 is taken only when they are back: it has workers, and one group may be away."""
    async with two_groups_without_workers() as (cluster, _):
        healthy = pods(cluster)["llm-2"]["metadata"]["uid"]
        await patch(cluster, "llm", partition(0))
        await cluster.until(lambda: pods(cluster).get("llm-2", {}).get("metadata", {}).get("uid") != healthy)
        assert {"llm-0", "llm-0-1", "llm-1", "llm-1-1"} <= pods(cluster).keys()
        await cluster.until(lambda: settled(cluster, 4))
        assert images(cluster) == {"two"}
        assert waiting(cluster)["status"] == "False"


async def test_the_former_template_brings_the_revision_back() -> None:
    async with two_groups_without_workers() as (cluster, key):
        original = lws("llm")["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"]
        await patch(cluster, "llm", new_image(original))
        await cluster.until(lambda: status(cluster)["readyReplicas"] == 4)
        assert status(cluster)["updateRevision"] == key


async def test_a_group_that_was_to_be_resized_in_place_is_made_anew() -> None:
    """What leads from one revision to the other is still known to the operator, but not the rest of the old one."""
    async with groups_cluster() as cluster:
        subject = resizable().replicas(4).size(2)
        await create(cluster, subject.but("spec.rolloutStrategy.rollingUpdateConfiguration", {"partition": HELD_FROM}))
        await cluster.until(lambda: settled(cluster, 4))
        before = uids(cluster)
        await edit(cluster)
        await cluster.until(lambda: cpu_of(cluster, "llm-3") == "200m" and status(cluster)["updatedReplicas"] == 1)
        await delete_old_revision(cluster)
        await cluster.client.delete(STATEFUL_SETS, "llm-0", NAMESPACE)
        await cluster.until(lambda: status(cluster)["readyReplicas"] == 3)
        await patch(cluster, "llm", partition(0))
        await cluster.until(lambda: settled(cluster, 4))
        assert cpus(cluster) == {"200m"}
        assert uids(cluster)["llm-3"] == before["llm-3"]


async def test_the_newest_revision_is_written_again_at_once() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(1).size(2))
        await cluster.until(lambda: settled(cluster, 1))
        (first,) = revisions(cluster)
        await cluster.client.delete(CONTROLLER_REVISIONS, first["name"], NAMESPACE)
        await cluster.settle()
        (second,) = revisions(cluster)
        assert (second["labels"], second["uid"] != first["uid"]) == (first["labels"], True)
