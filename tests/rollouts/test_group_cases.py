"""Cases of leader-worker groups: `l07` is number 7 of the list. Others stand with their subject:

l01 to l04, l06, l09, l13 and l16 with the hold; l10 and l12 with the ends; l08 under load; l11 is the crash sweep.
"""

import asyncio

from tests.builders import lws, service
from tests.rollouts.releases import (
    NAME,
    NAMESPACE,
    V1,
    V2,
    Story,
    group_set,
    ingress,
    new_cluster,
    release_cluster,
    rollout,
)

from kohort.kube.resources import (
    INGRESSES,
    LEADER_WORKER_SETS,
    MUTATING_WEBHOOKS,
    PODS,
    ROLLOUTS,
    SERVICES,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels, rollout_labels

HALF: list[JsonObject] = [{"replicas": "50%", "traffic": "50%", "pause": {}}]
TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"


async def test_l05_a_service_that_selects_by_the_name_of_the_set() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        named = (
            service("llm-leader")
            .selecting({group_labels.NAME: NAME, group_labels.WORKER_INDEX: "0"})
            .port(80, target=8080)
        )
        await story.create(SERVICES, named)
        await story.begin(plan=rollout(steps=HALF))
        await story.change(V2)
        await story.at(1)
        selector = story.selector("llm-leader-canary")
        assert selector[group_labels.NAME] == story.canary["metadata"]["name"]
        chosen = [
            one for one in cluster.objects(PODS, NAMESPACE) if selector.items() <= one["metadata"]["labels"].items()
        ]
        assert [one["metadata"]["labels"][group_labels.WORKER_INDEX] for one in chosen] == ["0"]
        await story.change(V1)
        await story.healthy(V1)


async def test_l07_a_group_with_one_worker_that_is_not_ready_is_no_ready_group() -> None:
    async with release_cluster() as (cluster, monitor):
        monitor.excused |= {"I2"}
        story = Story(cluster)
        subject = group_set()
        subject["spec"]["leaderWorkerTemplate"]["restartPolicy"] = "None"
        await story.begin(subject, rollout(steps=HALF))
        await story.change(V2)
        await story.at(1)
        name = f"{story.canary['metadata']['name']}-0-1"
        await story.cordon()
        await cluster.client.delete(PODS, name, NAMESPACE)
        await story.until(lambda: "0/1 groups ready" in story.progress["message"])
        await story.until(lambda: f"{name} is Pending: " in story.progress["message"])
        assert (story.step, story.state) == (1, "StepPaused")
        await story.cordon(False)
        await story.until(lambda: "1/1 groups ready (2 pods)" in story.progress["message"])


async def test_l14_a_name_of_fifty_letters() -> None:
    name = "llm-" + "a" * 46
    async with new_cluster() as cluster:
        client = cluster.client
        plan = rollout(steps=HALF)
        plan["spec"]["workloadRef"]["name"] = name
        subject = lws(name).replicas(2).size(2)
        subject["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {"labels": {"app": "llm"}}
        leader = service("llm-leader").selecting({"app": "llm", group_labels.WORKER_INDEX: "0"}).port(80)
        await client.create(SERVICES, leader, NAMESPACE)
        await client.create(INGRESSES, ingress(), NAMESPACE)
        await client.create(LEADER_WORKER_SETS, subject, NAMESPACE)
        await client.create(ROLLOUTS, plan, NAMESPACE)
        await cluster.until(lambda: _status(cluster.find(ROLLOUTS, NAME, NAMESPACE), "phase") == "Healthy")
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"metadata": {"labels": {"v": "2"}}}}}}
        await client.patch(LEADER_WORKER_SETS, name, NAMESPACE, body)
        await cluster.until(
            lambda: _status(cluster.find(ROLLOUTS, NAME, NAMESPACE), "currentStepState") == "StepPaused", 300
        )
        (canary,) = [
            one["metadata"]["name"] for one in cluster.objects(LEADER_WORKER_SETS, NAMESPACE) if _is_canary(one)
        ]
        assert len(canary) <= 47
        pods = [one["metadata"]["name"] for one in cluster.objects(PODS, NAMESPACE)]
        assert {f"{canary}-0", f"{canary}-0-1"} <= {*pods}
        ready = {"status": {"canaryStatus": {"currentStepState": "StepReady"}}}
        await client.patch(ROLLOUTS, NAME, NAMESPACE, ready, subresource="status")
        await cluster.until(lambda: len(cluster.objects(LEADER_WORKER_SETS, NAMESPACE)) == 1, 600)
        await cluster.until(lambda: _status(cluster.find(ROLLOUTS, NAME, NAMESPACE), "phase") == "Healthy", 600)


