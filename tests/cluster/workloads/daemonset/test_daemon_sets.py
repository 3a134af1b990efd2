"""DaemonSets on a cluster in this process, with simulated nodes."""

import asyncio

from tests.cluster.workloads.test_controllers import at_work, template

from kohort.cluster.workloads.daemonset.pods import build_pod, tolerations_of
from kohort.kube.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

NS = "default"


def daemon_set(name: str = "agent", **spec: Json) -> JsonObject:
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name, "namespace": NS},
        "spec": {"selector": selector, "template": template(name), **spec},
    }


def status(cluster: Cluster, name: str = "agent") -> JsonObject:
    return (cluster.find(DAEMON_SETS, name, NS) or {}).get("status") or {}


def nodes_of(cluster: Cluster) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in cluster.objects(PODS, NS))


def images(cluster: Cluster) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in cluster.objects(PODS, NS)}


def rolled_out(cluster: Cluster, pods: int) -> bool:
    found = cluster.find(DAEMON_SETS, "agent", NS) or {}
    state = found.get("status") or {}
    return state.get("observedGeneration") == found["metadata"]["generation"] and [
        state.get(name) or 0
        for name in ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberUnavailable")
    ] == [pods, pods, pods, 0]


async def test_every_node_gets_a_pod_also_a_new_one() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DAEMON_SETS, daemon_set())
        await cluster.until(lambda: rolled_out(cluster, 3))
        assert nodes_of(cluster) == ["sim-0", "sim-1", "sim-2"]
        assert status(cluster)["currentNumberScheduled"] == status(cluster)["numberReady"] == 3
        labels = {"simulation.kohort.dev/node": "true"}
        await cluster.client.create(NODES, {"metadata": {"name": "extra", "labels": labels}})
        await cluster.until(lambda: "extra" in nodes_of(cluster))
        await cluster.client.delete(NODES, "extra")
        await cluster.until(lambda: "extra" not in nodes_of(cluster) and rolled_out(cluster, 3))


async def test_pods_follow_the_labels_of_nodes() -> None:
    async with at_work() as cluster:
        body = daemon_set()
        body["spec"]["template"]["spec"]["nodeSelector"] = {"color": "blue"}
        await cluster.client.create(DAEMON_SETS, body)
        await cluster.until(lambda: status(cluster).get("observedGeneration") == 1)
        assert status(cluster)["desiredNumberScheduled"] == 0 and nodes_of(cluster) == []
        await cluster.client.patch(NODES, "sim-1", "", {"metadata": {"labels": {"color": "blue"}}})
        await cluster.until(lambda: nodes_of(cluster) == ["sim-1"])
        await cluster.client.patch(NODES, "sim-1", "", {"metadata": {"labels": {"color": "green"}}})
        await cluster.until(lambda: nodes_of(cluster) == [])


async def test_taints_keep_new_pods_away_and_cordoned_nodes_still_get_one() -> None:
    async with at_work() as cluster:
        taints = [{"key": "special", "effect": "NoSchedule"}]
        await cluster.client.patch(NODES, "sim-0", "", {"spec": {"taints": taints}})
        await cluster.client.patch(NODES, "sim-1", "", {"spec": {"unschedulable": True}})
        await cluster.client.create(DAEMON_SETS, daemon_set())
        await cluster.until(lambda: nodes_of(cluster) == ["sim-1", "sim-2"])
        await cluster.until(lambda: rolled_out(cluster, 2))
        await cluster.client.patch(NODES, "sim-2", "", {"spec": {"taints": taints}})
        await cluster.until(lambda: status(cluster).get("numberMisscheduled") == 1)
        assert nodes_of(cluster) == ["sim-1", "sim-2"], "a taint that only refuses new pods lets the old one stay"


async def test_a_failed_pod_is_replaced_after_a_growing_delay() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DAEMON_SETS, daemon_set())
        await cluster.until(lambda: rolled_out(cluster, 3))
        known = {pod["metadata"]["name"] for pod in cluster.objects(PODS, NS)}
        pauses = []
        for _ in range(3):
            victim = next(pod for pod in cluster.objects(PODS, NS) if pod["spec"]["nodeName"] == "sim-0")
            before = asyncio.get_running_loop().time()
            failed = {"status": {"phase": "Failed", "conditions": []}}
            await cluster.client.patch(PODS, victim["metadata"]["name"], NS, failed, subresource="status")
            await cluster.until(lambda: cluster.find(PODS, victim["metadata"]["name"], NS) is None)  # noqa: B023
            pauses.append(asyncio.get_running_loop().time() - before)
            await cluster.until(lambda: rolled_out(cluster, 3))
        assert pauses[0] < 1.0 < pauses[2]
        assert len(known & {pod["metadata"]["name"] for pod in cluster.objects(PODS, NS)}) == 2


