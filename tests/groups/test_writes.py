"""How often the operator writes. Events and leases are not counted; what StatefulSets do is not the operator's."""

from collections import Counter

import msgspec
import pytest
from tests.builders import lws
from tests.groups.test_features import new_image
from tests.groups.test_lifecycle import create, groups_cluster, images, patch, settled

from kohort.groups.status_reporting import pause_after
from kohort.kube.http import Request
from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS, PODS, SERVICES, STATEFUL_SETS
from kohort.testing import Cluster

GROUPS = 12


def writes(cluster: Cluster, since: int = 0) -> list[Request]:
    return [one for one in cluster.faults("operator").writes_since(since) if "/events" not in one.path]


def kinds(requests: list[Request]) -> Counter[str]:
    """By method and what was written. An object that is asked for again, because the cache has not seen it yet, is
    refused: that writes nothing."""
    created = {(one.path, msgspec.json.decode(one.body)["metadata"]["name"]) for one in requests if _creates(one)}
    others = [one for one in requests if not _creates(one)]
    return Counter(f"POST {_kind(path)}" for path, _ in created) + Counter(
        f"{one.method} {_kind(one.path)}" for one in others
    )


def _creates(request: Request) -> bool:
    return request.method == "POST"


def _kind(path: str) -> str:
    parts = path.split("/namespaces/default/")[-1].split("/")
    return parts[0] + ("/status" if parts[-1] == "status" else "")


@pytest.mark.parametrize(
    ("took", "pause"), [(0.0, 1.0), (0.005, 1.0), (0.1, 1.0), (0.25, 2.5), (0.5, 5.0), (30.0, 5.0)]
)
def test_a_server_that_answers_slowly_is_told_less_often(took: float, pause: float) -> None:
    assert pause_after(took) == pause


async def test_a_group_costs_one_write_or_two_and_a_set_a_handful() -> None:
    async with groups_cluster() as cluster:
        begin = cluster.faults("operator").write_count
        await create(cluster, lws("llm").replicas(GROUPS).size(2))
        await cluster.until(lambda: settled(cluster, GROUPS))
        await cluster.settle()
        found = kinds(writes(cluster, begin))
        assert found.pop("POST statefulsets") == GROUPS, "the workers of each group"
        assert found.pop("PATCH leaderworkersets/status") <= 5, "bursts are written once"
        assert found.pop("PATCH controllerrevisions") == 1, "the mark that all groups were ready at it"
        assert found == {"POST controllerrevisions": 1, "PATCH statefulsets": 1, "POST services": 1}


async def test_with_a_service_per_group_it_is_two() -> None:
    async with groups_cluster() as cluster:
        begin = cluster.faults("operator").write_count
        await create(cluster, lws("llm").replicas(GROUPS).size(2).network("UniquePerReplica"))
        await cluster.until(lambda: settled(cluster, GROUPS))
        await cluster.settle()
        found = kinds(writes(cluster, begin))
        assert (found["POST statefulsets"], found["POST services"]) == (GROUPS, GROUPS)


async def test_nothing_is_written_when_nothing_changed() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        await cluster.settle()
        begin = cluster.faults("operator").write_count
        await patch(cluster, "llm", {"metadata": {"labels": {"same": "again"}}})
        await cluster.settle()
        assert kinds(writes(cluster, begin)) == {"PATCH statefulsets": 1}, "the label is copied to the leaders' set"
        begin = cluster.faults("operator").write_count
        await patch(cluster, "llm", {"metadata": {"labels": {"same": "again"}}})
        await cluster.settle()
        assert kinds(writes(cluster, begin)) == {}


async def test_an_operator_that_starts_anew_writes_nothing() -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(2).size(2))
        await cluster.until(lambda: settled(cluster, 2))
        await cluster.settle()
        before = _stored(cluster)
        await cluster.parts["operator"].restart()
        await cluster.settle()
        assert _stored(cluster) == before, "no object has changed"


def _stored(cluster: Cluster) -> dict[str, str]:
    return {
        f"{resource.plural}/{one['metadata']['name']}": one["metadata"]["resourceVersion"]
        for resource in (CONTROLLER_REVISIONS, LEADER_WORKER_SETS, PODS, SERVICES, STATEFUL_SETS)
        for one in cluster.objects(resource, "default")
    }


async def test_a_burst_of_groups_becomes_one_write_of_the_status() -> None:
    """All groups become ready within a second."""
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(GROUPS).size(2).max_unavailable(GROUPS))
        await cluster.until(lambda: settled(cluster, GROUPS))
        await cluster.settle()
        begin = cluster.faults("operator").write_count
        await patch(cluster, "llm", new_image("new:2"))
        await cluster.until(lambda: settled(cluster, GROUPS) and images(cluster) == {"new:2"})
        await cluster.settle()
        found = kinds(writes(cluster, begin))
        assert found["POST statefulsets"] == GROUPS
        assert found["PATCH leaderworkersets/status"] <= 6, f"for {2 * GROUPS} changes of groups"
        assert found["PATCH statefulsets"] <= 3
