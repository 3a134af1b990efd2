"""The integration checklist of the controllers, IC29 to IC53: rolls with surge, scale, partition, size; gangs."""

from typing import cast

from tests.groups.bare import (
    NAME,
    NAMESPACE,
    NO_HISTORY,
    World,
    bare,
    install,
    leader_image,
    pod_group_definition,
    replicas,
    rolling,
    sample,
    size,
    worker_image,
)

from kohort.groups.gang import VOLCANO_POD_GROUPS
from kohort.kube.resources import PODS, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels


def key_of(world: World, group: int) -> str:
    """The revision of a group's workers."""
    workers = world.workers(group)
    assert workers is not None
    return cast(str, workers["metadata"]["labels"][group_labels.REVISION])


def image_of(world: World, group: int) -> str:
    workers = world.workers(group)
    assert workers is not None
    return cast(str, workers["spec"]["template"]["spec"]["containers"][0]["image"])


async def test_ic29_more_may_be_away_than_there_are() -> None:
    async with bare(sample().replicas(4).max_unavailable(10)) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(leader_image("new:2"))
        assert world.partition == 0
        await world.done(0, 1, 2, 3)
        assert (world.pair, world.true_conditions) == ((4, 4), {"Available"})


async def test_ic30_template_and_replicas_change_together() -> None:
    async with bare(sample().replicas(4)) as world:
        await world.ready(0, 1, 2, 3)
        world.by_hand = True
        await world.edit(leader_image("new:2"), replicas(6))
        assert (world.partition, world.replicas, world.pair) == (4, 6, (4, 0))
        assert "UpdateInProgress" in world.true_conditions
        await world.done(4, 5)
        await world.done(3, 2, 1, 0)
        assert (world.partition, world.replicas, world.pair) == (0, 6, (6, 6))
        assert world.true_conditions == {"Available"}


async def test_ic31_replicas_increase_during_update() -> None:
    async with bare(sample().replicas(4)) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(leader_image("new:2"))
        await world.done(3)
        assert (world.partition, world.pair) == (2, (4, 1))
        await world.edit(replicas(6))
        await world.ready(4, 5)
        assert (world.partition, world.replicas, world.pair) == (2, 6, (6, 3))
        await world.done(2, 1, 0)
        assert (world.partition, world.pair, world.true_conditions) == (0, (6, 6), {"Available"})


async def test_ic32_replicas_decrease_during_update() -> None:
    async with bare(sample().replicas(6)) as world:
        await world.ready(*range(6))
        await world.edit(leader_image("new:2"))
        assert world.partition == 5
        await world.edit(replicas(3))
        assert (world.partition, world.replicas, world.pair) == (2, 3, (3, 0))
        await world.done(2, 1, 0)
        assert (world.partition, world.pair, world.true_conditions) == (0, (3, 3), {"Available"})


async def test_ic33_none_unavailable_one_surge() -> None:
    async with bare(sample().replicas(4).max_unavailable(0).max_surge(1)) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(worker_image("new:2"))
        assert (world.partition, world.replicas) == (4, 5)
        await world.ready(4)
        assert (world.partition, world.replicas) == (3, 5)
        for group, partition in ((3, 2), (2, 1), (1, 0)):
            await world.done(group)
            assert (world.partition, world.replicas) == (partition, 5)
        await world.done(0)
        assert (world.partition, world.replicas, world.pair) == (0, 4, (4, 4))


async def test_ic34_one_unavailable_one_surge() -> None:
    async with bare(sample().replicas(4).max_surge(1)) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(worker_image("new:2"))
        assert (world.partition, world.replicas) == (3, 5)
        await world.ready(4)
        assert (world.partition, world.replicas) == (2, 5)
        await world.done(3)
        assert (world.partition, world.replicas) == (1, 5)
        await world.done(2)
        assert (world.partition, world.replicas) == (0, 5)
        await world.done(1)
        assert (world.partition, world.replicas) == (0, 4)
        await world.done(0)
        assert (world.pair, world.true_conditions) == ((4, 4), {"Available"})


