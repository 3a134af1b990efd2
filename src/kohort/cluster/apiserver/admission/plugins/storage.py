"""Claims and volumes: the default class, protection from deletion while in use, growth."""

from collections.abc import Iterable
from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import AdmissionStep, is_core, refusal, written
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity

CLASSES: Final = "storageclasses.storage.k8s.io"
DEFAULT_CLASS: Final = well_known_names.DEFAULT_STORAGE_CLASS
BETA_DEFAULT_CLASS: Final = well_known_names.BETA_DEFAULT_STORAGE_CLASS
BETA_CLASS: Final = well_known_names.BETA_STORAGE_CLASS
_PROTECTION: Final = {
    ("", "persistentvolumes"): well_known_names.VOLUME_PROTECTION,
    ("", "persistentvolumeclaims"): well_known_names.CLAIM_PROTECTION,
    ("storage.k8s.io", "volumeattributesclasses"): well_known_names.ATTRIBUTES_CLASS_PROTECTION,
}


def newest(classes: Iterable[JsonObject]) -> JsonObject | None:
    """Of several defaults the newest counts, and of equally old ones the first by name."""
    found = sorted(classes, key=lambda one: str(one["metadata"]["name"]))
    return max(found, key=lambda one: str(one["metadata"].get("creationTimestamp") or ""), default=None)


def class_of(claim: JsonObject) -> str:
    """The storage class that a claim names, in the field or the old annotation."""
    annotated = (claim["metadata"].get("annotations") or {}).get(BETA_CLASS)
    return str(annotated if annotated is not None else claim["spec"].get("storageClassName") or "")


class DefaultStorageClass(AdmissionStep):
    name = "DefaultStorageClass"
    about = ("persistentvolumeclaims",)

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation == "CREATE" and is_core(attributes, "persistentvolumeclaims")

    async def mutate(self, attributes: Attributes) -> None:
        claim = written(attributes)
        if claim["spec"].get("storageClassName") is not None:
            return
        if BETA_CLASS in (claim["metadata"].get("annotations") or {}):
            return
        found = newest(one for one in attributes.reader.list(CLASSES) if _is_default(one))
        if found is not None:
            claim["spec"]["storageClassName"] = found["metadata"]["name"]


def _is_default(storage_class: JsonObject) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return "true" in (annotations.get(DEFAULT_CLASS), annotations.get(BETA_DEFAULT_CLASS))


class StorageObjectInUseProtection(AdmissionStep):
    """Finalizers that controllers take off when nothing uses the volume any more."""

    name = "StorageObjectInUseProtection"

    def handles(self, attributes: Attributes) -> bool:
        resource = attributes.resource
        if attributes.operation != "CREATE" or attributes.subresource:
            return False
        return (resource.group, resource.plural) in _PROTECTION

    async def mutate(self, attributes: Attributes) -> None:
        finalizer = _PROTECTION[attributes.resource.group, attributes.resource.plural]
        metadata = written(attributes)["metadata"]
        present = metadata.get("finalizers") or []
        if finalizer not in present:
            metadata["finalizers"] = [*present, finalizer]


class PersistentVolumeClaimResize(AdmissionStep):
    name = "PersistentVolumeClaimResize"
    about = ("persistentvolumeclaims",)

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation == "UPDATE" and is_core(attributes, "persistentvolumeclaims")

    async def validate(self, attributes: Attributes) -> None:
        claim, before = written(attributes), attributes.old_object
        if before is None or _size(claim) <= _size(before):
            return
        if (before.get("status") or {}).get("phase") != "Bound":
            raise refusal(attributes, "Only bound persistent volume claims can be expanded")
        name = class_of(claim)
        storage_class = attributes.reader.get(CLASSES, "", name) if name and name == class_of(before) else None
        if storage_class is None or not storage_class.get("allowVolumeExpansion"):
            raise refusal(
                attributes,
                "only dynamically provisioned pvc can be resized and "
                "the storageclass that provisions the pvc must support resize",
            )


def _size(claim: JsonObject) -> Quantity:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return Quantity.parse(requests.get("storage") or 0)
