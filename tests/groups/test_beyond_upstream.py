"""What is done better than the implementation that others have, row by row of its known flaws (F1 to F16)."""

import asyncio
from typing import cast

import msgspec
import pytest
from tests.groups.bare import (
    NAME,
    NAMESPACE,
    World,
    bare,
    install,
    leader_image,
    pod_group_definition,
    replicas,
    sample,
    size,
    worker_image,
)

from kohort.groups.gang import VOLCANO_POD_GROUPS
from kohort.kube import errors
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    LEADER_WORKER_SETS,
    NODES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.scale_down import DRAIN_ON_SCALE_DOWN, SPARE_SECONDS
from kohort.testing.faults import Faults
from kohort.testing.request_matching import writes


def faults(world: World) -> Faults:
    return world.cluster.faults("operator")


async def test_f1_a_refused_template_leaves_one_revision_however_often_it_is_tried() -> None:
    async with bare(sample()) as world:
        await world.ready(0, 1)
        denied = errors.forbidden("statefulsets", NAME, "a policy says no")
        faults(world).refuse(denied, on=writes(STATEFUL_SETS), times=5)
        await world.edit(worker_image("new:2"))
        await asyncio.sleep(120)
        assert len(world.revisions) == 2
        assert any(f"Warning FailedUpdate Failed to update leader statefulset {NAME}" in one for one in world.events)
        assert world.partition == 1, "and it goes on when the obstacle is gone"


async def test_f1_also_when_the_set_is_new() -> None:
    async with bare(None) as world:
        faults(world).refuse(errors.forbidden("statefulsets", NAME, "no"), on=writes(STATEFUL_SETS), times=5)
        await world.create(sample())
        await asyncio.sleep(120)
        assert len(world.revisions) == 1
        assert any(f"Warning FailedCreate Failed to create leader statefulset {NAME}" in one for one in world.events)


async def test_f1_the_set_says_what_is_wrong_with_a_template_until_it_is_mended() -> None:
    """One that was there before the server was asked about templates, or when it could not be asked."""
    async with bare(None) as world:
        faults(world).refuse(errors.internal("no answer"), on=lambda request: bool(request.param("dryRun")), times=1)
        await world.create(sample().but("spec.leaderWorkerTemplate.leaderTemplate.spec.containers.0.name", "M M"))
        waiting = world.condition("Waiting")
        assert (waiting["status"], waiting["reason"]) == ("True", "LeaderSetRefused")
        assert "spec.template.spec.containers[0].name" in waiting["message"]
        writes_before = world.cluster.writes
        await asyncio.sleep(120)
        assert world.cluster.writes == writes_before, "it is said once"
        await world.edit(leader_image("new:2"))
        await asyncio.sleep(60)
        await world.ready(0, 1)
        assert world.condition("Waiting")["status"] == "False"
        assert world.true_conditions == {"Available"}


async def test_f2_the_first_reconcile_of_a_set_succeeds() -> None:
    async with bare(sample()) as world:
        manager = world.cluster.parts["operator"].manager
        assert manager is not None
        registry = manager.metrics.registry
        labels = {"controller": "leaderworkerset", "result": "error"}
        assert not registry.get_sample_value("controller_runtime_reconcile_total", labels)


async def test_f3_a_cache_that_lags_behind_makes_no_second_revision() -> None:
    async with bare(None) as world:
        faults(world).hold(CONTROLLER_REVISIONS)
        await world.create(sample())
        await world.edit(replicas(3))
        assert len(world.revisions) == 1
        faults(world).release()
        await world.cluster.until(lambda: world.worker_sets == [f"{NAME}-{index}" for index in range(3)])
        assert len(world.revisions) == 1