async def test_ic35_two_unavailable_two_surge() -> None:
    async with bare(sample().replicas(4).max_unavailable(2).max_surge(2)) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(worker_image("new:2"))
        assert (world.partition, world.replicas) == (2, 6)
        await world.done(3, 2)
        assert (world.partition, world.replicas, world.pair) == (0, 4, (4, 2))
        await world.done(1, 0)
        assert (world.pair, world.true_conditions) == ((4, 4), {"Available"})


async def test_ic36_scale_up_with_surge() -> None:
    async with bare(sample().max_surge(2)) as world:
        await world.ready(0, 1)
        await world.edit(worker_image("new:2"), replicas(4))
        assert (world.partition, world.replicas) == (2, 6)
        await world.ready(2, 3, 4, 5)
        await world.done(1, 0)
        assert world.true_conditions == {"Available"}
        assert (world.partition, world.replicas, world.pair) == (0, 4, (4, 4))


async def test_ic37_scale_down_with_surge() -> None:
    async with bare(sample().replicas(6).max_surge(2)) as world:
        await world.ready(*range(6))
        await world.edit(worker_image("new:2"), replicas(3))
        assert (world.partition, world.replicas) == (2, 5)
        await world.done(4, 3, 2, 1, 0)
        assert world.true_conditions == {"Available"}
        assert (world.partition, world.replicas, world.pair) == (0, 3, (3, 3))


async def test_ic38_surge_greater_than_replicas() -> None:
    async with bare(sample().max_surge(4)) as world:
        await world.ready(0, 1)
        await world.edit(worker_image("new:2"))
        assert (world.partition, world.replicas) == (1, 3)
        await world.ready(2)
        await world.done(1, 0)
        assert (world.true_conditions, world.replicas, world.pair) == ({"Available"}, 2, (2, 2))


async def test_ic39_scale_up_and_down_mid_update() -> None:
    async with bare(sample().replicas(4).max_surge(2)) as world:
        await world.ready(0, 1, 2, 3)
        world.by_hand = True
        await world.edit(worker_image("new:2"))
        assert (world.replicas, world.partition, world.pair) == (6, 3, (4, 0))
        await world.edit(replicas(6))
        await world.update(7, 6)
        assert (world.replicas, world.partition, world.pair) == (8, 3, (4, 2))
        await world.ready(7, 6)
        assert (world.replicas, world.partition, world.pair) == (8, 3, (6, 2))
        await world.edit(replicas(2))
        assert (world.replicas, world.partition, world.pair) == (3, 1, (3, 0))
        await world.done(2)
        assert (world.replicas, world.partition, world.pair) == (3, 0, (3, 1))
        await world.done(1)
        assert (world.replicas, world.partition, world.pair) == (2, 0, (2, 1))
        await world.done(0)
        assert world.pair == (2, 2)


async def test_ic40_repeated_updates() -> None:
    async with bare(sample().replicas(4).max_surge(2).annotations(NO_HISTORY)) as world:
        await world.ready(0, 1, 2, 3)
        assert len(world.revisions) == 1
        await world.edit(worker_image("new:2"))
        assert len(world.revisions) == 2
        await world.ready(5, 4)
        assert (world.partition, len(world.revisions)) == (1, 2)
        await world.edit(worker_image("new:3"))
        assert (world.partition, world.replicas, world.pair) == (3, 6, (6, 0))
        assert len(world.revisions) == 3
        await world.done(5, 4, 3, 2, 1, 0)
        assert (world.replicas, world.pair, world.true_conditions) == (4, (4, 4), {"Available"})
        assert len(world.revisions) == 1


