"""The integration checklist of the controllers, IC1 to IC28: scale, objects, restarts, conditions, the plain roll."""

from tests.groups.bare import (
    HPA_SELECTOR,
    NAME,
    NAMESPACE,
    bare,
    leader_image,
    replicas,
    sample,
    worker_image,
)

from kohort.kube.resources import LEADER_WORKER_SETS, PODS, SERVICES, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

PROGRESSING = "Normal GroupsProgressing Replicas are progressing, with {} groups ready of total {} groups"
READY = "Normal AllGroupsReady All replicas are ready, with {} groups ready of total {} groups"
RECREATED = "Normal RecreateGroup Worker pod {} failed, deleted leader pod {} to recreate group {}"


async def test_ic1_scale_up_number_of_groups() -> None:
    async with bare(sample()) as world:
        await world.edit(replicas(3))
        world.assert_leader_set(3)
        world.assert_worker_sets()


async def test_ic2_scale_down_number_of_groups() -> None:
    async with bare(sample().replicas(4)) as world:
        await world.edit(replicas(3))
        world.assert_leader_set(3)
        world.assert_worker_sets()


async def test_ic3_scale_down_to_0() -> None:
    async with bare(sample()) as world:
        await world.edit(replicas(0))
        world.assert_leader_set(0)
        assert world.worker_sets == []


async def test_ic4_scale_up_from_0() -> None:
    async with bare(sample().replicas(0)) as world:
        await world.edit(replicas(3))
        world.assert_leader_set(3)
        world.assert_worker_sets()
        assert len(world.worker_sets) == 3


async def test_ic5_group_size_is_1() -> None:
    async with bare(sample().size(1)) as world:
        await world.ready(0, 1)
        world.assert_leader_set(2)
        assert world.worker_sets == []
        assert world.true_conditions == {"Available"}


async def test_ic6_zero_replicas() -> None:
    async with bare(sample().replicas(0)) as world:
        world.assert_leader_set(0)
        assert world.true_conditions == {"Available"}


async def test_ic7_create_2_groups() -> None:
    async with bare(sample()) as world:
        world.assert_leader_set(2)
        world.assert_worker_sets()
        assert f"Normal GroupsProgressing Created leader statefulset {NAME}" in world.events
        for index in range(2):
            text = f"Normal GroupsProgressing Created worker statefulset for leader pod {NAME}-{index}"
            assert text in world.events


async def test_ic8_deleted_worker_set_is_recreated() -> None:
    async with bare(sample()) as world:
        before = world.workers(0)
        assert before is not None
        await world.cluster.client.delete(STATEFUL_SETS, f"{NAME}-0", NAMESPACE)
        await world.pause()
        after = world.workers(0)
        assert after is not None
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        world.assert_worker_sets()


async def test_ic9_headless_service_created() -> None:
    async with bare(sample()) as world:
        (service,) = [
            one for one in world.objects(SERVICES) if group_labels.NAME in (one["metadata"].get("labels") or {})
        ]
        assert service["metadata"]["name"] == NAME
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"] is True
        assert service["spec"]["selector"] == {group_labels.NAME: NAME}
        (owner,) = service["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("LeaderWorkerSet", NAME)


async def test_ic10_deleted_service_is_recreated() -> None:
    async with bare(sample()) as world:
        await world.cluster.client.delete(SERVICES, NAME, NAMESPACE)
        await world.pause()
        assert world.find(SERVICES, NAME) is not None


async def test_ic11_per_replica_services() -> None:
    async with bare(sample().network("UniquePerReplica")) as world:
        services = {
            one["metadata"]["name"]: one
            for one in world.objects(SERVICES)
            if group_labels.NAME in (one["metadata"].get("labels") or {})
        }
        assert sorted(services) == world.leaders == [f"{NAME}-0", f"{NAME}-1"]
        for index, (name, service) in enumerate(services.items()):
            assert service["spec"]["selector"] == {group_labels.NAME: NAME, group_labels.GROUP_INDEX: str(index)}
            (owner,) = service["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"]) == ("Pod", name)


async def test_ic12_deleted_leader_set_is_recreated() -> None:
    async with bare(sample()) as world:
        before = world.leader_set["metadata"]["uid"]
        await world.cluster.client.delete(STATEFUL_SETS, NAME, NAMESPACE)
        await world.pause()
        world.assert_leader_set(2)
        assert world.leader_set["metadata"]["uid"] != before


async def test_ic13_scale_subresource_readable() -> None:
    async with bare(sample()) as world:
        scale = await world.cluster.client.get(LEADER_WORKER_SETS, NAME, NAMESPACE, subresource="scale")
        assert scale["spec"] == {"replicas": 2}
        assert scale["status"] == {"replicas": 2, "selector": HPA_SELECTOR}
        assert world.subject["status"]["hpaPodSelector"] == HPA_SELECTOR


async def test_ic14_hpa_scales_via_scale() -> None:
    async with bare(sample()) as world:
        client = world.cluster.client
        scale = await client.get(LEADER_WORKER_SETS, NAME, NAMESPACE, subresource="scale")
        await client.update(LEADER_WORKER_SETS, {**scale, "spec": {"replicas": 3}}, NAMESPACE, subresource="scale")
        await world.pause()
        assert world.subject["spec"]["replicas"] == 3
        world.assert_leader_set(3)


