"""Protection of VolumeAttributesClasses: a deleted class stays as long as a claim or a volume names it."""

from collections.abc import Iterable

from kohort.kube.controller import Requeue
from kohort.kube.errors import NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTRIBUTES_CLASSES, Key
from kohort.objects import well_known_names
from kohort.objects.core import PersistentVolume, PersistentVolumeClaim
from kohort.objects.storage import VolumeAttributesClass

PROTECTION = well_known_names.ATTRIBUTES_CLASS_PROTECTION


def register(manager: Manager) -> None:
    AttributesClasses(manager)


class AttributesClasses:
    def __init__(self, manager: Manager) -> None:
        self.client = manager.client
        self.classes = manager.informer(VOLUME_ATTRIBUTES_CLASSES, VolumeAttributesClass)
        self.claims = manager.informer(PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
        self.volumes = manager.informer(PERSISTENT_VOLUMES, PersistentVolume)
        controller = manager.controller("volumeattributesclass-protection", self.reconcile)
        controller.watches(self.classes)
        controller.watches(self.claims, lambda claim: self._deleted(named_by_claim(claim)), when=claim_released)
        controller.watches(self.volumes, lambda volume: self._deleted(named_by_volume(volume)), when=volume_released)

    def _deleted(self, names: Iterable[str]) -> list[Key]:
        """Of these classes, those that wait to be deleted."""
        found = [(Key("", name), self.classes.get(Key("", name))) for name in names]
        return [key for key, one in found if one is not None and one.metadata.deleting]

    async def reconcile(self, key: Key) -> Requeue | None:
        found = self.classes.get(key)
        if found is None or not found.metadata.deleting or PROTECTION not in found.metadata.finalizers:
            return None
        if self._is_used(key.name):
            return None
        left = [one for one in found.metadata.finalizers if one != PROTECTION]
        body = {"metadata": {"resourceVersion": found.metadata.resource_version, "finalizers": left}}
        try:
            await self.client.patch(VOLUME_ATTRIBUTES_CLASSES, key.name, "", body)
        except NotFound:
            return None
        return None

    def _is_used(self, name: str) -> bool:
        return any(name in named_by_volume(volume) for volume in self.volumes.list()) or any(
            name in named_by_claim(claim) for claim in self.claims.list()
        )


def named_by_claim(claim: PersistentVolumeClaim) -> set[str]:
    """The classes in the spec and the status of a claim: wanted, current, and being changed to."""
    status = claim.status
    target = status.modify_volume_status.target_volume_attributes_class_name if status.modify_volume_status else ""
    names = (claim.spec.volume_attributes_class_name, status.current_volume_attributes_class_name, target)
    return {name for name in names if name}


def named_by_volume(volume: PersistentVolume) -> set[str]:
    return {volume.spec.volume_attributes_class_name} if volume.spec.volume_attributes_class_name else set()


def claim_released(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> bool:
    """Whether a claim may have stopped to name a class: only then can one become free."""
    return old is not None and (new is None or named_by_claim(old) != named_by_claim(new))


def volume_released(old: PersistentVolume | None, new: PersistentVolume | None) -> bool:
    return old is not None and (new is None or named_by_volume(old) != named_by_volume(new))
