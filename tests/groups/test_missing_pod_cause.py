"""A set says why pods that it waits for do not exist: issue 3, "which pod is the reason and what is waited for"."""

import asyncio

from tests.builders import lws
from tests.groups.test_lifecycle import NAMESPACE, create, groups_cluster, status
from tests.groups.test_template_dry_run import asks, group_set, pod

from kohort.groups.missing_pod_cause import latest_refusal
from kohort.kube import errors
from kohort.kube.resources import LEADER_WORKER_SETS, PODS, RESOURCE_QUOTAS, STATEFUL_SETS
from kohort.objects.core import Event
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster

LONG = 40.0


async def waits_for(cluster: Cluster) -> tuple[str, str]:
    await asyncio.sleep(LONG)
    (found,) = [one for one in status(cluster)["conditions"] if one["type"] == "Waiting"]
    assert found["status"] == "True"
    return found["reason"], found["message"]


async def test_pods_that_the_server_refuses() -> None:
    async with groups_cluster() as cluster:
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}}
        await cluster.client.create(RESOURCE_QUOTAS, quota, NAMESPACE)
        await create(cluster, lws("llm").replicas(2).size(2))
        reason, message = await waits_for(cluster)
        assert reason == "PodRefused"
        assert "1 of 1 worker does not exist yet: pods" in message
        assert "exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3" in message


async def test_an_account_that_does_not_exist() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").but("spec.leaderWorkerTemplate.workerTemplate.spec.serviceAccountName", "no"))
        reason, message = await waits_for(cluster)
        assert reason == "PodRefused"
        assert message.startswith('group 0: pod llm-0 does not exist yet: pods "llm-0" is forbidden: error looking up')


async def test_the_server_refuses_the_stateful_set_of_workers() -> None:
    async with groups_cluster() as cluster:
        cluster.faults("operator").refuse(errors.internal("no answer"), on=asks, times=1)
        bad = group_set(leaderTemplate=pod(), workerTemplate=pod(ports=[{"containerPort": 70000}]))
        await create(cluster, bad)
        reason, message = await waits_for(cluster)
        assert reason == "WorkersRefused"
        assert message.startswith("group 0: the StatefulSet of its workers is refused: ")
        assert "spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 70000" in message
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": pod()}}}
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, body)
        await cluster.until(lambda: status(cluster).get("readyReplicas") == 1)


def stranger(name: str) -> JsonObject:
    return {"metadata": {"name": name}, **pod()}


async def test_a_pod_of_somebody_else_has_the_name() -> None:
    async with groups_cluster() as cluster:
        await cluster.client.create(PODS, stranger("llm-0"), NAMESPACE)
        await create(cluster, lws("llm").size(2))
        found = await waits_for(cluster)
        assert found == ("NameTaken", "group 0: a Pod llm-0 exists and does not belong to this set")
        await cluster.client.delete(PODS, "llm-0", NAMESPACE)
        await cluster.until(lambda: status(cluster).get("readyReplicas") == 1)


async def test_a_stateful_set_of_somebody_else_has_the_name() -> None:
    labels = {"app": "other"}
    template = {**pod(), "metadata": {"labels": labels}}
    spec = {"replicas": 0, "serviceName": "other", "selector": {"matchLabels": labels}, "template": template}
    async with groups_cluster() as cluster:
        await cluster.client.create(STATEFUL_SETS, {"metadata": {"name": "llm-0"}, "spec": spec}, NAMESPACE)
        await create(cluster, lws("llm").size(2))
        found = await waits_for(cluster)
        assert found == ("NameTaken", "group 0: a StatefulSet llm-0 exists and does not belong to this set")
        await cluster.client.delete(STATEFUL_SETS, "llm-0", NAMESPACE)
        await cluster.until(lambda: status(cluster).get("readyReplicas") == 1)


async def test_a_group_that_fails_again_and_again() -> None:
    """It is ready for a moment after every recreation, and is still what the set waits for."""
    orders = {"simulation.kohort.dev/exit-after": "2s", "simulation.kohort.dev/exit-code": "3"}
    failing = {**pod(), "metadata": {"annotations": orders}}
    async with groups_cluster() as cluster:
        await create(cluster, group_set(leaderTemplate=pod(), workerTemplate=failing))
        reason, message = await waits_for(cluster)
        assert reason == "GroupFailing"
        assert message.startswith("group 0: pod llm-0-1 restarted: container main ended with code 3; the group was ")
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": {**pod(), "metadata": None}}}}
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, body)
        await cluster.until(lambda: status(cluster).get("updatedReadyReplicas") == 1)
        await cluster.settle()
        (found,) = [one for one in status(cluster)["conditions"] if one["type"] == "Waiting"]
        assert found["status"] == "False"


async def test_what_was_said_long_ago_is_no_reason_any_more() -> None:
    async with groups_cluster():
        old = Event(message="create Pod a in StatefulSet b failed error: old", last_timestamp="2020-01-01T00:00:00Z")
        new = Event(message="create Pod a in StatefulSet b failed error: new", last_timestamp="2026-01-01T00:00:00Z")
        assert (latest_refusal([old]), latest_refusal([old, new])) == ("", "new")
        assert (latest_refusal([new], "a"), latest_refusal([new], "another")) == ("new", "")
