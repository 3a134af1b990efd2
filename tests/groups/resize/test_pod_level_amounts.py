"""Amounts of a pod as a whole that the API server filled in follow an edit of the template.

Random templates and edits against the API server in this process: the classification of the edit, the dry run and the
write agree, and a pod that was resized has what a pod has that is created from the new template.
"""

import copy
import random
from collections import Counter

import pytest
from tests.builders import pod
from tests.groups.resize.test_group_resizes import (
    cluster_with_groups,
    condition,
    create,
    order,
    pods,
    resizable,
    resized,
    uids,
)

from kohort.groups.resize.preflight_requests import patch_amounts
from kohort.kube.errors import ApiError, Invalid
from kohort.kube.request_encoding import PatchType
from kohort.kube.resources import LEADER_WORKER_SETS, PODS
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.rules.resource_edit import (
    AmountChange,
    RecreateEdit,
    RecreateReason,
    change_of_pod,
    classify_template_edit,
    desired_amounts,
    stated_amounts,
)
from kohort.testing import Cluster

NAMESPACE = "default"
AMOUNTS = {"cpu": ("100m", "200m", "400m", "1", "2"), "memory": ("64Mi", "128Mi", "256Mi", "1Gi", "2Gi")}
CASES = 400


def random_block(chance: random.Random, lowest: int, likely: float) -> JsonObject:
    """Requests that are not above their limits."""
    found: JsonObject = {}
    for resource, steps in AMOUNTS.items():
        low = chance.randrange(lowest, len(steps))
        high = chance.randrange(low, len(steps))
        for side, step in (("requests", low), ("limits", high)):
            if chance.random() < likely:
                found.setdefault(side, {})[resource] = steps[step]
    return found


def random_spec(chance: random.Random) -> JsonObject:
    likely = chance.choice((0.4, 0.7, 1.0))
    containers = [
        {"name": name, "image": "model", "resources": random_block(chance, 0, likely)} for name in ("main", "proxy")
    ]
    found: JsonObject = {"containers": containers[: chance.randint(1, 2)]}
    if chance.random() < 0.3:
        found["initContainers"] = [
            {"name": "side", "image": "side", "restartPolicy": "Always", "resources": random_block(chance, 0, likely)}
        ]
    if chance.random() < 0.8:
        found["resources"] = random_block(chance, 2, 0.5)
    return found


def edited(chance: random.Random, spec: JsonObject) -> JsonObject:
    found = copy.deepcopy(spec)
    holders = [*found["containers"], *found.get("initContainers", ()), found]
    for holder in chance.sample(holders, chance.randint(1, len(holders))):
        if holder is found and "resources" not in found and chance.random() < 0.7:
            continue
        block = holder.setdefault("resources", {})
        for side in ("requests", "limits"):
            for resource, steps in AMOUNTS.items():
                stated = resource in block.get(side, {})
                if chance.random() < (0.5 if stated else 0.05):
                    block.setdefault(side, {})[resource] = chance.choice(steps)
    return found


async def new_pod(cluster: Cluster, name: str, spec: JsonObject) -> Pod:
    body = {"metadata": {"name": name}, "spec": copy.deepcopy(spec)}
    created: Pod = await cluster.client.create(PODS, body, NAMESPACE, type=Pod)
    return created


async def check_edit(cluster: Cluster, name: str, before: JsonObject, after: JsonObject) -> str:
    """What came of one edit; empty if one of the templates is invalid anyway."""
    try:
        running = await new_pod(cluster, f"{name}-old", before)
        wanted = await new_pod(cluster, f"{name}-new", after)
    except ApiError:
        return ""
    edit = classify_template_edit(*({"workerTemplate": {"spec": spec}} for spec in (before, after)))
    if isinstance(edit, RecreateEdit):
        assert edit.reason is RecreateReason.QOS_CHANGED
        return await check_refused(cluster, running, AmountChange(stated_amounts(before), stated_amounts(after)))
    change = change_of_pod(running.spec, edit.worker)
    await patch_amounts(cluster.client, running, change.after, dry_run=True)
    await patch_amounts(cluster.client, running, change.after)
    grown: Pod = await cluster.client.get(PODS, running.metadata.name, NAMESPACE, type=Pod)
    assert desired_amounts(grown.spec) == desired_amounts(wanted.spec), "differs from a new pod"
    back = change_of_pod(grown.spec, edit.worker)
    if set(back.before) == set(back.after):  # an amount that was added cannot be taken away again
        await patch_amounts(cluster.client, grown, back.before)
        reverted: Pod = await cluster.client.get(PODS, running.metadata.name, NAMESPACE, type=Pod)
        assert desired_amounts(reverted.spec) == desired_amounts(running.spec), "is not back"
    return "followed" if change != edit.worker else "in place"


