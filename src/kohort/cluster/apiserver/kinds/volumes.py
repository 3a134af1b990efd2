"""PersistentVolumes."""

import posixpath
from typing import Final

from kohort.cluster.apiserver.kinds.checks import NOT_POSITIVE, Errors, immutable, named, no_backsteps, quantity, same
from kohort.cluster.apiserver.kinds.claimspec import VOLUME_MODES, check_access_modes
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.defaults import default_legacy_sources, round_up
from kohort.cluster.apiserver.kinds.pod.scheduling import check_node_selector
from kohort.cluster.apiserver.kinds.volumesources import check_driver_name, check_secret_reference, check_source
from kohort.kube import clock
from kohort.objects.fielderrors import FieldError, forbidden, invalid, not_supported, required
from kohort.objects.jsontypes import JsonObject
from kohort.objects.names import dns1123_subdomain

_RECLAIM: Final = ("Delete", "Recycle", "Retain")
SOURCES: Final = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
_SECRETS: Final = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
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
        check_volume_spec(errors, obj["spec"])
        return errors

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        return [_RECYCLED] if obj["spec"].get("persistentVolumeReclaimPolicy") == "Recycle" else []

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj) * 2
        spec, before = obj["spec"], old["spec"]
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


def _sources(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The sources of a volume; a secret for expansion may be added to a CSI volume that has none."""
    found = {name: spec[name] for name in SOURCES if spec.get(name) is not None}
    if "csi" in found and (before.get("csi") or {}).get("controllerExpandSecretRef") is None:
        found["csi"] = {k: v for k, v in found["csi"].items() if k != "controllerExpandSecretRef"}
    return found


def check_volume_spec(errors: Errors, spec: JsonObject) -> None:
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes"))
    check_access_modes(errors, "spec", spec)
    _check_capacity(errors, spec.get("capacity") or {})
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in _RECLAIM:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if affinity.get("required") is None:
            errors.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
        else:
            check_node_selector(errors, "spec.nodeAffinity.required", affinity["required"])
    _check_sources(errors, spec)
    host = spec.get("hostPath")
    if host is not None and posixpath.normpath(host.get("path") or ".") == "/" and policy == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", detail))
    if spec.get("storageClassName"):
        named(errors, "spec.storageClassName", spec["storageClassName"], dns1123_subdomain)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
    _check_attributes(errors, spec)


def _check_capacity(errors: Errors, capacity: JsonObject) -> None:
    if not capacity:
        errors.append(required("spec.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        errors.append(not_supported("spec.capacity", capacity, ("storage",)))
    for name, text in capacity.items():
        amount = quantity(text)
        if amount.value < 0:
            errors.append(invalid(f"spec.capacity[{name}]", amount.value, "must be a valid resource quantity"))
        if amount.nano <= 0:
            errors.append(invalid(f"spec.capacity[{name}]", text, NOT_POSITIVE))


def _check_sources(errors: Errors, spec: JsonObject) -> None:
    found = [name for name in SOURCES if spec.get(name) is not None]
    if not found:
        errors.append(required("spec", "must specify a volume type"))
    for index, name in enumerate(found):
        if index and name != "flexVolume":
            shown = "cephFS" if name == "cephfs" else name
            errors.append(forbidden(f"spec.{shown}", "may not specify more than 1 volume type"))
            continue
        path = "spec.persistentDisk" if name == "gcePersistentDisk" else f"spec.{name}"
        _check_one_source(errors, path, name, spec)


def _check_one_source(errors: Errors, path: str, name: str, spec: JsonObject) -> None:
    source = spec[name]
    if name == "local":
        if not source.get("path"):
            errors.append(required(f"{path}.path"))
        else:
            no_backsteps(errors, f"{path}.path", source["path"])
        if spec.get("nodeAffinity") is None:
            errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    elif name == "csi":
        check_driver_name(errors, f"{path}.driver", source.get("driver"))
        if not source.get("volumeHandle"):
            errors.append(required(f"{path}.volumeHandle"))
        for secret in _SECRETS:
            if source.get(secret) is not None:
                check_secret_reference(errors, f"{path}.{secret}", source[secret])
    else:
        check_source(errors, path, name, source)


def _check_attributes(errors: Errors, spec: JsonObject) -> None:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return
    if not name:
        errors.append(required("spec.volumeAttributesClassName", "an empty string is disallowed"))
    else:
        named(errors, "spec.volumeAttributesClassName", name, dns1123_subdomain)
    if spec.get("csi") is None:
        errors.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))
