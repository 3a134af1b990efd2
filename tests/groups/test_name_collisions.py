"""Sets whose objects would have the same names are refused, or told where nobody could refuse them."""

import pytest
from tests.builders import LeaderWorkerSet, lws
from tests.groups.bare import NAME, NAMESPACE, World, bare, replicas, sample

from kohort.admission.webhook_configurations import VALIDATING
from kohort.admission.webhook_host import Loopback
from kohort.groups import leaderworkerset
from kohort.groups.name_collisions import collision_errors
from kohort.kube.errors import Forbidden
from kohort.kube.resources import LEADER_WORKER_SETS, VALIDATING_WEBHOOKS
from kohort.objects.json_types import JsonObject


def collides(new: LeaderWorkerSet, *others: LeaderWorkerSet) -> bool:
    found = collision_errors(new, [one.as_view(leaderworkerset.LeaderWorkerSet) for one in others])
    assert {error.field for error in found} <= {"metadata.name"}
    return bool(found)


A = lws("a").replicas(2).size(2)


@pytest.mark.parametrize(
    ("new", "other", "expected"),
    [
        pytest.param(lws("a-1"), A, True, id="a-1 is the name of a's second group"),
        pytest.param(A, lws("a-1"), True, id="whichever comes first"),
        pytest.param(lws("a-2"), A, False, id="there is no third group"),
        pytest.param(lws("a-2"), A.max_surge(1), True, id="but there may be one during a roll"),
        pytest.param(lws("a-1"), A.size(1), False, id="a leader alone has no objects of its name"),
        pytest.param(lws("a-1"), A.size(1).network("UniquePerReplica"), True, id="unless it has a Service"),
        pytest.param(lws("a-01"), A, False, id="numbers have no leading zero"),
        pytest.param(lws("ab-1"), A, False, id="another name"),
        pytest.param(lws("a-1-1"), A, False, id="a worker pod is no StatefulSet"),
        pytest.param(A.replicas(3), A, False, id="a set does not collide with itself"),
    ],
)
def test_which_names_collide(new: LeaderWorkerSet, other: LeaderWorkerSet, expected: bool) -> None:
    assert collides(new, other) is expected


async def test_a_new_set_is_refused_and_so_is_one_that_grows() -> None:
    async with bare(sample()) as world:
        client = world.cluster.client
        with pytest.raises(Forbidden, match=rf"collides with LeaderWorkerSet {NAME}: that set's group 1"):
            await client.create(LEADER_WORKER_SETS, lws(f"{NAME}-1"), NAMESPACE)
        await client.create(LEADER_WORKER_SETS, lws(f"{NAME}-2"), NAMESPACE)
        await world.cluster.settle(quiet=1)
        with pytest.raises(Forbidden, match=rf"collides with LeaderWorkerSet {NAME}-2: its group 2"):
            await world.edit(replicas(3))


async def scale(world: World, count: int) -> None:
    body = {"spec": {"replicas": count}}
    await world.cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body, subresource="scale")


async def test_an_autoscaler_is_refused_what_collides_and_may_always_go_back() -> None:
    async with bare(sample()) as world:
        await world.cluster.client.create(LEADER_WORKER_SETS, lws(f"{NAME}-2"), NAMESPACE)
        await world.cluster.settle(quiet=1)
        with pytest.raises(Forbidden, match=rf"collides with LeaderWorkerSet {NAME}-2: its group 2"):
            await scale(world, 3)
        await scale(world, 1)
        await scale(world, 2)
        assert world.subject["spec"]["replicas"] == 2


async def test_names_that_scaling_makes_too_long_are_refused() -> None:
    async with bare(sample()) as world:
        name = "n" * 49
        await world.cluster.client.create(LEADER_WORKER_SETS, lws(name).replicas(2).size(2), NAMESPACE)
        await world.cluster.settle(quiet=1)
        with pytest.raises(Forbidden, match="names of its pods would be too long: with 600 replicas of size 2"):
            body = {"spec": {"replicas": 600}}
            await world.cluster.client.patch(LEADER_WORKER_SETS, name, NAMESPACE, body, subresource="scale")


async def test_a_name_collision_that_was_not_refused_is_reported() -> None:
    async with bare(sample()) as world:
        await world.cluster.client.create(LEADER_WORKER_SETS, lws(f"{NAME}-2"), NAMESPACE)
        await world.cluster.settle(quiet=1)
        await world.cluster.client.delete(VALIDATING_WEBHOOKS, VALIDATING)
        await scale(world, 3)
        await world.pause()
        text = f"a StatefulSet {NAME}-2 exists and belongs to LeaderWorkerSet {NAME}-2"
        assert any(one.startswith("Warning FailedCreate") and text in one for one in world.events)


async def test_what_webhooks_are_shown_is_a_scale() -> None:
    """And not the set: whoever judges it must look that up."""
    seen: list[JsonObject] = []

    def looked_at(request: JsonObject) -> JsonObject:
        seen.append(request)
        return {"allowed": True}

    async with bare(sample()) as world:
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["*/scale"]}
        host = Loopback()
        address = await host.open({"/look": looked_at})
        hook = {"name": "look.example.com", "clientConfig": address.client("/look"), "rules": [rule]}
        hook |= {"admissionReviewVersions": ["v1"], "sideEffects": "None"}
        await world.cluster.client.create(VALIDATING_WEBHOOKS, {"metadata": {"name": "look"}, "webhooks": [hook]})
        await scale(world, 1)
        assert [(one["kind"]["kind"], one["object"]["spec"], one["oldObject"]["spec"]) for one in seen] == [
            ("Scale", {"replicas": 1}, {"replicas": 2})
        ]
        await host.close()
