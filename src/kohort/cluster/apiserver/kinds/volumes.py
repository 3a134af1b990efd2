"""PersistentVolumes."""

from typing import Final

from kohort.cluster.apiserver.kinds.claims import class_annotation_warnings
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.defaults import default_legacy_sources, round_up
from kohort.cluster.apiserver.kinds.pod.warnings import source_warnings, term_warnings
from kohort.cluster.apiserver.kinds.volume_spec import SOURCES, check_volume_spec
from kohort.cluster.apiserver.schema.field_checks import Errors, immutable, same
from kohort.kube import clock
from kohort.objects.field_errors import FieldError, forbidden, invalid
from kohort.objects.json_types import JsonObject

_SILENT_SOURCES: Final = ("flocker", "quobyte")
"""Upstream warns of them in pods only."""
_MOUNT_OPTIONS: Final = "volume.beta.kubernetes.io/mount-options"
"""An annotation that is older than the field for the same."""
_SOURCES_WITH_MOUNT_OPTIONS: Final = (
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
)
_RECYCLED: Final = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. "
    "Instead, the recommended approach is to use dynamic provisioning."
)


class PersistentVolumeStrategy(Strategy):
    has_generation = False
    deletion_returns_object = True
    rechecks_metadata = 2
    checks_metadata_change = False

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("persistentVolumeReclaimPolicy"):
            spec["persistentVolumeReclaimPolicy"] = "Retain"
        if spec.get("volumeMode") is None:
            spec["volumeMode"] = "Filesystem"
        if spec.get("hostPath") is not None and spec["hostPath"].get("type") is None:
            spec["hostPath"]["type"] = ""
        default_legacy_sources(spec)
        if spec.get("capacity"):
            round_up(spec["capacity"])
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Pending"

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": clock.timestamp()}

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        status, before = obj.setdefault("status", {}), old.get("status") or {}
        moved, was = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
        if status.get("phase") == before.get("phase"):
            if moved is None and was is not None:
                status["lastPhaseTransitionTime"] = was
        elif moved is None or moved == was:
            status["lastPhaseTransitionTime"] = clock.timestamp()

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_volume_spec(errors, "spec", obj["spec"])
        return [*errors, *_check_mount_options(obj)]

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        spec = obj["spec"]
        found = class_annotation_warnings(obj)
        required = (spec.get("nodeAffinity") or {}).get("required") or {}
        for index, term in enumerate(required.get("nodeSelectorTerms") or ()):
            found += term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            found.append(_RECYCLED)
        sources = {name: spec[name] for name in spec if name not in _SILENT_SOURCES}
        return [*found, *source_warnings(sources, "spec")]

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        errors = self.validate(context, obj)
        check_volume_spec(errors, "spec", spec)  # a second time, as upstream does
        if not same(_sources(spec, before), _sources(before, before)):
            detail = "spec.persistentvolumesource is immutable after creation"
            errors.append(forbidden("spec.persistentvolumesource", detail))
        immutable(errors, "volumeMode", spec.get("volumeMode"), before.get("volumeMode"))
        if before.get("nodeAffinity") is not None and not same(spec.get("nodeAffinity"), before["nodeAffinity"]):
            detail = "field is immutable, except for updating from beta label to GA"
            errors.append(invalid("nodeAffinity", spec.get("nodeAffinity"), detail))
        if before.get("volumeAttributesClassName") is not None and spec.get("volumeAttributesClassName") is None:
            detail = "update from non-nil value to nil is forbidden"
            errors.append(forbidden("spec.volumeAttributesClassName", detail))
        return errors


def _check_mount_options(obj: JsonObject) -> Errors:
    """The annotation, which only some sources know; `mountOptions` of the specification may be set for all."""
    annotations = obj["metadata"].get("annotations") or {}
    if _MOUNT_OPTIONS not in annotations or any(obj["spec"].get(name) for name in _SOURCES_WITH_MOUNT_OPTIONS):
        return []
    detail = "may not specify mount options for this volume type"
    return [forbidden(f"metadata.annotations.{_MOUNT_OPTIONS}", detail)]


def _sources(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The sources of a volume; a secret for expansion may be added to a CSI volume that has none."""
    found = {name: spec[name] for name in SOURCES if spec.get(name) is not None}
    if "csi" in found and (before.get("csi") or {}).get("controllerExpandSecretRef") is None:
        found["csi"] = {k: v for k, v in found["csi"].items() if k != "controllerExpandSecretRef"}
    return found
