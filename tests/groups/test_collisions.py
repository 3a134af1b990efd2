"""Sets whose objects would have the same names are refused, or told where nobody could refuse them."""

import pytest
from tests.builders import LeaderWorkerSet, lws
from tests.groups.bare import NAME, NAMESPACE, bare, replicas, sample

from kohort.groups import api
from kohort.groups.collisions import collision_errors
from kohort.kube.errors import Forbidden
from kohort.kube.resources import LEADER_WORKER_SETS


def collides(new: LeaderWorkerSet, *others: LeaderWorkerSet) -> bool:
    found = collision_errors(new, [one.as_view(api.LeaderWorkerSet) for one in others])
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


async def test_what_an_autoscaler_brings_about_is_told() -> None:
    """Scaling asks no webhook."""
    async with bare(sample()) as world:
        await world.cluster.client.create(LEADER_WORKER_SETS, lws(f"{NAME}-2"), NAMESPACE)
        await world.cluster.settle(quiet=1)
        body = {"spec": {"replicas": 3}}
        await world.cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body, subresource="scale")
        await world.pause()
        text = f"a StatefulSet {NAME}-2 exists and belongs to LeaderWorkerSet {NAME}-2"
        assert any(one.startswith("Warning FailedCreate") and text in one for one in world.events)
