"""Scenes of objects that go while others depend on them, with the states that Kubernetes 1.36 shows in between."""

import asyncio

import pytest
from tests.cluster.workloads.puppet import NS, Puppet, puppet, template

from kohort.kube.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    JOBS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
)
from kohort.objects.json_types import JsonObject

HOLD = "test.io/hold"
STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def owned_by(owner: JsonObject, *, controller: bool = True, block: bool = True) -> JsonObject:
    metadata = owner["metadata"]
    named = {"apiVersion": "v1", "kind": "ConfigMap", "name": metadata["name"], "uid": metadata["uid"]}
    return {**named, "controller": controller, "blockOwnerDeletion": block}


async def job(scene: Puppet, **spec: object) -> list[str]:
    """A Job whose two pods run."""
    body = {"parallelism": 2, "completions": 4, "template": template({"j": "x"}, restartPolicy="Never"), **spec}
    await scene.create(JOBS, "job", spec=body)
    await scene.settle()
    await scene.run(*scene.names(PODS))
    return scene.names(PODS)


# Jobs


async def test_a_job_that_is_deleted_in_the_foreground_counts_its_pods_until_they_are_gone() -> None:
    async with puppet() as scene:
        await job(scene)
        await scene.client.delete(JOBS, "job", NS, propagation="Foreground")
        await scene.settle()
        status = scene.status(JOBS, "job")
        assert (status.get("active"), status["ready"], status["terminating"]) == (None, 0, 2)
        pods = [scene.get(PODS, name)["metadata"] for name in scene.names(PODS)]
        assert all("deletionTimestamp" in one and "finalizers" not in one for one in pods), "nobody waits for the Job"


async def test_pods_that_a_job_leaves_behind_keep_no_finalizer_however_the_deletion_is_seen() -> None:
    async with puppet() as scene:
        for name in await job(scene):
            # As the garbage collector does it, before the deletion of the Job itself is seen.
            await scene.client.patch(PODS, name, NS, {"metadata": {"ownerReferences": None, "labels": None}})
        await scene.client.delete(JOBS, "job", NS, propagation="Orphan")
        await scene.settle()
        assert scene.names(JOBS) == []
        assert [scene.get(PODS, name)["metadata"].get("finalizers") for name in scene.names(PODS)] == [None] * len(
            scene.names(PODS)
        )


async def test_a_job_asks_again_for_a_refused_pod_ever_more_rarely() -> None:
    async with puppet() as scene:
        await scene.create(RESOURCE_QUOTAS, "q", spec={"hard": {"pods": "0"}})
        await scene.settle()
        await scene.create(JOBS, "job", spec={"template": template({}, restartPolicy="Never")})
        await asyncio.sleep(6.0)
        refused = [text for _, reason, text in scene.events("Job") if reason == "FailedCreate"]
        assert 3 <= len(refused) <= 4, "at once, and then after pauses of seconds that double"


# Owners


async def test_an_owner_no_longer_waits_for_what_ceases_to_block_it() -> None:
    async with puppet() as scene:
        owner = await scene.create(CONFIG_MAPS, "owner")
        references = [owned_by(owner)]
        await scene.create(CONFIG_MAPS, "child", metadata={"ownerReferences": references, "finalizers": [HOLD]})
        await scene.client.delete(CONFIG_MAPS, "owner", NS, propagation="Foreground")
        await scene.settle()
        assert "owner" in scene.names(CONFIG_MAPS)
        body = {"metadata": {"ownerReferences": [owned_by(owner, block=False)]}}
        await scene.client.patch(CONFIG_MAPS, "child", NS, body)
        await scene.settle()
        assert "owner" not in scene.names(CONFIG_MAPS) and "child" in scene.names(CONFIG_MAPS)


async def test_an_owner_in_another_namespace_is_reported() -> None:
    async with puppet() as scene:
        await scene.client.create(NAMESPACES, {"metadata": {"name": "far"}})
        await scene.settle()
        owner = await scene.client.create(CONFIG_MAPS, {"metadata": {"name": "owner", "namespace": "far"}})
        await scene.settle()
        await scene.create(CONFIG_MAPS, "child", metadata={"ownerReferences": [owned_by(owner)]})
        await scene.settle()
        text = (
            f"ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {owner['metadata']['uid']}] "
            'does not exist in namespace "default"'
        )
        assert ("Warning", "OwnerRefInvalidNamespace", text) in scene.events("ConfigMap")


async def test_a_foreign_claim_is_not_given_away() -> None:
    async with puppet() as scene:
        owner = await scene.create(CONFIG_MAPS, "owner")
        metadata = {"ownerReferences": [owned_by(owner)]}
        await scene.create(PERSISTENT_VOLUME_CLAIMS, "data-web-0", metadata=metadata, spec=STORAGE)
        labels = {"app": "web"}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template(labels), "serviceName": "web"}
        spec |= {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": STORAGE}]}
        spec |= {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}}
        await scene.create(STATEFUL_SETS, "web", spec=spec)
        await scene.settle()
        kinds = [
            one["kind"] for one in scene.get(PERSISTENT_VOLUME_CLAIMS, "data-web-0")["metadata"]["ownerReferences"]
        ]
        assert kinds == ["ConfigMap"]
        text = (
            "PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, "
            "the retention policy is ignored for this claim"
        )
        assert ("Warning", "ConflictingController", text) in scene.events("StatefulSet")


# Quotas


