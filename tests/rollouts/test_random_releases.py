"""Releases during which users do other things, in random order: edits that change nothing, scaling, other versions.

Each seed is one walk on virtual time. The monitor judges every change on the way; at the end everything is approved,
the version that was asked for last runs alone, and nothing of a release is left.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.rollouts.releases import NAME, NAMESPACE, V1, V2, V3, Story, group_set, release_cluster, rollout

from kohort.kube.errors import ApiError
from kohort.kube.resources import LEADER_WORKER_SETS, ROLLOUTS
from kohort.objects.json_types import JsonObject
from kohort.rules import rollout_labels

OPERATIONS = 7
TEMPLATE = "leaderWorkerTemplate"
STEPS: list[JsonObject] = [
    {"replicas": 1, "traffic": "20%", "pause": {}},
    {"replicas": "50%", "traffic": "50%", "pause": {"duration": 20}},
    {"replicas": "100%", "traffic": "100%"},
]
CLAIM: JsonObject = {
    "metadata": {"name": "cache"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def subject(*, claims: bool) -> JsonObject:
    made = group_set()
    pod = made["spec"][TEMPLATE]["workerTemplate"]["spec"]
    pod["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    if claims:
        pod["containers"][0]["volumeMounts"] = [{"name": "cache", "mountPath": "/cache"}]
        made["spec"][TEMPLATE]["volumeClaimTemplates"] = [CLAIM]
    return made


class Walk:
    """One user. `wanted` is the version that they asked for last."""

    def __init__(self, story: Story, seed: int) -> None:
        self.story, self.random, self.wanted = story, random.Random(seed), V1
        self.log: list[str] = []

    async def make(self, *kinds: str) -> None:
        for _ in range(OPERATIONS):
            kind = self.random.choice(kinds)
            operation: Callable[[], Awaitable[str]] = getattr(self, kind)
            try:
                self.log.append(f"{kind}: {await operation()}")
            except ApiError as refusal:
                # While the set is promoted, or the webhook just does not know all: as a user would be told.
                assert refusal.code in (409, 503), refusal
                self.log.append(f"{kind}: {refusal.code}")
            await asyncio.sleep(self.random.choice([0.0, 0.3, 2.0, 10.0, 40.0]))

    async def end(self) -> None:
        """Everything is approved until nothing is left to approve."""
        story = self.story
        for _ in range(40):
            if story.phase == "Healthy" and story.images() == {self.wanted} and story.nothing_left():
                return
            if story.phase == "Progressing" and story.state == "StepPaused":
                await story.approve()
            await asyncio.sleep(20.0)
        raise AssertionError(f"not at {self.wanted} after {self.log}: {story.told()}")

    # What users do

    async def edit(self) -> str:
        """Another spelling of the same."""
        stored = await self.story.client.get(LEADER_WORKER_SETS, NAME, NAMESPACE)
        template = stored["spec"][TEMPLATE]
        pod = template["workerTemplate"]["spec"]
        which = self.random.randrange(3)
        if which == 0:
            pod["containers"][0]["resources"]["requests"]["cpu"] = self.random.choice(["0.1", "100m", "0.10"])
        elif which == 1:
            pod["hostNetwork"] = False
        else:
            template["resizePolicy"] = self.random.choice(["None", "Recreate"])
        await self.story.client.update(LEADER_WORKER_SETS, stored)
        return str(which)

    async def scale(self) -> str:
        count = self.random.randint(1, 4)
        await self.story.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, {"spec": {"replicas": count}})
        return str(count)

    async def release(self) -> str:
        return await self.to(self.random.choice([V1, V2, V3]))

    async def to(self, image: str) -> str:
        stored = await self.story.client.get(LEADER_WORKER_SETS, NAME, NAMESPACE)
        stored["spec"][TEMPLATE]["workerTemplate"]["spec"]["containers"][0]["image"] = image
        await self.story.client.update(LEADER_WORKER_SETS, stored)
        self.wanted = image
        return image

    async def disable(self) -> str:
        """And enable: its workload rolls out on its own meanwhile."""
        disabled = not self.story.rollout["spec"].get("disabled", False)
        await self.story.edit({"spec": {"disabled": disabled}})
        return str(disabled)

    async def remove(self) -> str:
        """Delete the Rollout at whatever it does, and make it again when it is gone."""
        state = self.story.state
        await self.story.client.delete(ROLLOUTS, NAME, NAMESPACE)
        await self.story.until(lambda: not self.story.rollout)
        await self.story.create(ROLLOUTS, rollout(steps=STEPS))
        return state

    async def approve(self) -> str:
        if self.story.phase == "Progressing" and self.story.state == "StepPaused":
            await self.story.approve()
        return self.story.state


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "kinds",
    [("edit", "approve"), ("scale", "approve"), ("release", "approve"), ("edit", "scale", "release", "approve")],
    ids=lambda kinds: "-".join(kinds),
)
@pytest.mark.parametrize("claims", [False, True], ids=["", "claims"])
async def test_whatever_users_do_meanwhile(claims: bool, kinds: tuple[str, ...], seed: int) -> None:
    async with release_cluster(nodes=24) as (cluster, _):
        story = Story(cluster)
        await story.begin(subject(claims=claims), rollout(steps=STEPS))
        walk = Walk(story, seed)
        walk.log.append(await walk.to(V2))
        await walk.make(*kinds)
        await walk.end()
        if kinds == ("edit", "approve"):
            assert not story.events("Superseded"), walk.log


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["disable", "remove"])
async def test_whatever_happens_to_the_rollout_meanwhile(kind: str, seed: int) -> None:
    async with release_cluster(nodes=24) as (cluster, _):
        story = Story(cluster)
        await story.begin(subject(claims=False), rollout(steps=STEPS))
        walk = Walk(story, seed)
        walk.log.append(await walk.to(V2))
        await walk.make(kind, "release", "approve")
        await story.edit({"spec": {"disabled": False}})
        await walk.end()


@pytest.mark.parametrize("seed", range(3))
async def test_edits_that_change_nothing_start_nothing(seed: int) -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin(subject(claims=False), rollout(steps=STEPS))
        before = {one["metadata"]["uid"] for one in story.pods()}
        walk = Walk(story, seed)
        await walk.make("edit")
        await cluster.settle(20)
        assert story.phase == "Healthy"
        assert rollout_labels.IN_PROGRESSING not in (story.stable["metadata"].get("annotations") or {}), walk.log
        assert {one["metadata"]["uid"] for one in story.pods()} == before, walk.log
