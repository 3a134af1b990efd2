"""Simulated nodes of an earlier start go when nobody plays them any more."""

from pathlib import Path

from kohort.kube.resources import NODES, PODS, Resource
from kohort.testing import Cluster, virtual_time
from kohort.up.retirement import retire

SIMULATED = {"simulation.kohort.dev/node": "true"}


async def furnished(cluster: Cluster) -> None:
    """Three nodes of an earlier start, one that somebody made by hand, and a pod on each of two."""
    for name in ("sim-0", "sim-1", "sim-2", "mine"):
        await cluster.client.create(NODES, {"metadata": {"name": name, "labels": SIMULATED}})
    for node in ("sim-1", "mine"):
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        await cluster.client.create(PODS, {"metadata": {"name": f"on-{node}", "namespace": "default"}, "spec": spec})


def names(cluster: Cluster, resource: Resource = NODES) -> list[str]:
    return sorted(one["metadata"]["name"] for one in cluster.objects(resource))


def test_what_nobody_plays_goes_with_its_pods(tmp_path: Path) -> None:
    note = tmp_path / "simulated-nodes"

    async def story() -> None:
        async with Cluster() as cluster:
            await furnished(cluster)
            assert await retire(cluster.client, note, 3) == ""
            await cluster.client.delete(PODS, "on-sim-1", "default")
            assert names(cluster, PODS) == ["on-mine", "on-sim-1"], "nobody ends it"
            said = await retire(cluster.client, note, 1)
            assert said == "removed simulated nodes sim-1 to sim-2 of an earlier start and 1 pod there"
            assert names(cluster) == ["mine", "sim-0"]
            assert names(cluster, PODS) == ["on-mine"]
            assert await retire(cluster.client, note, 0) == "removed simulated node sim-0 of an earlier start"
            assert (names(cluster), note.exists()) == (["mine"], False)
            assert await retire(cluster.client, note, 0) == ""

    virtual_time.run(story())


def test_a_node_of_that_name_that_is_not_simulated_stays(tmp_path: Path) -> None:
    note = tmp_path / "simulated-nodes"
    note.write_text("2\n")

    async def story() -> None:
        async with Cluster() as cluster:
            await cluster.client.create(NODES, {"metadata": {"name": "sim-1"}})
            assert await retire(cluster.client, note, 0) == ""
            assert names(cluster) == ["sim-1"]

    virtual_time.run(story())