async def test_a_rolling_update_replaces_all_pods_and_can_be_undone() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DAEMON_SETS, daemon_set())
        await cluster.until(lambda: rolled_out(cluster, 3))
        (first,) = cluster.objects(CONTROLLER_REVISIONS, NS)
        assert first["metadata"]["name"] == f"agent-{first['metadata']['labels']['controller-revision-hash']}"
        watched = cluster.server.store.watch("daemonsets.apps", cluster.server.store.revision)
        await cluster.client.patch(DAEMON_SETS, "agent", NS, {"spec": {"template": template("agent", "img:2")}})
        await cluster.until(lambda: rolled_out(cluster, 3) and images(cluster) == {"img:2"})
        seen = [change.after.decode()["status"] for change in await anext(watched)]
        assert max(state.get("numberUnavailable") or 0 for state in seen) == 1
        generations = {pod["metadata"]["labels"]["pod-template-generation"] for pod in cluster.objects(PODS, NS)}
        assert generations == {"2"}
        undone = {"spec": first["data"]["spec"]}
        await cluster.client.patch(DAEMON_SETS, "agent", NS, undone)
        await cluster.until(lambda: rolled_out(cluster, 3) and images(cluster) == {"img:1"})
        revisions = {one["metadata"]["name"]: one["revision"] for one in cluster.objects(CONTROLLER_REVISIONS, NS)}
        assert len(revisions) == 2 and revisions[first["metadata"]["name"]] == 3, "the first one is the newest again"


async def test_history_is_limited() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DAEMON_SETS, daemon_set(revisionHistoryLimit=1))
        for number in range(1, 5):
            body = {"spec": {"template": template("agent", f"img:{number}")}}
            await cluster.client.patch(DAEMON_SETS, "agent", NS, body)
            await cluster.until(lambda: rolled_out(cluster, 3) and len(images(cluster)) == 1)
        await cluster.until(lambda: len(cluster.objects(CONTROLLER_REVISIONS, NS)) == 2)


async def test_old_revisions_that_pods_use_count_towards_the_limit() -> None:
    async with at_work() as cluster:
        await cluster.client.create(
            DAEMON_SETS, daemon_set(revisionHistoryLimit=1, updateStrategy={"type": "OnDelete"})
        )
        await cluster.until(lambda: rolled_out(cluster, 3))
        for number in range(2, 5):
            body = {"spec": {"template": template("agent", f"img:{number}")}}
            await cluster.client.patch(DAEMON_SETS, "agent", NS, body)
            await cluster.settle()
        numbers = sorted(one["revision"] for one in cluster.objects(CONTROLLER_REVISIONS, NS))
        assert numbers == [1, 4], "the pods use the first, and the limit is used up by it"