async def check_refused(cluster: Cluster, running: Pod, stated: AmountChange) -> str:
    """The class of the pod would change: the API server sees it as well."""
    with pytest.raises(Invalid, match="QOS Class may not change"):
        await patch_amounts(cluster.client, running, change_of_pod(running.spec, stated).after, dry_run=True)
    return "refused"


async def test_classification_dry_run_and_write_agree_on_any_edit() -> None:
    outcomes: Counter[str] = Counter()
    async with Cluster() as cluster:
        for seed in range(CASES):
            chance = random.Random(seed)
            before = random_spec(chance)
            after = edited(chance, before)
            try:
                outcomes[await check_edit(cluster, f"case-{seed}", before, after)] += 1
            except (AssertionError, ApiError) as problem:
                pytest.fail(f"seed {seed}: {problem}\nbefore: {before}\nafter: {after}")
    assert outcomes["followed"] > 20 < outcomes["in place"], outcomes
    assert outcomes["refused"] > 2, outcomes


def whole_pod(cpu: str, memory_limit: str = "64Mi") -> JsonObject:
    """Pods that request cpu as a whole; every container has a limit, so that the API server limits the pod as well."""
    own = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": memory_limit}}
    built = pod().containers({"name": "main", "image": "model", "resources": own})
    return {**built, "spec": {**built["spec"], "resources": {"requests": {"cpu": cpu}}}}


def pod_amounts(cluster: Cluster) -> list[JsonObject]:
    return [one["spec"]["resources"] for one in pods(cluster).values()]


@pytest.mark.parametrize("policy", ["InPlaceOrRecreate", "InPlaceOnly"])
@pytest.mark.parametrize("cpu", ["2", "300m"])
async def test_a_limit_of_the_pod_that_was_filled_in_follows_its_request(policy: str, cpu: str) -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable(policy).but("spec.leaderWorkerTemplate.workerTemplate", whole_pod("1")))
        before = uids(cluster)
        assert [one["limits"]["cpu"] for one in pod_amounts(cluster)] == ["1"] * 4
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": whole_pod(cpu)}}}
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, body)
        await cluster.until(lambda: resized(cluster))
        assert uids(cluster) == before
        assert [(one["requests"]["cpu"], one["limits"]["cpu"]) for one in pod_amounts(cluster)] == [(cpu, cpu)] * 4


async def test_a_group_whose_filled_in_amounts_were_sent_gets_them_back() -> None:
    async with cluster_with_groups() as cluster:
        subject = resizable("InPlaceOnly", 60).but("spec.leaderWorkerTemplate.workerTemplate", whole_pod("1"))
        await create(cluster, subject)
        before = pod_amounts(cluster)
        await order(cluster, "llm-0-2", resize="deferred")
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": whole_pod("2")}}}
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, body)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "DeadlineExceeded")
        assert pod_amounts(cluster) == before


async def test_an_amount_of_the_pod_that_someone_else_set_is_left_alone() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable().but("spec.leaderWorkerTemplate.workerTemplate", whole_pod("1", "128Mi")))
        by_hand = {"spec": {"resources": {"limits": {"cpu": "3"}}}}
        for name in pods(cluster):
            await cluster.client.patch(PODS, name, NAMESPACE, by_hand, PatchType.STRATEGIC, "resize")
        body = {"spec": {"leaderWorkerTemplate": {"workerTemplate": whole_pod("2", "128Mi")}}}
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, body)
        await cluster.until(lambda: resized(cluster))
        assert [(one["requests"]["cpu"], one["limits"]["cpu"]) for one in pod_amounts(cluster)] == [("2", "3")] * 4
