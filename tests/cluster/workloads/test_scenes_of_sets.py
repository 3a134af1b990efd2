"""Scenes of StatefulSets and Deployments that go wrong on the way, with what Kubernetes 1.36 makes of them."""

from tests.cluster.workloads.puppet import NS, Puppet, puppet, template

from kohort.kube.resources import (
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
)
from kohort.objects.json_types import Json, JsonObject

WEB = {"app": "web"}
CAUSE = "kubernetes.io/change-cause"


def workload(replicas: int, **spec: Json) -> JsonObject:
    return {"replicas": replicas, "selector": {"matchLabels": WEB}, "template": template(WEB), **spec}


def claim(name: str) -> JsonObject:
    storage = {"requests": {"storage": "1Gi"}}
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage}}


def claim_owners(scene: Puppet) -> dict[str, list[str]]:
    found = scene.cluster.objects(PERSISTENT_VOLUME_CLAIMS, NS)
    return {
        one["metadata"]["name"]: [owner["kind"] for owner in one["metadata"].get("ownerReferences") or []]
        for one in found
    }


# StatefulSets


async def test_claims_follow_a_changed_policy_also_while_one_of_them_goes() -> None:
    async with puppet() as scene:
        await scene.create(STATEFUL_SETS, "web", spec=workload(2, serviceName="web", volumeClaimTemplates=[claim("d")]))
        await scene.settle()
        await scene.run("web-0")
        await scene.run("web-1")
        await scene.delete(PERSISTENT_VOLUME_CLAIMS, "d-web-0")
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        await scene.patch(STATEFUL_SETS, "web", {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})
        await scene.settle()
        assert claim_owners(scene) == {"d-web-0": ["StatefulSet"], "d-web-1": ["StatefulSet"]}


async def test_an_adopted_pod_without_volumes_gets_claims_and_holds_the_set_up() -> None:
    async with puppet() as scene:
        await scene.create(PODS, "web-1", metadata={"labels": WEB}, spec=template(WEB)["spec"])
        await scene.run("web-1")
        templates = [claim("d"), claim("e")]
        await scene.create(STATEFUL_SETS, "web", spec=workload(3, serviceName="web", volumeClaimTemplates=templates))
        await scene.settle()
        await scene.run("web-0")
        assert scene.names(PODS) == ["web-0", "web-1"]
        assert sorted(claim_owners(scene)) == ["d-web-0", "d-web-1", "e-web-0", "e-web-1"]
        assert "statefulset.kubernetes.io/pod-name" not in scene.get(PODS, "web-1")["metadata"]["labels"]
        assert ("Warning", "FailedUpdate") in {(kind, reason) for kind, reason, _ in scene.events("StatefulSet")}


async def test_a_pod_that_left_is_let_go_also_while_it_terminates() -> None:
    async with puppet() as scene:
        await scene.create(STATEFUL_SETS, "web", spec=workload(1, serviceName="web"))
        await scene.settle()
        await scene.run("web-0")
        await scene.delete(PODS, "web-0")
        await scene.patch(PODS, "web-0", {"metadata": {"labels": {"app": "other"}}})
        await scene.settle()
        assert "ownerReferences" not in scene.get(PODS, "web-0")["metadata"]


async def test_an_owned_pod_with_another_name_is_no_member() -> None:
    async with puppet() as scene:
        made = await scene.create(STATEFUL_SETS, "web", spec=workload(0, serviceName="web"))
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": made["metadata"]["uid"]}
        metadata = {"labels": WEB, "ownerReferences": [{**owner, "controller": True}]}
        await scene.create(PODS, "stranger", metadata=metadata, spec=template(WEB)["spec"])
        await scene.settle()
        assert "ownerReferences" not in scene.get(PODS, "stranger")["metadata"]


async def test_a_set_that_is_held_up_counts_only_what_it_did() -> None:
    """The first number is taken by a pod that left, so nothing is rolled, and no pod leaves the counter."""
    async with puppet() as scene:
        spec = workload(3, serviceName="web", podManagementPolicy="Parallel")
        await scene.create(STATEFUL_SETS, "web", spec=spec)
        await scene.settle()
        await scene.run("web-0", "web-1", "web-2")
        await scene.patch(PODS, "web-0", {"metadata": {"labels": {"app": "other"}}})
        await scene.patch(STATEFUL_SETS, "web", {"spec": {"template": template(WEB, "img:2")}})
        await scene.settle()
        status = scene.status(STATEFUL_SETS, "web")
        assert (status["replicas"], status["currentReplicas"], status.get("updatedReplicas")) == (2, 2, None)


