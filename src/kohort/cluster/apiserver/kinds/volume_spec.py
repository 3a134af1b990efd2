"""The specification of a volume: of a PersistentVolume, or inside a VolumeAttachment that has none."""

import posixpath
from typing import Final

from kohort.cluster.apiserver.kinds.claim_spec import VOLUME_MODES, check_access_modes
from kohort.cluster.apiserver.kinds.pod.scheduling import check_node_selector
from kohort.cluster.apiserver.kinds.volume_sources import (
    check_driver_name,
    check_namespace_of_endpoints,
    check_secret_reference,
    check_source,
)
from kohort.cluster.apiserver.schema.field_checks import NOT_POSITIVE, Errors, named, no_backsteps, quantity
from kohort.objects.field_errors import forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
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
_INLINE: Final = "in the context of inline volumes"


def check_volume_spec(errors: Errors, path: str, spec: JsonObject) -> None:
    _check_modes(errors, path, spec)
    _check_capacity(errors, path, spec.get("capacity") or {})
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy not in _RECLAIM:
        errors.append(not_supported(f"{path}.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if affinity.get("required") is None:
            errors.append(required(f"{path}.nodeAffinity.required", "must specify required node constraints"))
        else:
            check_node_selector(errors, f"{path}.nodeAffinity.required", affinity["required"])
    _check_sources(errors, path, spec)
    if spec.get("storageClassName"):
        named(errors, f"{path}.storageClassName", spec["storageClassName"], dns1123_subdomain)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
    _check_attributes(errors, path, spec)


def check_inline_spec(errors: Errors, path: str, spec: JsonObject) -> None:
    """A volume that exists only where it is attached: only CSI has such, and nothing binds, sizes or places it."""
    for field in ("claimRef", "capacity"):
        if spec.get(field):
            errors.append(forbidden(f"{path}.{field}", f"may not be specified {_INLINE}"))
    if spec.get("csi") is None:
        errors.append(required(f"{path}.csi", f"has to be specified {_INLINE}"))
    _check_modes(errors, path, spec)
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", f"may only be Retain {_INLINE}"))
    if spec.get("nodeAffinity") is not None:
        errors.append(forbidden(f"{path}.nodeAffinity", f"may not be specified {_INLINE}"))
    _check_sources(errors, path, spec)
    if spec.get("storageClassName"):
        errors.append(forbidden(f"{path}.storageClassName", f"may not be specified {_INLINE}"))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        errors.append(forbidden(f"{path}.volumeMode", f"may not specify volumeMode other than Filesystem {_INLINE}"))


def _check_modes(errors: Errors, path: str, spec: JsonObject) -> None:
    if not spec.get("accessModes"):
        errors.append(required(f"{path}.accessModes"))
    check_access_modes(errors, path, spec)


def _check_capacity(errors: Errors, path: str, capacity: JsonObject) -> None:
    if not capacity:
        errors.append(required(f"{path}.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        errors.append(not_supported(f"{path}.capacity", capacity or None, ("storage",)))
    for name, text in capacity.items():
        amount = quantity(text)
        if amount.value < 0:
            errors.append(invalid(f"{path}.capacity[{name}]", amount.value, "must be a valid resource quantity"))
        if amount.nano <= 0:
            errors.append(invalid(f"{path}.capacity[{name}]", text, NOT_POSITIVE))


def _check_sources(errors: Errors, path: str, spec: JsonObject) -> None:
    found = [name for name in SOURCES if spec.get(name) is not None]
    if not found:
        errors.append(required(path, "must specify a volume type"))
    for index, name in enumerate(found):
        if index and name != "flexVolume":
            shown = "cephFS" if name == "cephfs" else name
            errors.append(forbidden(f"{path}.{shown}", "may not specify more than 1 volume type"))
        else:
            _check_one_source(errors, path, name, spec)
    host = spec.get("hostPath")
    recycled = spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    if host is not None and posixpath.normpath(host.get("path") or ".") == "/" and recycled:
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", detail))


def _check_one_source(errors: Errors, path: str, name: str, spec: JsonObject) -> None:
    source = spec[name]
    here = f"{path}.persistentDisk" if name == "gcePersistentDisk" else f"{path}.{name}"
    if name == "local":
        if not source.get("path"):
            errors.append(required(f"{here}.path"))
        else:
            no_backsteps(errors, f"{here}.path", source["path"])
        if spec.get("nodeAffinity") is None:
            errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    elif name == "csi":
        check_driver_name(errors, f"{here}.driver", source.get("driver"))
        if not source.get("volumeHandle"):
            errors.append(required(f"{here}.volumeHandle"))
        for secret in _SECRETS:
            if source.get(secret) is not None:
                check_secret_reference(errors, f"{here}.{secret}", source[secret])
    else:
        check_source(errors, here, name, source)
        if name == "glusterfs":
            check_namespace_of_endpoints(errors, here, source)
        elif name == "azureFile" and source.get("secretNamespace") == "":
            errors.append(required(f"{here}.secretNamespace"))
        elif name == "cinder" and source.get("secretRef") is not None and not source["secretRef"].get("namespace"):
            errors.append(required(f"{here}.secretRef.namespace"))


def _check_attributes(errors: Errors, path: str, spec: JsonObject) -> None:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return
    if not name:
        errors.append(required(f"{path}.volumeAttributesClassName", "an empty string is disallowed"))
    else:
        named(errors, f"{path}.volumeAttributesClassName", name, dns1123_subdomain)
    if spec.get("csi") is None:
        errors.append(required(f"{path}.csi", "has to be specified when using volumeAttributesClassName"))
