"""Nodes of an earlier start go when nobody runs them any more."""

from pathlib import Path

from kohort.kube.resources import NODES, PODS, Resource
from kohort.testing import Cluster, virtual_time
from kohort.up.stale_nodes import remove_stale_nodes

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


def test_nodes_without_an_agent_go_with_their_pods(tmp_path: Path) -> None:
    note = tmp_path / "nodes"

    async def story() -> None:
        async with Cluster() as cluster:
            await furnished(cluster)
            assert await remove_stale_nodes(cluster.client, note, ["sim-0", "sim-1", "sim-2"]) == ""
            await cluster.client.delete(PODS, "on-sim-1", "default")
            assert names(cluster, PODS) == ["on-mine", "on-sim-1"], "nobody ends it"
            said = await remove_stale_nodes(cluster.client, note, ["sim-0"])
            assert said == "removed nodes sim-1 to sim-2, which an earlier start ran, and 1 pod there"
            assert names(cluster) == ["mine", "sim-0"]
            assert names(cluster, PODS) == ["on-mine"]
            assert (
                await remove_stale_nodes(cluster.client, note, ["laptop"])
                == "removed node sim-0, which an earlier start ran"
            )
            await cluster.client.create(NODES, {"metadata": {"name": "laptop"}})
            assert (
                await remove_stale_nodes(cluster.client, note, []) == "removed node laptop, which an earlier start ran"
            )
            assert (names(cluster), note.exists()) == (["mine"], False)
            assert await remove_stale_nodes(cluster.client, note, []) == ""

    virtual_time.run(story())