def _is_canary(subject: JsonObject) -> bool:
    return rollout_labels.CANARY_SET in subject["metadata"].get("labels", {})


def _status(obj: JsonObject | None, field: str) -> str:
    return str(((obj or {}).get("status") or {}).get(field, ""))


async def test_l15_a_promotion_that_cannot_end_leaves_the_canary_alone() -> None:
    async with release_cluster() as (cluster, monitor):
        # All requests are on the canary; that the stable Service is empty meanwhile hurts nobody.
        monitor.excused |= {"I4"}
        story = Story(cluster)
        steps: list[JsonObject] = [{"replicas": "100%", "traffic": "100%", "pause": {}}]
        await story.begin(plan=rollout(blue_green=True, steps=steps))
        await story.change(V2)
        await story.at(1)
        await story.cordon()
        await story.approve()
        await story.until(lambda: bool(story.events("PromotionStalled")), 1200)
        assert "llm: 0/2 groups" in story.events("PromotionStalled")[0]
        assert (story.weight(), story.canary["spec"]["replicas"]) == ("100", 2)
        assert "deletionTimestamp" not in story.canary["metadata"]
        await story.cordon(False)
        await story.healthy(V2)


async def test_l17_the_canary_is_placed_as_the_stable_set_is() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        subject = group_set(replicas=1)
        notes = {TOPOLOGY: "kubernetes.io/hostname", "argocd.argoproj.io/tracking-id": "x"}
        subject["metadata"]["annotations"] = notes
        subject["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus", "app.kubernetes.io/instance": "argo"}
        await story.begin(subject, rollout(steps=[{"replicas": 1, "pause": {}}], routed=False))
        await story.change(V2)
        await story.until(lambda: len(story.canaries) == 1)
        metadata = story.canary["metadata"]
        assert metadata["annotations"][TOPOLOGY] == "kubernetes.io/hostname"
        assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
        assert not {*notes} - {TOPOLOGY} & {*metadata["annotations"]}
        assert "app.kubernetes.io/instance" not in metadata["labels"], "never what GitOps tools track by"


async def test_l18_a_hold_that_is_lost_while_the_webhook_is_away_comes_back() -> None:
    async with release_cluster() as (cluster, monitor):
        # Between the write past the webhook and our answer to it the set's own controller may begin.
        monitor.excused |= {"I1"}
        story = Story(cluster)
        await story.begin(group_set(replicas=3, size=1), rollout(steps=HALF))
        await story.change(V2)
        await story.at(1)
        name = "kruise-rollout-mutating-webhook-configuration"
        before = await cluster.client.get(MUTATING_WEBHOOKS, name)
        await cluster.client.delete(MUTATING_WEBHOOKS, name)
        await asyncio.sleep(1)
        free = {"spec": {"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": 0, "maxSurge": 1}}}}
        await cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, free)
        await story.until(lambda: bool(story.events("HoldLost")))
        await story.until(lambda: story.rolling()["partition"] == 1_000_000)
        kept = {key: before[key] for key in ("webhooks",)}
        await cluster.client.create(MUTATING_WEBHOOKS, {"metadata": {"name": name}, **kept})
        await asyncio.sleep(1)
        await story.at(1)
        await story.approve()
        await story.healthy(V2)
        assert story.rolling()["maxSurge"] == 1, "the user meant it, past the webhook or not"