async def test_ic15_available_state() -> None:
    async with bare(sample()) as world:
        await world.ready(0, 1)
        (condition,) = [one for one in world.subject["status"]["conditions"] if one["status"] == "True"]
        assert (condition["type"], condition["reason"], condition["message"]) == (
            "Available",
            "AllGroupsReady",
            "All replicas are ready",
        )


async def test_ic16_progressing_available_progressing() -> None:
    async with bare(sample()) as world:
        assert world.true_conditions == {"Progressing"}
        assert PROGRESSING.format(0, 2) in world.events
        await world.ready(0, 1)
        assert world.conditions == {"Available": "True", "Progressing": "False"}
        assert READY.format(2, 2) in world.events
        await world.edit(replicas(3))
        assert world.conditions == {"Available": "False", "Progressing": "True"}
        assert PROGRESSING.format(2, 3) in world.events


async def test_ic17_exclusive_placement_labels() -> None:
    async with bare(sample().exclusive("cloud.google.com/gke-nodepool")) as world:
        annotations = world.leader_set["spec"]["template"]["metadata"]["annotations"]
        assert annotations[group_labels.EXCLUSIVE] == "cloud.google.com/gke-nodepool"
        assert world.worker_sets == [], "leaders are not scheduled, so nobody knows where workers must go"


async def test_ic18_restart_policy_none() -> None:
    async with bare(sample().size(4).restart("None")) as world:
        await world.make_workers(0)
        await world.delete_worker(0, 1)
        assert not world.deleting(0)
        left = [number for number in (1, 2, 3) if not _leaving(world.find(PODS, f"{NAME}-0-{number}"))]
        assert left == [2, 3]


def _leaving(pod: JsonObject | None) -> bool:
    return pod is None or "deletionTimestamp" in pod["metadata"]


async def test_ic19_recreate_group_on_pod_restart() -> None:
    async with bare(sample().size(3)) as world:
        await world.make_workers(0)
        await world.delete_worker(0, 1)
        assert world.deleting(0)
        assert not world.deleting(1)
        assert RECREATED.format(f"{NAME}-0-1", f"{NAME}-0", 0) in world.events


async def test_ic20_experimental_annotation_and_a_pending_pod() -> None:
    subject = (
        sample().size(3).restart("RecreateGroupOnPodRestart").annotations({group_labels.RECREATE_AFTER_START: "true"})
    )
    async with bare(subject) as world:
        await world.make_workers(0)
        await world.set_phase(f"{NAME}-0-2", "Pending")
        await world.delete_worker(0, 1)
        assert not world.deleting(0)


async def test_ic21_recreate_group_after_start_and_a_pending_pod() -> None:
    async with bare(sample().size(3).restart("RecreateGroupAfterStart")) as world:
        await world.make_workers(0)
        await world.set_phase(f"{NAME}-0-2", "Pending")
        await world.delete_worker(0, 1)
        assert not world.deleting(0)


async def test_ic22_recreate_group_after_start_all_running() -> None:
    async with bare(sample().size(3).restart("RecreateGroupAfterStart")) as world:
        await world.ready(0, 1)
        await world.make_workers(0)
        await world.delete_worker(0, 1)
        assert world.deleting(0)
        assert RECREATED.format(f"{NAME}-0-1", f"{NAME}-0", 0) in world.events


async def test_ic23_progressing_message_and_event() -> None:
    async with bare(sample()) as world:
        (condition,) = world.subject["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Progressing", "True")
        assert (condition["reason"], condition["message"]) == ("GroupsProgressing", "Replicas are progressing")
        assert PROGRESSING.format(0, 2) in world.events


async def test_ic24_no_update_in_progress_at_creation() -> None:
    async with bare(sample().replicas(4).max_surge(2)) as world:
        assert world.conditions == {"Progressing": "True"}


async def test_ic25_default_progressing_state() -> None:
    async with bare(sample()) as world:
        body: JsonObject = {"status": {"conditions": []}}
        await world.cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body, subresource="status")
        await world.pause()
        assert world.conditions == {"Progressing": "True"}


async def test_ic26_available_event() -> None:
    async with bare(sample()) as world:
        await world.ready(0, 1)
        assert READY.format(2, 2) in world.events


async def test_ic27_leader_template_change_default_strategy() -> None:
    async with bare(sample().replicas(4)) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(leader_image("new:2"))
        assert (world.partition, world.pair) == (3, (4, 0))
        assert "Normal GroupsUpdating Updating replica 3" in world.events
        assert world.true_conditions == {"UpdateInProgress", "Progressing"}
        await world.done(3)
        assert (world.partition, world.pair) == (2, (4, 1))
        await world.done(1)
        assert (world.partition, world.pair) == (2, (4, 2))
        await world.unready(3)
        assert (world.partition, world.pair) == (2, (3, 2))
        await world.ready(3)
        await world.done(2, 0)
        assert (world.partition, world.pair) == (0, (4, 4))
        assert world.true_conditions == {"Available"}


async def test_ic28_worker_template_change_two_unavailable() -> None:
    async with bare(sample().replicas(4).max_unavailable(2)) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(worker_image("new:2"))
        assert world.partition == 2
        await world.done(3)
        assert world.partition == 1
        await world.done(2)
        assert world.partition == 0
        await world.done(1, 0)
        assert (world.pair, world.true_conditions) == ((4, 4), {"Available"})