async def test_f4_both_conditions_of_an_update_come_in_one_write() -> None:
    async with bare(sample()) as world:
        await world.ready(0, 1)
        before = faults(world).write_count
        await world.edit(worker_image("new:2"))
        written = [msgspec.json.decode(one.body) for one in faults(world).writes_since(before) if "/status" in one.path]
        first = next(one["status"]["conditions"] for one in written if "conditions" in one["status"])
        assert {one["type"] for one in first if one["status"] == "True"} == {"UpdateInProgress", "Progressing"}


@pytest.mark.parametrize(("before", "after"), [(4, 1), (1, 4)])
async def test_f5_old_groups_are_judged_by_their_own_size(before: int, after: int) -> None:
    async with bare(sample().size(before)) as world:
        await world.ready(0, 1)
        await world.edit(size(after))
        assert world.pair[0] == 2, "nothing has happened to the old groups yet"
        await world.done(1)
        assert world.pair == (2, 1)
        assert (f"{NAME}-0" in world.worker_sets) == (before > 1)
        assert (f"{NAME}-1" in world.worker_sets) == (after > 1)


async def test_f6_a_gang_is_as_large_as_its_group_was_at_its_revision() -> None:
    async with bare(None, gang="volcano") as world:
        await install(world.cluster, pod_group_definition("scheduling.volcano.sh", "v1beta1"))
        limits = {"limits": {"google.com/tpu": "4"}}
        subject = sample().size(3)
        subject["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["resources"] = limits
        await world.create(subject)
        await world.ready(0, 1)
        old_template = world.leader_set["spec"]["template"]
        await world.edit(size(5))
        await world.update(0, like=old_template)
        groups = {one["metadata"]["name"]: one["spec"] for one in world.objects(VOLCANO_POD_GROUPS)}
        key = old_template["metadata"]["labels"][group_labels.REVISION]
        assert groups[f"{NAME}-0-{key}"] == {"minMember": 3, "minResources": {"google.com/tpu": "8"}}


async def test_f7_a_leader_that_was_just_recreated_is_not_killed() -> None:
    async with bare(sample()) as world:
        await world.make_workers(0)
        before = faults(world).write_count
        await world.delete_worker(0, 1)
        (deletion,) = [one for one in faults(world).writes_since(before) if one.method == "DELETE"]
        old = world.leader(0)
        assert old is not None
        body = msgspec.json.decode(deletion.body)
        assert body["preconditions"] == {"uid": old["metadata"]["uid"]}
        assert body["propagationPolicy"] == "Foreground"


async def restart(world: World, pod: str, count: int, phase: str = "Running") -> None:
    status = {"name": "worker", "restartCount": count, "ready": True, "image": "", "imageID": ""}
    body = {"status": {"phase": phase, "containerStatuses": [status]}}
    await world.cluster.client.patch(PODS, pod, NAMESPACE, body, subresource="status")
    await world.pause()


async def test_f8_a_restart_while_a_group_starts_is_forgiven_for_good() -> None:
    async with bare(sample().size(3).restart("RecreateGroupAfterStart")) as world:
        await world.make_workers(0)
        await world.set_phase(f"{NAME}-0-2", "Pending")
        await world.pause()
        await restart(world, f"{NAME}-0-1", 2)
        await world.ready(0)
        await restart(world, f"{NAME}-0-2", 0)
        assert not world.deleting(0), "all have started; what happened before does not count"
        await world.unready(0)
        assert not world.deleting(0)
        await restart(world, f"{NAME}-0-1", 3)
        assert world.deleting(0), "and this one does"


async def test_f9_a_group_that_fails_again_and_again_is_recreated_ever_more_slowly() -> None:
    async with bare(sample()) as world:
        clock = asyncio.get_running_loop().time
        pauses = []
        for _ in range(4):
            await world.make_workers(0)
            begin = clock()
            await restart(world, f"{NAME}-0-1", 1)
            await world.cluster.until(lambda: world.deleting(0))
            pauses.append(clock() - begin)
            await world.remove(f"{NAME}-0")
            await world.make_leader(0)
            await world.pause()
        assert pauses[0] < 5
        assert pauses[1] < pauses[2] < pauses[3] <= 300


async def test_pods_of_a_group_that_fail_together_are_one_failure() -> None:
    """A lost peer ends every member of a collective at the same moment."""
    async with bare(sample().replicas(1).size(8)) as world:
        clock, pauses = asyncio.get_running_loop().time, []
        for _ in range(2):
            await world.make_workers(0)
            begin = clock()
            await asyncio.gather(*(restart(world, f"{NAME}-0-{number}", 1) for number in range(1, 8)))
            await world.cluster.until(lambda: world.deleting(0))
            pauses.append(clock() - begin)
            await world.remove(f"{NAME}-0")
            await world.make_leader(0)
            await world.pause()
        assert pauses[0] < 5
        assert pauses[1] < 15, "the pause after one failure, not after seven"
        assert len([one for one in world.events if "Normal RecreateGroup" in one]) == 2


async def test_events_that_come_late_do_not_let_a_roll_go_back_and_forth() -> None:
    """A group that is done lets the roll go on, and fails again before the cache has the lower partition. The next plan
    raised it, and the events of both writes led to further ones for ever."""
    async with bare(sample().replicas(4).size(1)) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(leader_image("new:2"))
        await world.update(3)
        faults = world.cluster.faults("operator")
        held = faults.hold(STATEFUL_SETS)
        await world.leader_ready(3)
        begun = faults.write_count
        await world.unready(3)
        faults.release(held)
        await world.pause()
        applied = [one for one in faults.writes_since(begun) if writes(STATEFUL_SETS, name=NAME)(one)]
        assert (world.partition, len(applied)) == (2, 0)


async def test_a_second_scale_down_has_the_whole_time_to_drain() -> None:
    """A set that drains for 100 s, with nothing that says when it is done: groups go after that, and a spare time."""
    async with bare(sample().replicas(4).annotations({DRAIN_ON_SCALE_DOWN: "100"})) as world:
        await world.ready(0, 1, 2, 3)
        for replicas in (3, 2):
            body = {"spec": {"replicas": replicas}}
            await world.cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body, subresource="scale")
            await world.pause()
            await asyncio.sleep(100)
            assert world.replicas == 4
        await asyncio.sleep(2 * SPARE_SECONDS)
        assert world.replicas == 2


