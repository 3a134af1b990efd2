"""Annotations in which the operator keeps how far a resize is, changed by users who may write pods and sets."""

import json

import pytest
from tests.groups.resize.test_group_resizes import (
    NAMESPACE,
    available,
    cluster_with_groups,
    condition,
    cpus,
    create,
    edit,
    order,
    resizable,
    resized,
    status,
    uids,
)

from kohort.kube.resources import LEADER_WORKER_SETS, PODS
from kohort.rules import group_labels
from kohort.rules.scale_down import DRAIN_ON_SCALE_DOWN, DRAINED_FOR
from kohort.testing import Cluster

NESTED = '{"x":' + "[" * 5_000 + "]" * 5_000 + "}"
LONG = "9" * 5_000


async def annotate(cluster: Cluster, pod: str, **annotations: str) -> None:
    keys = {"record": group_labels.GROUP_RESIZE, "restarts": group_labels.EXPECTED_RESTARTS, "size": group_labels.SIZE}
    named = {keys[name]: value for name, value in annotations.items()}
    await cluster.client.patch(PODS, pod, NAMESPACE, {"metadata": {"annotations": named}})


@pytest.mark.parametrize("phase", ["Resizing", "Reverting", "Reverted"])
async def test_a_forged_record_of_a_group_adopts_nothing_and_recreates_nothing(phase: str) -> None:
    """Group 1 waits for a node; a user writes for group 0 that it is further than it is."""
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").replicas(2).size(2), 2)
        before = uids(cluster)
        await order(cluster, "llm-1-1", resize="deferred")
        await order(cluster, "llm-0-1", resize="deferred")
        await edit(cluster)
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("reason") == "Deferred")
        forged = {"revision": status(cluster)["updateRevision"], "phase": phase, "since": 0.0}
        await annotate(cluster, "llm-0", record=json.dumps(forged))
        await cluster.until(lambda: condition(cluster, "ResizeInProgress").get("status") == "False")
        await cluster.settle()
        assert status(cluster).get("updatedReplicas", 0) == 0
        assert condition(cluster, "Available")["status"] == "False"
        assert cpus(cluster) == {"100m"}, "a group that was not resized is not called resized"
        assert uids(cluster) == before


async def test_a_set_is_reconciled_whatever_its_annotations_hold() -> None:
    async with cluster_with_groups() as cluster:
        await create(cluster, resizable("InPlaceOnly").replicas(2).size(2), 2)
        before = uids(cluster)
        await annotate(cluster, "llm-1", record=NESTED, restarts=NESTED)
        await annotate(cluster, "llm-0", size=LONG)
        noted = {group_labels.RESTARTS_COUNTED_SINCE: NESTED, DRAINED_FOR: NESTED, DRAIN_ON_SCALE_DOWN: "²"}
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, {"metadata": {"annotations": noted}})
        await edit(cluster)
        await cluster.until(lambda: resized(cluster, 2))
        assert (uids(cluster), cpus(cluster)) == (before, {"200m"})
        await cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, {"spec": {"replicas": 1}})
        await cluster.until(lambda: available(cluster, 1) and "llm-1" not in uids(cluster))
