"""Volumes that live as long as their pod."""

from tests.cluster.workloads.puppet import NS, puppet

from kohort.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kohort.objects.json_types import JsonObject

TEMPLATE: JsonObject = {
    "metadata": {"labels": {"for": "scratch"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
SPEC: JsonObject = {
    "containers": [{"name": "c", "image": "i"}],
    "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": TEMPLATE}}],
}


async def test_a_claim_comes_and_goes_with_its_pod() -> None:
    async with puppet() as scene:
        pod = await scene.create(PODS, "p", spec=SPEC)
        await scene.settle()
        claim = scene.get(PERSISTENT_VOLUME_CLAIMS, "p-scratch")
        assert claim["metadata"]["labels"] == {"for": "scratch"}
        assert claim["spec"]["resources"] == TEMPLATE["spec"]["resources"]
        assert claim["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "p",
                "uid": pod["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        await scene.client.delete(PODS, "p", NS, grace_seconds=0)
        await scene.settle()
        assert scene.names(PERSISTENT_VOLUME_CLAIMS) == []


async def test_a_foreign_claim_is_not_taken() -> None:
    async with puppet() as scene:
        await scene.create(PERSISTENT_VOLUME_CLAIMS, "p-scratch", spec=TEMPLATE["spec"])
        await scene.create(PODS, "p", spec=SPEC)
        await scene.settle()
        assert scene.events("Pod") >= {
            (
                "Warning",
                "FailedBinding",
                f"ephemeral volume scratch: PVC {NS}/p-scratch was not created for pod {NS}/p (pod is not owner)",
            )
        }