async def test_f11_percentages_that_scaling_made_nothing_of_do_not_stall_a_roll() -> None:
    """An autoscaler asks no webhook; 25% of two groups are none."""
    async with bare(sample().replicas(4).max_unavailable("25%")) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(worker_image("new:2"))
        assert world.partition == 3
        body = {"spec": {"replicas": 2}}
        await world.cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body, subresource="scale")
        await world.pause()
        assert (world.partition, world.replicas) == (1, 2)
        await world.done(1)
        assert world.partition == 0


async def test_f12_a_failure_at_rest_makes_no_surge() -> None:
    async with bare(sample().replicas(4).partition(2).max_surge(1).max_unavailable(0)) as world:
        await world.ready(0, 1, 2, 3)
        await world.unready(3)
        assert (world.partition, world.replicas) == (2, 4)
        await world.remove(f"{NAME}-1")
        world.by_hand = True
        await world.pause()
        assert (world.partition, world.replicas) == (2, 4)


async def test_f13_other_placement_is_a_roll_like_any_other() -> None:
    async with bare(sample().replicas(3)) as world:
        await world.ready(0, 1, 2)
        await world.edit({"metadata": {"annotations": {group_labels.EXCLUSIVE: "rack"}}})
        assert (world.partition, world.pair) == (2, (3, 0))
        assert world.true_conditions == {"UpdateInProgress", "Progressing"}
        assert len(world.revisions) == 1, "the key stays what others compute"
        await world.cluster.client.create(NODES, {"metadata": {"name": "n", "labels": {"rack": "a"}}})
        for group, partition in ((2, 1), (1, 0), (0, 0)):
            await world.remove(f"{NAME}-{group}")
            await world.make_leader(group)
            body = {"target": {"kind": "Node", "name": "n"}, "metadata": {"name": f"{NAME}-{group}"}}
            await world.cluster.client.create(PODS, body, NAMESPACE, "binding", f"{NAME}-{group}")
            await world.pause()
            await world.ready(group)
            assert world.partition == partition
        assert (world.pair, world.true_conditions) == ((3, 3), {"Available"})


