"""Volume sources that pods and PersistentVolumes have in common: hosts, networks, storage products of the past.

Most of the old ones only have fields that must be set, so they are a table. The rest are functions.
"""

import re
from collections.abc import Callable
from typing import Final

from kohort.cluster.apiserver.schema.field_checks import Errors, dns_label, named, no_backsteps
from kohort.objects.field_errors import invalid, not_supported, required, too_long
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label, dns1123_subdomain, in_range

HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "glusterfs": ("endpoints", "path"),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "azureFile": ("secretName", "shareName"),
    "azureDisk": ("diskName", "diskURI"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "scaleIO": ("gateway", "system", "volumeName"),
    "flexVolume": ("driver",),
    "nfs": ("server", "path"),
}


def check_source(errors: Errors, path: str, name: str, source: JsonObject) -> None:
    """Rules of one source by its field name; unknown names have none here."""
    for field in _REQUIRED.get(name, ()):
        if not source.get(field):
            errors.append(required(f"{path}.{field}"))
    special = _SPECIAL.get(name)
    if special is not None:
        special(errors, path, source)


def _host_path(errors: Errors, path: str, source: JsonObject) -> None:
    target = source.get("path")
    if not target:
        errors.append(required(f"{path}.path"))
        return
    no_backsteps(errors, f"{path}.path", target)
    kind = source.get("type")
    if kind is not None and kind not in HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", kind, HOST_PATH_TYPES))


def _nfs(errors: Errors, path: str, source: JsonObject) -> None:
    if not (source.get("path") or "").startswith("/"):
        errors.append(invalid(f"{path}.path", source.get("path") or "", "must be an absolute path"))


def _partition(errors: Errors, path: str, source: JsonObject) -> None:
    number = source.get("partition") or 0
    if not 0 <= number <= 255:
        errors.append(invalid(f"{path}.partition", number, in_range(1, 255)))


_INITIATORS: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)$").search,
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}").fullmatch,
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}").fullmatch,
}


def _iscsi(errors: Errors, path: str, source: JsonObject) -> None:
    if not source.get("targetPortal"):
        errors.append(required(f"{path}.targetPortal"))
    if not source.get("iqn"):
        errors.append(required(f"{path}.iqn"))
    else:
        _initiator(errors, f"{path}.iqn", source["iqn"])
    lun = source.get("lun") or 0
    if not 0 <= lun <= 255:
        errors.append(invalid(f"{path}.lun", lun, in_range(0, 255)))
    authenticated = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if authenticated and source.get("secretRef") is None:
        errors.append(required(f"{path}.secretRef"))
    if source.get("initiatorName") is not None:
        _initiator(errors, f"{path}.initiatorname", source["initiatorName"])


def _initiator(errors: Errors, path: str, name: str) -> None:
    matches = _INITIATORS.get(name[:3])
    if matches is None:
        errors.append(invalid(path, name, "must be valid format starting with iqn, eui, or naa"))
    elif not matches(name):
        errors.append(invalid(path, name, "must be valid format"))


def check_namespace_of_endpoints(errors: Errors, path: str, source: JsonObject) -> None:
    """Of a glusterfs volume that is not a pod's: a pod has a namespace."""
    namespace = source.get("endpointsNamespace")
    if namespace is None:
        return
    if not namespace:
        detail = "if the endpointnamespace is set, it must be a valid namespace name"
        errors.append(invalid(f"{path}.endpointsNamespace", namespace, detail))
    else:
        named(errors, f"{path}.endpointsNamespace", namespace, dns1123_label)


def _fibre_channel(errors: Errors, path: str, source: JsonObject) -> None:
    names, ids = source.get("targetWWNs"), source.get("wwids")
    if not names and not ids:
        detail = "must specify either targetWWNs or wwids, but not both"
        errors.append(required(f"{path}.targetWWNs", detail))
    if names and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{path}.targetWWNs", names, detail))
    if names:
        lun = source.get("lun")
        if lun is None:
            errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
        elif not 0 <= lun <= 255:
            errors.append(invalid(f"{path}.lun", lun, in_range(0, 255)))


def _flocker(errors: Errors, path: str, source: JsonObject) -> None:
    name, uuid = source.get("datasetName"), source.get("datasetUUID")
    if not name and not uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if name and "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))


def _quobyte(errors: Errors, path: str, source: JsonObject) -> None:
    registry, detail = source.get("registry"), "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        errors.append(required(f"{path}.registry", detail))
    elif len(source.get("tenant") or "") >= 65:
        errors.append(required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        errors += [
            invalid(f"{path}.registry", registry, detail) for pair in registry.split(",") if pair.count(":") != 1
        ]
    if not source.get("volume"):
        errors.append(required(f"{path}.volume"))


def _flex(errors: Errors, path: str, source: JsonObject) -> None:
    for key in source.get("options") or ():
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(f"{path}.options[{key}]", key, detail))


_CACHING_MODES: Final = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_MANAGED_URI: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_URI: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def _azure_disk(errors: Errors, path: str, source: JsonObject) -> None:
    mode, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI") or ""
    if mode is not None and mode not in _CACHING_MODES:
        errors.append(not_supported(f"{path}.cachingMode", mode, _CACHING_MODES))
    if kind is not None and kind not in _DISK_KINDS:
        errors.append(not_supported(f"{path}.kind", kind, _DISK_KINDS))
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(not_supported(f"{path}.diskURI", uri, (_MANAGED_URI,)))
    if kind is not None and kind != "Managed" and not uri.startswith("https://"):
        errors.append(not_supported(f"{path}.diskURI", uri, (_BLOB_URI,)))


def _storage_os(errors: Errors, path: str, source: JsonObject) -> None:
    if not source.get("volumeName"):
        errors.append(required(f"{path}.volumeName"))
    else:
        dns_label(errors, f"{path}.volumeName", source["volumeName"])
    if source.get("volumeNamespace"):
        dns_label(errors, f"{path}.volumeNamespace", source["volumeNamespace"])
    _secret_name(errors, path, source)


def _secret_name(errors: Errors, path: str, source: JsonObject) -> None:
    secret = source.get("secretRef")
    if secret is not None and not secret.get("name"):
        errors.append(required(f"{path}.secretRef.name"))


_SPECIAL: Final[dict[str, Callable[[Errors, str, JsonObject], None]]] = {
    "hostPath": _host_path,
    "nfs": _nfs,
    "gcePersistentDisk": _partition,
    "awsElasticBlockStore": _partition,
    "iscsi": _iscsi,
    "fc": _fibre_channel,
    "flocker": _flocker,
    "quobyte": _quobyte,
    "flexVolume": _flex,
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "cinder": _secret_name,
}


def check_driver_name(errors: Errors, path: str, name: str | None) -> None:
    """Names of CSI drivers."""
    if not name:
        errors.append(required(path))
        return
    if len(name) > 63:
        errors.append(too_long(path, 63))
    errors += [invalid(path, name, problem) for problem in dns1123_subdomain(name.lower())]


def check_secret_reference(errors: Errors, path: str, reference: JsonObject) -> None:
    """A secret in any namespace."""
    for field, rule in (("name", dns1123_subdomain), ("namespace", dns1123_label)):
        if not reference.get(field):
            errors.append(required(f"{path}.{field}"))
        else:
            named(errors, f"{path}.{field}", reference[field], rule)
