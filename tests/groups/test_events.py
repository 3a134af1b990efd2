"""Events of groups: what was done, and to which object, by the catalogue."""

import asyncio

import pytest
from tests.groups.bare import NAME, NAMESPACE, World, bare, sample, worker_image

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.revisions import history_limit
from kohort.kube.resources import EVENTS, SERVICES, STATEFUL_SETS
from kohort.objects.meta import ObjectMeta
from kohort.rules import group_labels


def catalogue(world: World) -> set[tuple[str, str, str]]:
    """(reason, action, kind of the related object), all about the set."""
    found = world.cluster.objects(EVENTS, NAMESPACE)
    assert {one["involvedObject"]["kind"] for one in found} == {"LeaderWorkerSet"}
    assert {one["reportingComponent"] for one in found} == {"leaderworkerset"}
    return {(one["reason"], one.get("action", ""), one.get("related", {}).get("kind", "")) for one in found}


async def test_the_catalogue_of_an_ordinary_life() -> None:
    async with bare(sample().max_surge(1)) as world:
        await world.ready(0, 1)
        await world.edit(worker_image("new:2"))
        await world.ready(2)
        await world.done(1, 0)
        await world.make_workers(0)
        await world.delete_worker(0, 1)
        assert catalogue(world) == {
            ("CreatingRevision", "Create", "ControllerRevision"),
            ("GroupsProgressing", "Create", "ControllerRevision"),
            ("GroupsProgressing", "Create", "Pod"),
            ("GroupsProgressing", "Update", ""),
            ("GroupsProgressing", "Delete", ""),
            ("GroupsUpdating", "Update", "ControllerRevision"),
            ("GroupsUpdating", "Update", ""),
            ("AllGroupsReady", "Update", ""),
            ("RecreateGroup", "Delete", "Pod"),
        }
        assert f"Normal GroupsProgressing deleting surge replica {NAME}-2" in world.events


async def test_history_is_kept_as_far_as_the_annotation_says() -> None:
    async with bare(sample().replicas(1).size(1).annotations({group_labels.REVISION_LIMIT: "2"})) as world:
        await world.ready(0)
        for number in range(4):
            await world.edit(worker_image(f"new:{number}"))
            await world.done(0)
        assert len(world.revisions) == 3, "the one in use and two more"


@pytest.mark.parametrize(("written", "limit"), [(None, 10), ("3", 3), ("0", 0), ("many", 10), ("-1", 10)])
def test_ten_revisions_are_kept_unless_said_otherwise(written: str | None, limit: int) -> None:
    annotations = {} if written is None else {group_labels.REVISION_LIMIT: written}
    assert history_limit(LeaderWorkerSet(metadata=ObjectMeta(annotations=annotations))) == limit


async def test_names_that_others_have_are_told_with_their_holder() -> None:
    labels = {"app": "else"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"serviceName": "", "replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    async with bare(None) as world:
        client = world.cluster.client
        await client.create(STATEFUL_SETS, {"metadata": {"name": NAME}, "spec": spec}, NAMESPACE)
        await world.create(sample())
        await world.cluster.settle(quiet=1)
        text = f"leader statefulset {NAME}: a StatefulSet {NAME} exists and does not belong to this set"
        assert f"Warning FailedCreate Failed to create {text}" in world.events
        await client.create(SERVICES, {"metadata": {"name": NAME}, "spec": {"ports": [{"port": 80}]}}, NAMESPACE)
        await client.delete(STATEFUL_SETS, NAME, NAMESPACE)
        await asyncio.sleep(60)
        text = f"headless service {NAME}: a Service {NAME} exists and does not belong to this set"
        assert f"Warning FailedCreate Failed to create {text}" in world.events