async def test_a_quota_gets_back_the_node_ports_of_a_service_that_needs_none_any_more() -> None:
    async with puppet() as scene:
        await scene.create(
            RESOURCE_QUOTAS, "q", spec={"hard": {"services.nodeports": "1", "count/no.example.com": "1"}}
        )
        await scene.settle()
        ports = [{"name": "http", "port": 80}]
        await scene.create(SERVICES, "web", spec={"type": "NodePort", "ports": ports, "selector": {"a": "b"}})
        await scene.settle()
        assert scene.status(RESOURCE_QUOTAS, "q")["used"] == {"services.nodeports": "1"}, "nobody serves the other kind"
        await scene.patch(SERVICES, "web", {"spec": {"type": "ClusterIP"}})
        await scene.settle()
        assert scene.status(RESOURCE_QUOTAS, "q")["used"] == {"services.nodeports": "0"}


# Namespaces and volumes


async def test_a_namespace_held_by_a_finalizer_says_that_it_is_empty() -> None:
    async with puppet() as scene:
        await scene.client.create(NAMESPACES, {"metadata": {"name": "held", "finalizers": [HOLD]}})
        await scene.settle()
        await scene.client.delete(NAMESPACES, "held")
        await scene.settle()
        left = scene.cluster.find(NAMESPACES, "held") or {}
        assert left["spec"] == {} and left["metadata"]["finalizers"] == [HOLD]
        assert {(one["type"], one["status"], one["reason"]) for one in left["status"]["conditions"]} == {
            ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered"),
            ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions"),
            ("NamespaceDeletionContentFailure", "False", "ContentDeleted"),
            ("NamespaceContentRemaining", "False", "ContentRemoved"),
            ("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers"),
        }


@pytest.mark.parametrize(("provisioner", "phase"), [("example.com/disks", "Released"), ("", "Failed")])
async def test_a_volume_of_another_provisioner_is_left_to_it_and_one_made_by_hand_cannot_be_deleted(
    provisioner: str, phase: str
) -> None:
    async with puppet() as scene:
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "theirs"}
        spec |= {"persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": "/nowhere"}}
        metadata = {"name": "v", "annotations": {"pv.kubernetes.io/provisioned-by": provisioner} if provisioner else {}}
        await scene.client.create(PERSISTENT_VOLUMES, {"metadata": metadata, "spec": spec})
        await scene.settle()
        await scene.create(PERSISTENT_VOLUME_CLAIMS, "c", spec={**STORAGE, "storageClassName": "theirs"})
        await scene.settle()
        assert scene.status(PERSISTENT_VOLUME_CLAIMS, "c")["phase"] == "Bound"
        await scene.delete(PERSISTENT_VOLUME_CLAIMS, "c")
        text = "host_path deleter only supports /tmp/.+ but received provided /nowhere"
        status = (scene.cluster.find(PERSISTENT_VOLUMES, "v") or {})["status"]
        assert (status["phase"], status.get("message")) == (phase, text if phase == "Failed" else None)
        failed = {("Warning", "VolumeFailedDelete", text)} if phase == "Failed" else set()
        assert scene.events("PersistentVolume") == failed


async def test_a_claim_of_another_provisioner_carries_its_name() -> None:
    async with puppet() as scene:
        await scene.client.create(STORAGE_CLASSES, {"metadata": {"name": "disks"}, "provisioner": "example.com/disks"})
        await scene.settle()
        await scene.create(PERSISTENT_VOLUME_CLAIMS, "c", spec={**STORAGE, "storageClassName": "disks"})
        await scene.settle()
        notes = scene.get(PERSISTENT_VOLUME_CLAIMS, "c")["metadata"]["annotations"]
        assert notes["volume.kubernetes.io/storage-provisioner"] == "example.com/disks"
        assert {reason for _, reason, _ in scene.events("PersistentVolumeClaim")} == {"ExternalProvisioning"}


async def test_what_is_made_for_an_owner_that_goes_stays_until_another_child_goes_or_for_a_while() -> None:
    async with puppet() as scene:
        owner = await scene.create(CONFIG_MAPS, "owner")
        held = {"ownerReferences": [owned_by(owner, controller=False)], "finalizers": [HOLD]}
        for name in ("first", "second"):
            await scene.create(CONFIG_MAPS, name, metadata=held)
        await scene.client.delete(CONFIG_MAPS, "owner", NS, propagation="Foreground")
        await scene.settle()
        late = {"ownerReferences": [owned_by(owner)]}
        await scene.create(CONFIG_MAPS, "late", metadata=late)
        await scene.settle()
        assert "late" in scene.names(CONFIG_MAPS)
        await scene.client.patch(CONFIG_MAPS, "first", NS, {"metadata": {"finalizers": None}})
        await scene.settle()
        assert "late" not in scene.names(CONFIG_MAPS) and "owner" in scene.names(CONFIG_MAPS)
        await scene.create(CONFIG_MAPS, "later", metadata=late)
        await asyncio.sleep(40)
        assert "later" not in scene.names(CONFIG_MAPS), "nobody else goes"


async def test_a_set_that_is_going_has_a_revision_to_the_end() -> None:
    async with puppet() as scene:
        labels = {"app": "web"}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template(labels), "serviceName": "web"}
        await scene.create(STATEFUL_SETS, "web", spec={**spec, "podManagementPolicy": "Parallel"})
        await scene.settle()
        await scene.run(*scene.names(PODS))
        await scene.client.delete(STATEFUL_SETS, "web", NS, propagation="Foreground")
        await scene.settle()
        await scene.run("web-0")
        assert len(scene.names(CONTROLLER_REVISIONS)) == 1, "deleted with the pods, and made again"
        for name in scene.names(PODS):
            await scene.delete(PODS, name, grace=0)
        assert scene.names(STATEFUL_SETS) == scene.names(CONTROLLER_REVISIONS) == []