async def test_a_claim_is_in_use_while_its_pod_has_a_node() -> None:
    async with puppet() as scene:
        spec = workload(2, serviceName="web", podManagementPolicy="Parallel", volumeClaimTemplates=[claim("d")])
        await scene.create(STATEFUL_SETS, "web", spec=spec)
        await scene.settle()
        await scene.patch(STATEFUL_SETS, "web", {"metadata": {"finalizers": ["test.io/hold"]}})
        await scene.delete(STATEFUL_SETS, "web")
        await scene.run("web-1", phase="Succeeded")
        await scene.delete(PERSISTENT_VOLUME_CLAIMS, "d-web-0")
        await scene.delete(PERSISTENT_VOLUME_CLAIMS, "d-web-1")
        assert scene.names(PERSISTENT_VOLUME_CLAIMS) == ["d-web-1"], "also of a pod that has finished"
        await scene.delete(PODS, "web-1", grace=0)
        assert scene.names(PERSISTENT_VOLUME_CLAIMS) == []


# Deployments


def sets(scene: Puppet) -> dict[str, JsonObject]:
    """The ReplicaSets by their revision."""
    return {
        annotations(one)["deployment.kubernetes.io/revision"]: one for one in scene.cluster.objects(REPLICA_SETS, NS)
    }


def annotations(obj: JsonObject) -> JsonObject:
    found: JsonObject = obj["metadata"]["annotations"]
    return found


async def test_each_set_keeps_the_cause_of_its_own_change() -> None:
    async with puppet() as scene:
        await scene.create(DEPLOYMENTS, "web", metadata={"annotations": {CAUSE: "one"}}, spec=workload(1))
        await scene.settle()
        await scene.run(*scene.names(PODS))
        change = {"metadata": {"annotations": {CAUSE: "two"}}, "spec": {"template": template(WEB, "img:2")}}
        await scene.patch(DEPLOYMENTS, "web", change)
        await scene.settle()
        await scene.run(*scene.names(PODS))
        found = sets(scene)
        assert found["1"]["spec"]["replicas"] == 0
        assert (annotations(found["1"])[CAUSE], annotations(found["2"])[CAUSE]) == ("one", "two")


async def test_a_template_that_is_taken_back_while_paused_gets_its_number_at_once() -> None:
    async with puppet() as scene:
        await scene.create(DEPLOYMENTS, "web", spec=workload(1))
        await scene.settle()
        await scene.run(*scene.names(PODS))
        await scene.patch(DEPLOYMENTS, "web", {"spec": {"template": template(WEB, "img:2")}})
        await scene.settle()
        await scene.run(*scene.names(PODS))
        await scene.patch(DEPLOYMENTS, "web", {"spec": {"paused": True, "template": template(WEB)}})
        await scene.settle()
        assert sorted(sets(scene)) == ["2", "3"]
        assert annotations(scene.get(DEPLOYMENTS, "web"))["deployment.kubernetes.io/revision"] == "3"


async def test_a_set_that_may_not_be_made_is_told_in_the_progress() -> None:
    async with puppet() as scene:
        await scene.create(RESOURCE_QUOTAS, "q", spec={"hard": {"count/replicasets.apps": "0"}})
        await scene.settle()
        await scene.create(DEPLOYMENTS, "web", spec=workload(1))
        await scene.settle()
        (progress,) = scene.status(DEPLOYMENTS, "web")["conditions"]
        assert (progress["type"], progress["status"], progress["reason"]) == (
            "Progressing",
            "False",
            "ReplicaSetCreateError",
        )


async def test_without_a_deadline_there_is_no_progress_to_report() -> None:
    async with puppet() as scene:
        await scene.create(DEPLOYMENTS, "web", spec=workload(1))
        await scene.settle()
        await scene.run(*scene.names(PODS))
        await scene.patch(DEPLOYMENTS, "web", {"spec": {"progressDeadlineSeconds": 2147483647}})
        await scene.settle()
        assert [one["type"] for one in scene.status(DEPLOYMENTS, "web")["conditions"]] == ["Available"]


async def test_a_stranger_in_the_place_of_a_pod_keeps_those_from_coming_that_are_in_later_batches() -> None:
    async with puppet() as scene:
        await scene.create(STATEFUL_SETS, "web", spec=workload(4, serviceName="web", podManagementPolicy="Parallel"))
        await scene.settle()
        await scene.run(*scene.names(PODS))
        await scene.patch(PODS, "web-1", {"metadata": {"labels": {"app": "other"}}})
        await scene.settle()
        for name in ("web-2", "web-3"):
            await scene.delete(PODS, name, grace=0)
        # Batches are web-0; web-1 and web-2; web-3.
        assert scene.names(PODS) == ["web-0", "web-1", "web-2"]
