"""Deployments are released by the same machine: canary beside, blue-green inside one Deployment."""

import pytest
from tests.rollouts.deployments import NAME, STEPS, story
from tests.rollouts.releases import BLUE_GREEN_STEPS, NAMESPACE, V1, V2, V3, rollout

from kohort.kube.errors import ApiError
from kohort.kube.resources import DEPLOYMENTS, PODS, REPLICA_SETS, ROLLOUTS

SETTINGS = ("strategy", "minReadySeconds", "progressDeadlineSeconds")


async def test_row_39_a_canary_beside_the_deployment() -> None:
    async with story() as told:
        await told.begin(rollout(steps=STEPS))
        await told.change(V2)
        assert told.stable["spec"]["paused"] is True
        await told.at(1)
        assert told.pods() == [V1] * 5 + [V2]
        await told.approve()
        await told.at(2)
        assert told.pods() == [V1] * 5 + [V2] * 3
        await told.healthy(V2)


async def test_row_40_a_canary_rolled_back_leaves_every_stable_pod_alone() -> None:
    async with story() as told:
        await told.begin(rollout(steps=STEPS))
        before = {one["metadata"]["name"] for one in told.cluster.objects(PODS, NAMESPACE)}
        await told.change(V2)
        await told.at(1)
        await told.change(V1)
        await told.healthy(V1)
        assert {one["metadata"]["name"] for one in told.cluster.objects(PODS, NAMESPACE)} == before


async def test_row_05_blue_green_inside_one_deployment() -> None:
    async with story() as told:
        await told.begin(rollout(blue_green=True, steps=BLUE_GREEN_STEPS))
        settings = told.stable["spec"]["strategy"]
        await told.change(V2)
        await told.at(1)
        assert told.pods() == [V1] * 5 + [V2] * 3
        assert told.stable["spec"]["minReadySeconds"] == 2147483646
        await told.approve()
        await told.at(2)
        assert told.pods() == [V1] * 5 + [V2] * 5
        await told.approve()
        await told.at(3)
        await told.approve()
        await told.healthy(V2)
        assert told.stable["spec"]["strategy"] == settings
        assert told.stable["spec"].get("minReadySeconds", 0) == 0


async def test_row_06_blue_green_rolled_back_inside_one_deployment() -> None:
    async with story() as told:
        await told.begin(rollout(blue_green=True, steps=BLUE_GREEN_STEPS))
        await told.change(V2)
        await told.at(1)
        await told.approve()
        await told.at(2)
        await told.change(V1)
        await told.healthy(V1)
        sets = [one for one in told.cluster.objects(REPLICA_SETS, NAMESPACE) if one["spec"]["replicas"]]
        assert len(sets) == 1


@pytest.mark.parametrize("end", ["row_09_deleted", "row_10_disabled"])
async def test_row_09_row_10_blue_green_given_up_inside_one_deployment_goes_on_natively(end: str) -> None:
    async with story() as told:
        await told.begin(rollout(blue_green=True, steps=BLUE_GREEN_STEPS))
        settings = {name: told.stable["spec"].get(name) for name in SETTINGS}
        await told.change(V2)
        await told.at(1)
        assert told.stable["spec"]["progressDeadlineSeconds"] == 2147483647
        if end == "row_09_deleted":
            await told.cluster.client.delete(ROLLOUTS, NAME, NAMESPACE)
            await told.until(lambda: told.cluster.find(ROLLOUTS, NAME, NAMESPACE) is None)
        else:
            await told.cluster.client.patch(ROLLOUTS, NAME, NAMESPACE, {"spec": {"disabled": True}})
            await told.until(lambda: told.phase == "Disabled")
        await told.until(lambda: told.pods() == [V2] * 5 and told.ready() and told.nothing_left())
        assert {name: told.stable["spec"].get(name) or settings[name] for name in SETTINGS} == settings


async def test_row_08_blue_green_inside_one_deployment_follows_its_size() -> None:
    async with story() as told:
        await told.begin(rollout(blue_green=True, steps=BLUE_GREEN_STEPS))
        await told.change(V2)
        await told.at(1)
        for total, new in ((6, 3), (7, 4), (4, 2)):
            await told.cluster.client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"spec": {"replicas": total}})
            await told.until(lambda total=total, new=new: told.pods() == [V1] * total + [V2] * new)  # type: ignore[misc]


async def test_w05_another_template_while_the_deployment_is_promoted_is_refused_and_the_old_one_is_not() -> None:
    async with story() as told:
        await told.begin(rollout(steps=[{"replicas": "100%"}]))
        await told.change(V2)
        await told.until(lambda: told.finalising == "ResumeWorkload" and len(told.versions()) > 1)
        with pytest.raises(ApiError, match=r"Deployment llm is being promoted .* when its Rollout is Healthy"):
            await told.change(V3)
        await told.change(V1)
        await told.healthy(V1)