async def test_a_deleted_revision_is_written_again_and_a_copy_of_it_serves_as_well() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DAEMON_SETS, daemon_set())
        await cluster.until(lambda: rolled_out(cluster, 3))
        (first,) = cluster.objects(CONTROLLER_REVISIONS, NS)
        await cluster.client.delete(CONTROLLER_REVISIONS, first["metadata"]["name"], NS)
        await cluster.until(lambda: len(cluster.objects(CONTROLLER_REVISIONS, NS)) == 1)
        copy = {key: value for key, value in first.items() if key != "metadata"} | {"revision": 7}
        labels = {**first["metadata"]["labels"], "controller-revision-hash": "other"}
        copy["metadata"] = {"name": "agent-other", "namespace": NS, "labels": labels}
        await cluster.client.create(CONTROLLER_REVISIONS, copy)
        await cluster.client.delete(CONTROLLER_REVISIONS, first["metadata"]["name"], NS)
        await cluster.settle()
        (left,) = cluster.objects(CONTROLLER_REVISIONS, NS)
        assert left["metadata"]["name"] == "agent-other", "equal templates need no second revision"
        assert left["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"
        assert rolled_out(cluster, 3)


async def test_a_second_revision_with_the_same_template_replaces_no_pod() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DAEMON_SETS, daemon_set())
        await cluster.until(lambda: rolled_out(cluster, 3))
        before = {pod["metadata"]["uid"] for pod in cluster.objects(PODS, NS)}
        (first,) = cluster.objects(CONTROLLER_REVISIONS, NS)
        copy = {key: value for key, value in first.items() if key != "metadata"} | {"revision": 7}
        labels = {**first["metadata"]["labels"], "controller-revision-hash": "other"}
        copy["metadata"] = {"name": "by-hand", "namespace": NS, "labels": labels}
        await cluster.client.create(CONTROLLER_REVISIONS, copy)
        await cluster.settle()
        (left,) = cluster.objects(CONTROLLER_REVISIONS, NS)
        assert (left["metadata"]["name"], left["revision"]) == ("by-hand", 7), "the one with the highest number stays"
        pods = cluster.objects(PODS, NS)
        assert {pod["metadata"]["uid"] for pod in pods} == before
        assert {pod["metadata"]["labels"]["controller-revision-hash"] for pod in pods} == {"other"}
        assert rolled_out(cluster, 3)


async def test_on_delete_replaces_pods_only_when_they_are_deleted() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DAEMON_SETS, daemon_set(updateStrategy={"type": "OnDelete"}))
        await cluster.until(lambda: rolled_out(cluster, 3))
        await cluster.client.patch(DAEMON_SETS, "agent", NS, {"spec": {"template": template("agent", "img:2")}})
        await cluster.until(lambda: status(cluster).get("observedGeneration") == 2)
        assert status(cluster).get("updatedNumberScheduled") is None and images(cluster) == {"img:1"}
        await cluster.client.delete_collection(PODS, NS)
        await cluster.until(lambda: rolled_out(cluster, 3))
        assert images(cluster) == {"img:2"}


async def test_surge_keeps_the_old_pod_until_the_new_one_is_available() -> None:
    async with at_work() as cluster:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await cluster.client.create(DAEMON_SETS, daemon_set(updateStrategy=rolling, minReadySeconds=10))
        await cluster.until(lambda: rolled_out(cluster, 3))
        await cluster.client.patch(DAEMON_SETS, "agent", NS, {"spec": {"template": template("agent", "img:2")}})
        await cluster.until(lambda: len(cluster.objects(PODS, NS)) == 4)
        most = 0

        def done() -> bool:
            nonlocal most
            most = max(most, len(cluster.objects(PODS, NS)))
            assert not status(cluster).get("numberUnavailable")
            return rolled_out(cluster, 3) and images(cluster) == {"img:2"}

        await cluster.until(done)
        assert most == 4


async def test_deleting_a_daemon_set_deletes_its_pods() -> None:
    async with at_work() as cluster:
        await cluster.client.create(DAEMON_SETS, daemon_set())
        await cluster.until(lambda: rolled_out(cluster, 3))
        await cluster.client.delete(DAEMON_SETS, "agent", NS, propagation="Foreground")
        await cluster.until(lambda: not cluster.objects(PODS, NS) and not cluster.objects(DAEMON_SETS, NS))


def test_pods_are_bound_by_affinity_and_tolerate_what_daemons_must() -> None:
    body = daemon_set()
    body |= {"apiVersion": "apps/v1", "kind": "DaemonSet"}
    body["metadata"] |= {"uid": "u", "annotations": {"deprecated.daemonset.template.generation": "7"}}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "b", "operator": "Exists"}]}]}
    body["spec"]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            "requiredDuringSchedulingIgnoredDuringExecution": required,
        }
    }
    pod = build_pod(body, "n1", "abc")
    assert pod["metadata"]["generateName"] == "agent-"
    assert pod["metadata"]["labels"] == {
        "app": "agent",
        "controller-revision-hash": "abc",
        "pod-template-generation": "7",
    }
    assert pod["spec"]["affinity"]["nodeAffinity"] == {
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        },
    }
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    found = tolerations_of({"hostNetwork": True, "tolerations": [own]})
    assert [(one["key"].partition("/")[2], one["effect"]) for one in found] == [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    ]
    assert "tolerationSeconds" not in found[0], "a daemon stays for ever"
