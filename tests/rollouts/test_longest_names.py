"""A release at the limits of all names: whatever is made beside an object finds room for its suffix."""

import copy

from tests.builders import service
from tests.rollouts import releases
from tests.rollouts.releases import NAMESPACE, V2, new_cluster

from kohort.kube.resources import INGRESSES, LEADER_WORKER_SETS, ROLLOUT_HISTORIES, ROLLOUTS, SERVICES
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels

SET, SERVICE, INGRESS, ROLLOUT = "s" * 50, "v" * 56, "i" * 246, "r" * 63


class LongStory(releases.Story):
    async def begin(self, subject: JsonObject | None = None, plan: JsonObject | None = None) -> None:
        subject, plan, ingress = releases.group_set(), plan or releases.rollout(), releases.ingress()
        subject["metadata"]["name"] = SET
        plan["metadata"]["name"], plan["spec"]["workloadRef"]["name"] = ROLLOUT, SET
        (strategy,) = plan["spec"]["strategy"].values()
        strategy["trafficRoutings"] = [{"service": SERVICE, "ingress": {"name": INGRESS}}]
        ingress["metadata"]["name"] = INGRESS
        ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"] = SERVICE
        selector = {**subject["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"]["labels"]}
        leader = service(SERVICE).selecting({**selector, group_labels.WORKER_INDEX: "0"}).port(80, target=8080)
        for resource, document in (
            (SERVICES, leader),
            (INGRESSES, ingress),
            (LEADER_WORKER_SETS, subject),
            (ROLLOUTS, plan),
        ):
            await self.create(resource, copy.deepcopy(dict(document)))
        await self.until(lambda: self.phase == "Healthy" and self.ready())

    async def change(self, image: str, **spec: Json) -> None:
        template = copy.deepcopy(self.stable["spec"]["leaderWorkerTemplate"])
        template["workerTemplate"]["spec"]["containers"][0]["image"] = image
        body = {"spec": {"leaderWorkerTemplate": template, **spec}}
        await self.client.patch(LEADER_WORKER_SETS, SET, NAMESPACE, body)

    def ready(self) -> bool:
        return bool((self.stable.get("status") or {}).get("readyReplicas"))

    @property
    def rollout(self) -> JsonObject:
        return self.cluster.find(ROLLOUTS, ROLLOUT, NAMESPACE) or {}

    @property
    def stable(self) -> JsonObject:
        return self.cluster.find(LEADER_WORKER_SETS, SET, NAMESPACE) or {}


async def test_a_release_at_the_limits_of_all_names() -> None:
    async with new_cluster() as cluster:
        story = LongStory(cluster)
        await story.begin()
        await story.change(V2)
        await story.until(lambda: story.progress.get("currentStepState") == "StepPaused")
        assert cluster.find(SERVICES, f"{SERVICE}-canary", NAMESPACE) is not None
        assert cluster.find(INGRESSES, f"{INGRESS}-canary", NAMESPACE) is not None
        await story.client.delete(ROLLOUTS, ROLLOUT, NAMESPACE)
        await story.until(lambda: not cluster.objects(ROLLOUTS, NAMESPACE))
        await story.until(lambda: not cluster.objects(ROLLOUT_HISTORIES, NAMESPACE))
