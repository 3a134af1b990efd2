"""A set that was deleted without what belongs to it, and is created again: nothing restarts, nothing is left behind."""

from tests.builders import lws
from tests.groups.test_lifecycle import NAMESPACE, create, groups_cluster, settled

from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS, PODS, SERVICES, STATEFUL_SETS
from kohort.objects.json_types import JsonObject
from kohort.testing import Cluster

KINDS = (PODS, STATEFUL_SETS, SERVICES, CONTROLLER_REVISIONS)


def uids(cluster: Cluster) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in cluster.objects(PODS, NAMESPACE)}


def owners(found: JsonObject) -> list[str]:
    return [one["kind"] for one in found["metadata"].get("ownerReferences") or ()]


async def test_an_orphaned_set_is_taken_back_whole() -> None:
    subject = lws("llm").replicas(2).size(2)
    async with groups_cluster() as cluster:
        await create(cluster, subject)
        await cluster.until(lambda: settled(cluster, 2))
        before = uids(cluster)
        await cluster.client.delete(LEADER_WORKER_SETS, "llm", NAMESPACE, propagation="Orphan")
        await cluster.until(lambda: cluster.find(LEADER_WORKER_SETS, "llm", NAMESPACE) is None)
        await cluster.settle()
        service = cluster.find(SERVICES, "llm", NAMESPACE)
        assert service is not None
        assert owners(service) == []
        await create(cluster, subject)
        await cluster.until(lambda: settled(cluster, 2))
        await cluster.settle()
        assert uids(cluster) == before, "no pod is recreated"
        await cluster.client.delete(LEADER_WORKER_SETS, "llm", NAMESPACE)
        await cluster.until(lambda: cluster.find(LEADER_WORKER_SETS, "llm", NAMESPACE) is None)
        await cluster.settle()
        left = {kind.plural: [one["metadata"]["name"] for one in cluster.objects(kind, NAMESPACE)] for kind in KINDS}
        assert left == {kind.plural: ["kubernetes"] if kind is SERVICES else [] for kind in KINDS}