async def test_ic41_old_worker_spec_on_restart_mid_update() -> None:
    async with bare(sample().replicas(4).annotations(NO_HISTORY)) as world:
        await world.ready(0, 1, 2, 3)
        old_template, old_key, old_image = world.leader_set["spec"]["template"], key_of(world, 0), image_of(world, 0)
        await world.edit(worker_image("new:2"))
        await world.done(3)
        await world.update(0, like=old_template)
        assert (key_of(world, 0), image_of(world, 0)) == (old_key, old_image)
        assert (key_of(world, 3) != old_key, image_of(world, 3)) == (True, "new:2")
        assert len(world.revisions) == 2
        await world.ready(0)
        await world.done(2, 1, 0)
        assert world.true_conditions == {"Available"}
        assert len(world.revisions) == 1


async def test_ic42_old_size_on_restart_mid_update() -> None:
    async with bare(sample().replicas(4).size(4)) as world:
        await world.ready(0, 1, 2, 3)
        old_template = world.leader_set["spec"]["template"]
        await world.edit(worker_image("new:2"), size(2))
        await world.done(3)
        await world.update(0, like=old_template)
        workers = world.workers(0)
        assert workers is not None
        assert workers["spec"]["replicas"] == 3
        assert workers["spec"]["template"]["metadata"]["annotations"][group_labels.SIZE] == "4"


async def test_ic43_leader_restarted_only_once_per_update() -> None:
    async with bare(sample()) as world:
        await world.ready(0, 1)
        await world.make_workers(1)
        await world.edit(worker_image("new:2"))
        leftover = world.workers(1)
        await world.cluster.client.delete(PODS, f"{NAME}-1", NAMESPACE, grace_seconds=0)
        await world.make_leader(1)
        await world.delete_worker(1, 1)
        assert leftover is not None
        assert not world.deleting(1), "a worker of the old revision says nothing about the new group"
        await world.remove(f"{NAME}-1")
        await world.make_leader(1)
        await world.pause()
        await world.ready(1)
        await world.done(0)
        assert world.true_conditions == {"Available"}
        await world.make_workers(1)
        await world.delete_worker(1, 1)
        assert world.deleting(1)


async def test_ic44_leader_set_key_without_revision() -> None:
    async with bare(sample().annotations(NO_HISTORY)) as world:
        await world.ready(0, 1)
        body = {"metadata": {"labels": {group_labels.REVISION: "somebodys-key"}}}
        await world.cluster.client.patch(STATEFUL_SETS, NAME, NAMESPACE, body)
        await world.pause()
        assert "somebodys-key" in {one["metadata"]["labels"][group_labels.REVISION] for one in world.revisions}
        await world.done(0, 1)
        assert (world.true_conditions, world.pair, len(world.revisions)) == ({"Available"}, (2, 2), 1)


async def test_ic45_leader_ready() -> None:
    async with bare(sample().replicas(4).startup("LeaderReady")) as world:
        assert world.worker_sets == []
        await world.leader_ready(0)
        await world.leader_ready(1)
        assert world.worker_sets == [f"{NAME}-0", f"{NAME}-1"]
        await world.leader_ready(2)
        await world.leader_ready(3)
        world.assert_worker_sets()


async def test_ic46_leader_created() -> None:
    async with bare(sample().replicas(4).startup("LeaderCreated")) as world:
        assert world.worker_sets == [f"{NAME}-{index}" for index in range(4)]


async def test_ic47_unhealthy_group_below_partition() -> None:
    async with bare(sample().replicas(4).max_unavailable(2)) as world:
        await world.ready(0, 2, 3)
        await world.edit(worker_image("new:2"))
        assert (world.partition, world.pair) == (3, (3, 0))
        await world.done(3, 2, 1, 0)
        assert (world.partition, world.pair, world.true_conditions) == (0, (4, 4), {"Available"})


