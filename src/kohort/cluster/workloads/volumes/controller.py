"""The claim and volume reconcilers."""

import asyncio
import shutil
from collections.abc import Iterable
from pathlib import Path

from kohort.cluster.workloads.volumes import attributes_class_protection, ephemeral
from kohort.cluster.workloads.volumes import plan as volume_plan
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, Conflict, NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES, Key
from kohort.objects import well_known_names
from kohort.objects.core import PersistentVolume, PersistentVolumeClaim, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.storage import StorageClass
from kohort.rules.local_volumes import PROVISIONED_BY, PROVISIONER

CLAIM_PROTECTION = well_known_names.CLAIM_PROTECTION
VOLUME_PROTECTION = well_known_names.VOLUME_PROTECTION


def register(manager: Manager, directory: Path) -> None:
    """`directory` is where provisioned volumes live on this machine."""
    Claims(manager, directory)
    Volumes(manager, directory)
    ephemeral.register(manager)
    attributes_class_protection.register(manager)


class Claims:
    def __init__(self, manager: Manager, directory: Path) -> None:
        self.client = manager.client
        self.directory = directory
        self.recorder = manager.recorder("persistentvolume-controller")
        self.expansion_recorder = manager.recorder("volume_expand")
        self.claims = manager.informer(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        self.volumes = manager.informer(PERSISTENT_VOLUMES, PersistentVolume)
        self.classes = manager.informer(STORAGE_CLASSES, StorageClass)
        self.pods = manager.informer(PODS, Pod, indexes={"claim": pods_by_claim})
        controller = manager.controller("persistentvolumeclaim", self.reconcile, workers=4, max_delay=30)
        controller.watches(self.claims)
        controller.watches(self.volumes, self._claims_of)
        controller.watches(self.classes, self._claims_of_class)
        controller.watches(self.pods, claims_of_pod, when=_uses_changed)

    def _claims_of(self, volume: PersistentVolume) -> Iterable[Key]:
        reference = volume.spec.claim_ref
        if reference is not None:
            return (Key(reference.namespace, reference.name),)
        return self._pending_of(volume.spec.storage_class_name)

    def _claims_of_class(self, storage_class: StorageClass) -> Iterable[Key]:
        """Pending claims of the class, and if it is the default also those without a class."""
        found = [*self._pending_of(storage_class.metadata.name)]
        return [*found, *self._pending_of("")] if storage_class.default else found

    def _pending_of(self, storage_class: str) -> Iterable[Key]:
        return [
            Key(claim.metadata.namespace, claim.metadata.name)
            for claim in self.claims.list()
            if claim.status.phase == "Pending" and (claim.spec.storage_class_name or "") == storage_class
        ]

    async def reconcile(self, key: Key) -> Requeue | None:
        claim = self.claims.get(key)
        if claim is None:
            return None
        if claim.metadata.deleting:
            await self._remove_protection(key, claim)
            return None
        storage_class = self.classes.get(Key("", claim.spec.storage_class_name or ""))
        step = volume_plan.next_step(
            claim,
            self.volumes.list(),
            storage_class,
            self._consumers(key),
            volume_plan.default_class(self.classes.list()),
        )
        match step:
            case volume_plan.Bind(volume):
                await self._bind(claim, volume)
                if volume_plan.awaits_expansion(claim):
                    text = "waiting for an external controller to expand this PVC"
                    self.expansion_recorder.normal(PERSISTENT_VOLUME_CLAIMS, claim, "ExternalExpanding", text)
            case volume_plan.Provision(node):
                await self._provision(claim, node)
            case volume_plan.AskProvisioner():
                await self._ask_provisioner(claim, step)
            case volume_plan.Assign(name):
                body = {"spec": {"storageClassName": name}}
                await self.client.patch(PERSISTENT_VOLUME_CLAIMS, key.name, key.namespace, body)
            case volume_plan.Lost(reason, message):
                if claim.status.phase != "Lost":
                    await self._status(claim, {"phase": "Lost", "accessModes": None, "capacity": None})
                    self.recorder.warning(PERSISTENT_VOLUME_CLAIMS, claim, reason, message)
            case volume_plan.Wait(reason, message, warning) if reason:
                record = self.recorder.warning if warning else self.recorder.normal
                record(PERSISTENT_VOLUME_CLAIMS, claim, reason, message)
        return None

    async def _ask_provisioner(self, claim: PersistentVolumeClaim, step: volume_plan.AskProvisioner) -> None:
        metadata = claim.metadata
        if not step.annotations.items() <= metadata.annotations.items():
            body = {"metadata": {"annotations": step.annotations}}
            await self.client.patch(PERSISTENT_VOLUME_CLAIMS, metadata.name, metadata.namespace, body)
        self.recorder.normal(PERSISTENT_VOLUME_CLAIMS, claim, "ExternalProvisioning", step.message)

    def _consumers(self, key: Key) -> list[str]:
        """Pods that want the claim and have no node yet."""
        pods = self.pods.by_index("claim", str(key))
        return sorted(pod.metadata.name for pod in pods if not pod.finished and not pod.spec.node_name)

    async def _bind(self, claim: PersistentVolumeClaim, name: str) -> None:
        volume = self.volumes.get(Key("", name))
        if volume is None:
            return
        reference = volume.spec.claim_ref
        if reference is None or reference.uid != claim.metadata.uid:
            await self._reserve(claim, volume)
        if claim.spec.volume_name != name or volume_plan.BIND_COMPLETED not in claim.metadata.annotations:
            notes = {volume_plan.BIND_COMPLETED: "yes"}
            if not claim.spec.volume_name:
                notes[volume_plan.BOUND_BY_CONTROLLER] = "yes"
            body = {"metadata": {"annotations": notes}, "spec": {"volumeName": name}}
            await self.client.patch(PERSISTENT_VOLUME_CLAIMS, claim.metadata.name, claim.metadata.namespace, body)
        if claim.status.phase != "Bound":
            status = {
                "phase": "Bound",
                "accessModes": list(volume.spec.access_modes),
                "capacity": dict(volume.spec.capacity),
            }
            await self._status(claim, status)

    async def _reserve(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        body: JsonObject = {
            "metadata": {"resourceVersion": volume.metadata.resource_version},
            "spec": {"claimRef": claim_reference(claim)},
        }
        if volume.spec.claim_ref is None:
            body["metadata"]["annotations"] = {volume_plan.BOUND_BY_CONTROLLER: "yes"}
        await self.client.patch(PERSISTENT_VOLUMES, volume.metadata.name, "", body)

    async def _status(self, claim: PersistentVolumeClaim, status: JsonObject) -> None:
        await self.client.patch(
            PERSISTENT_VOLUME_CLAIMS,
            claim.metadata.name,
            claim.metadata.namespace,
            {"status": status},
            subresource="status",
        )

    async def _provision(self, claim: PersistentVolumeClaim, node: str) -> None:
        volume = build_volume(
            claim, node, self.directory, self.classes.get(Key("", claim.spec.storage_class_name or ""))
        )
        name = volume["metadata"]["name"]
        try:
            await self.client.create(PERSISTENT_VOLUMES, volume)
        except AlreadyExists:
            return
        self.recorder.normal(
            PERSISTENT_VOLUME_CLAIMS,
            claim,
            "ProvisioningSucceeded",
            f"Successfully provisioned volume {name} using {PROVISIONER}",
        )

    async def _remove_protection(self, key: Key, claim: PersistentVolumeClaim) -> None:
        """A claim that is being deleted stays as long as a pod on a node uses it, also one that has finished: only the
        node knows when the volume is unmounted. A pod without a node will not start with such a claim."""
        if CLAIM_PROTECTION not in claim.metadata.finalizers:
            return
        if any(pod.spec.node_name for pod in self.pods.by_index("claim", str(key))):
            return
        left = [one for one in claim.metadata.finalizers if one != CLAIM_PROTECTION]
        body = {"metadata": {"resourceVersion": claim.metadata.resource_version, "finalizers": left}}
        try:
            await self.client.patch(PERSISTENT_VOLUME_CLAIMS, key.name, key.namespace, body)
        except NotFound:
            return


class Volumes:
    """Phases of volumes, and their reclaim policy when the claim is gone."""

    def __init__(self, manager: Manager, directory: Path) -> None:
        self.client = manager.client
        self.directory = directory
        self.recorder = manager.recorder("persistentvolume-controller")
        self.volumes = manager.informer(PERSISTENT_VOLUMES, PersistentVolume)
        self.claims = manager.informer(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        controller = manager.controller("persistentvolume", self.reconcile, workers=2, max_delay=30)
        controller.watches(self.volumes)
        controller.watches(self.claims, self._volumes_of)

    def _volumes_of(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        return (Key("", claim.spec.volume_name),) if claim.spec.volume_name else ()

    async def reconcile(self, key: Key) -> Requeue | None:
        volume = self.volumes.get(key)
        if volume is None:
            return None
        phase = await self._phase(volume)
        if volume.metadata.deleting:
            if phase != "Bound":
                await self._remove_protection(volume)
            return None
        match volume_plan.reclaim(volume) if phase == "Released" else volume_plan.Stay():
            case volume_plan.Delete():
                await self._delete(volume)
            case volume_plan.Fail(reason, message):
                if await self._report(volume, "Failed", message):
                    self.recorder.warning(PERSISTENT_VOLUMES, volume, reason, message)
            case volume_plan.Stay() if phase != "Released" or volume.status.phase != "Failed":
                await self._report(volume, phase)
        return None

    async def _report(self, volume: PersistentVolume, phase: str, message: str = "") -> bool:
        """Whether that is news."""
        if (phase, message) == (volume.status.phase, volume.status.message):
            return False
        body = {"status": {"phase": phase, "message": message or None}}
        await self.client.patch(PERSISTENT_VOLUMES, volume.metadata.name, "", body, subresource="status")
        return True

    async def _phase(self, volume: PersistentVolume) -> str:
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return "Available"
        claim = self.claims.get(Key(reference.namespace, reference.name))
        if claim is None or claim.metadata.uid != reference.uid:
            # The cache may not show a claim that exists: only the API knows that it is gone.
            live = await self.client.find(PERSISTENT_VOLUME_CLAIMS, reference.name, reference.namespace)
            return "Released" if live is None or live["metadata"]["uid"] != reference.uid else "Bound"
        return "Bound"

    async def _delete(self, volume: PersistentVolume) -> None:
        path = self.directory / volume.metadata.name
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        try:
            await self.client.delete(PERSISTENT_VOLUMES, volume.metadata.name, uid=volume.metadata.uid)
        except (NotFound, Conflict):
            return

    async def _remove_protection(self, volume: PersistentVolume) -> None:
        if VOLUME_PROTECTION not in volume.metadata.finalizers:
            return
        left = [one for one in volume.metadata.finalizers if one != VOLUME_PROTECTION]
        body = {"metadata": {"resourceVersion": volume.metadata.resource_version, "finalizers": left}}
        try:
            await self.client.patch(PERSISTENT_VOLUMES, volume.metadata.name, "", body)
        except NotFound:
            return


def claim_reference(claim: PersistentVolumeClaim) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.metadata.namespace,
        "name": claim.metadata.name,
        "uid": claim.metadata.uid,
    }


def build_volume(
    claim: PersistentVolumeClaim, node: str, directory: Path, storage_class: StorageClass | None
) -> JsonObject:
    """A directory of this machine as a volume, which the node agent creates at the first mount. It is a local volume,
    which follows the `fsGroup` of pods, if its node is known; local volumes must name one."""
    name = f"pvc-{claim.metadata.uid}"
    spec: JsonObject = {
        "capacity": {"storage": claim.spec.resources.requests.get("storage", "0")},
        "accessModes": list(claim.spec.access_modes),
        "persistentVolumeReclaimPolicy": (storage_class.reclaim_policy if storage_class else None) or "Delete",
        "storageClassName": claim.spec.storage_class_name or "",
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "claimRef": claim_reference(claim),
    }
    if not node:
        spec["hostPath"] = {"path": str(directory / name), "type": "DirectoryOrCreate"}
    else:
        spec["local"] = {"path": str(directory / name)}
        expression = {"key": well_known_names.HOSTNAME, "operator": "In", "values": [node]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": spec,
    }


def pods_by_claim(pod: Pod) -> Iterable[str]:
    return [str(key) for key in claims_of_pod(pod)]


def claims_of_pod(pod: Pod) -> list[Key]:
    names = (volume.claim_name(pod.metadata.name) for volume in pod.spec.volumes)
    return [Key(pod.metadata.namespace, name) for name in names if name]


def _uses_changed(old: Pod | None, new: Pod | None) -> bool:
    """A pod appeared or vanished: only then can a claim become free."""
    return old is None or new is None