async def test_f14_what_the_previous_leader_left_is_waited_for() -> None:
    async with bare(None, gang="volcano") as world:
        await install(world.cluster, pod_group_definition("scheduling.volcano.sh", "v1beta1"))
        await world.create(sample().network("UniquePerReplica"))
        old_service, (old_group, *_) = world.find(SERVICES, f"{NAME}-0"), world.objects(VOLCANO_POD_GROUPS)
        await world.cluster.client.delete(PODS, f"{NAME}-0", NAMESPACE, grace_seconds=0)
        await world.cluster.client.delete(STATEFUL_SETS, f"{NAME}-0", NAMESPACE)
        await world.make_leader(0)
        await world.pause()
        assert world.find(SERVICES, f"{NAME}-0") == old_service
        await world.cluster.client.delete(SERVICES, f"{NAME}-0", NAMESPACE)
        await world.cluster.client.delete(VOLCANO_POD_GROUPS, old_group["metadata"]["name"], NAMESPACE)
        await world.pause()
        leader_pod = world.leader(0)
        assert leader_pod is not None
        groups = {one["metadata"]["name"]: one for one in world.objects(VOLCANO_POD_GROUPS)}
        for found in (world.find(SERVICES, f"{NAME}-0"), groups.get(old_group["metadata"]["name"])):
            assert found is not None
            assert found["metadata"]["ownerReferences"][0]["uid"] == leader_pod["metadata"]["uid"]


async def test_f15_a_changed_shared_service_is_put_right() -> None:
    async with bare(sample()) as world:
        body = {"spec": {"selector": {"app": "x", group_labels.NAME: "other"}, "publishNotReadyAddresses": False}}
        await world.cluster.client.patch(SERVICES, NAME, NAMESPACE, body)
        await world.pause()
        found = world.find(SERVICES, NAME)
        assert found is not None
        assert (found["spec"]["selector"], found["spec"]["publishNotReadyAddresses"]) == (
            {group_labels.NAME: NAME},
            True,
        )


async def test_f15_a_foreign_service_is_left_alone_and_reported() -> None:
    async with bare(None) as world:
        theirs = {"metadata": {"name": NAME}, "spec": {"clusterIP": "None", "selector": {"app": "x"}}}
        await world.cluster.client.create(SERVICES, theirs, NAMESPACE)
        await world.create(sample())
        before = faults(world).write_count
        await asyncio.sleep(600)
        tries = [one for one in faults(world).writes_since(before) if "/services" in one.path]
        assert len(tries) <= 10, "tried now and then, and not with every reconcile"
        found = world.find(SERVICES, NAME)
        assert found is not None
        assert found["spec"]["selector"] == {"app": "x"}
        assert any("does not belong to this set" in one for one in world.events)
        await world.cluster.client.delete(SERVICES, NAME, NAMESPACE)
        await asyncio.sleep(90)
        assert cast(JsonObject, world.find(SERVICES, NAME))["spec"]["selector"] == {group_labels.NAME: NAME}


async def test_f16_the_shared_service_goes_when_no_group_needs_it() -> None:
    async with bare(sample()) as world:
        await world.ready(0, 1)
        await world.edit({"spec": {"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}})
        await world.done(1)
        assert world.find(SERVICES, NAME) is not None, "group 0 still lives in it"
        await world.done(0)
        assert world.find(SERVICES, NAME) is None
        await world.edit({"spec": {"networkConfig": {"subdomainPolicy": "Shared"}}})
        assert world.find(SERVICES, NAME) is not None