async def test_ic48_no_ready_groups() -> None:
    async with bare(sample()) as world:
        await world.edit(worker_image("new:2"))
        assert (world.partition, world.pair) == (1, (0, 0))
        await world.done(1)
        assert world.partition == 0
        await world.done(0)
        assert (world.pair, world.true_conditions) == ((2, 2), {"Available"})


async def test_ic49_resize() -> None:
    async with bare(sample().size(3)) as world:
        await world.ready(0, 1)
        await world.edit(size(4))
        assert "Normal GroupsUpdating Rolling Upgrade is in progress, with 2 groups ready of total 2 groups" in (
            world.events
        )
        await world.done(1, 0)
        world.assert_leader_set(2)
        world.assert_worker_sets()
        assert world.pair == (2, 2)


async def test_ic50_partition_field() -> None:
    async with bare(sample().replicas(6).partition(4)) as world:
        await world.ready(*range(6))
        assert world.partition == 4
        await world.edit(worker_image("new:2"))
        assert (world.partition, world.pair) == (5, (6, 0))
        await world.done(5)
        assert (world.partition, world.pair) == (4, (6, 1))
        await world.done(4)
        assert (world.partition, world.pair, world.true_conditions) == (4, (6, 2), {"Available"})
        await world.edit(rolling(partition=2, maxUnavailable=1, maxSurge=0))
        assert (world.partition, world.pair) == (3, (6, 2))
        await world.done(3)
        assert (world.partition, world.pair) == (2, (6, 3))
        await world.done(2)
        assert (world.partition, world.pair, world.true_conditions) == (2, (6, 4), {"Available"})


async def test_ic51_partition_and_surge() -> None:
    async with bare(sample().replicas(3).max_surge(1).partition(2)) as world:
        await world.ready(0, 1, 2)
        await world.edit(worker_image("new:2"))
        assert (world.partition, world.replicas) == (2, 4)
        await world.ready(3)
        await world.done(2)
        assert (world.replicas, world.pair, world.true_conditions) == (4, (4, 2), {"Available"})
        await world.edit(rolling(partition=0, maxUnavailable=1, maxSurge=1))
        assert (world.partition, world.replicas) == (0, 4)
        await world.done(1, 0)
        assert (world.replicas, world.pair, world.true_conditions) == (3, (3, 3), {"Available"})


def pod_groups(world: World) -> dict[str, JsonObject]:
    return {one["metadata"]["name"]: one for one in world.objects(VOLCANO_POD_GROUPS)}


async def gang_world(world: World, subject: JsonObject) -> None:
    await install(world.cluster, pod_group_definition("scheduling.volcano.sh", "v1beta1"))
    await world.create(subject)


async def test_ic52_gang_pod_group_creation() -> None:
    async with bare(None, gang="volcano") as world:
        await gang_world(world, sample().requests(cpu="500m"))
        found = pod_groups(world)
        key = world.leader_set["metadata"]["labels"][group_labels.REVISION]
        assert sorted(found) == [f"{NAME}-{index}-{key}" for index in range(2)]
        for index in range(2):
            group, leader = found[f"{NAME}-{index}-{key}"], world.leader(index)
            assert leader is not None
            (owner,) = group["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["uid"]) == ("Pod", leader["metadata"]["uid"])
            assert group["spec"] == {"minMember": 2, "minResources": {"cpu": "500m"}}
            assert leader["metadata"]["annotations"][group_labels.POD_GROUP] == group["metadata"]["name"]


async def test_ic53_gang_rolling_update() -> None:
    async with bare(None, gang="volcano") as world:
        await gang_world(world, sample().replicas(3))
        await world.ready(0, 1, 2)
        await world.edit(worker_image("new:2"))
        key = world.leader_set["metadata"]["labels"][group_labels.REVISION]
        for group, partition in ((2, 2), (1, 1), (0, 0)):
            assert world.partition == partition
            await world.done(group)
            assert f"{NAME}-{group}-{key}" in pod_groups(world)
        assert (world.pair, world.true_conditions) == ((3, 3), {"Available"})
