"""A VolumeAttributesClass can be deleted, but not while a claim or a volume names it."""

from tests.cluster.workloads.puppet import NS, puppet

from kohort.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES
from kohort.objects.json_types import JsonObject

CLASS: JsonObject = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "VolumeAttributesClass",
    "metadata": {"name": "gold"},
    "driverName": "csi.example.com",
    "parameters": {"iops": "100"},
}
STORAGE: JsonObject = {"accessModes": ["ReadWriteOnce"], "volumeAttributesClassName": "gold"}


async def test_an_unused_class_is_deleted() -> None:
    async with puppet() as scene:
        created = await scene.client.create(VOLUME_ATTRIBUTES_CLASSES, CLASS)
        assert created["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
        await scene.client.delete(VOLUME_ATTRIBUTES_CLASSES, "gold")
        await scene.settle()
        assert await scene.client.find(VOLUME_ATTRIBUTES_CLASSES, "gold") is None


async def test_a_class_stays_until_the_last_claim_and_volume_are_gone() -> None:
    async with puppet() as scene:
        await scene.client.create(VOLUME_ATTRIBUTES_CLASSES, CLASS)
        claim = {**STORAGE, "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}
        await scene.create(PERSISTENT_VOLUME_CLAIMS, "c", spec=claim)
        volume: JsonObject = {
            "metadata": {"name": "v"},
            "spec": {
                **STORAGE,
                "capacity": {"storage": "2Gi"},
                "csi": {"driver": "csi.example.com", "volumeHandle": "h"},
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "other",
            },
        }
        await scene.client.create(PERSISTENT_VOLUMES, volume)
        await scene.client.delete(VOLUME_ATTRIBUTES_CLASSES, "gold")
        await scene.settle()
        assert await scene.client.find(VOLUME_ATTRIBUTES_CLASSES, "gold") is not None
        await scene.client.delete(PERSISTENT_VOLUME_CLAIMS, "c", NS)
        await scene.settle()
        assert await scene.client.find(VOLUME_ATTRIBUTES_CLASSES, "gold") is not None
        await scene.client.delete(PERSISTENT_VOLUMES, "v")
        await scene.settle()
        assert await scene.client.find(VOLUME_ATTRIBUTES_CLASSES, "gold") is None
