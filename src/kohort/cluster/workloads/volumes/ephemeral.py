"""Creates the claims of `ephemeral` volumes. They are owned by the pod, so the garbage collector deletes them with
it."""

import contextlib
from collections.abc import Iterator

from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, NotFound
from kohort.kube.event_mapping import map_to_controller_owner, owner_reference
from kohort.kube.manager import Manager
from kohort.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, Key
from kohort.objects.core import PersistentVolumeClaim, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.volumes import Volume


def register(manager: Manager) -> None:
    EphemeralVolumes(manager)


class EphemeralVolumes:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.recorder = manager.recorder("ephemeral_volume")
        self.pods = manager.informer(PODS, Pod)
        self.claims = manager.informer(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        controller = manager.controller("ephemeral-volume", self.reconcile, workers=4)
        controller.watches(self.pods, when=_appeared)
        controller.watches(self.claims, map_to_controller_owner("Pod", ""), when=_vanished)

    async def reconcile(self, key: Key) -> Requeue | None:
        pod = self.pods.get(key)
        if pod is None or pod.metadata.deleting:
            return None
        missing = []
        for volume in _ephemeral(pod):
            claim = self.claims.get(Key(key.namespace, volume.claim_name(key.name)))
            if claim is None:
                missing.append(volume.name)
                continue
            if not claim.metadata.is_controlled_by(pod.metadata.uid):
                words = f"PVC {key.namespace}/{claim.metadata.name} was not created for pod {key.namespace}/{key.name}"
                words = f"ephemeral volume {volume.name}: {words} (pod is not owner)"
                self.recorder.warning(PODS, pod, "FailedBinding", words)
        if missing:
            await self._create(key, pod.metadata.uid, missing)
        return None

    async def _create(self, key: Key, uid: str, names: list[str]) -> None:
        """The claim takes all fields of the template, so the pod is read as a plain document."""
        with contextlib.suppress(NotFound):
            document: JsonObject = await self.client.get(PODS, key.name, key.namespace)
            if document["metadata"]["uid"] != uid:
                return
            for volume in document["spec"]["volumes"]:
                if volume["name"] in names:
                    with contextlib.suppress(AlreadyExists):
                        await self.client.create(PERSISTENT_VOLUME_CLAIMS, claim_of(document, volume), key.namespace)


def claim_of(pod: JsonObject, volume: JsonObject) -> JsonObject:
    template, metadata = volume["ephemeral"]["volumeClaimTemplate"], pod["metadata"]
    given = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            **{field: given[field] for field in ("labels", "annotations") if given.get(field)},
            "name": f"{metadata['name']}-{volume['name']}",
            "namespace": metadata["namespace"],
            "ownerReferences": [owner_reference(PODS, metadata["name"], metadata["uid"])],
        },
        "spec": template["spec"],
    }


def _ephemeral(pod: Pod) -> Iterator[Volume]:
    return (volume for volume in pod.spec.volumes if volume.ephemeral is not None)


def _appeared(old: Pod | None, new: Pod | None) -> bool:
    return old is None and new is not None and any(_ephemeral(new))


def _vanished(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> bool:
    return new is None
