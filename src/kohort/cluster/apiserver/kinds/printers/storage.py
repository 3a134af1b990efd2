"""How volumes, their classes and drivers, and claims of devices are shown in a table."""

from datetime import datetime
from typing import Final

from kohort.cluster.apiserver.kinds.printers.cells import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Printer,
    age,
    boolean,
    counted,
    integer,
    name_and_age,
    name_of,
    text,
)
from kohort.objects import well_known_names
from kohort.objects.json_types import Json, JsonObject

CLASS_ANNOTATION: Final = well_known_names.BETA_STORAGE_CLASS
DEFAULT_CLASS: Final = (
    well_known_names.DEFAULT_STORAGE_CLASS,
    well_known_names.BETA_DEFAULT_STORAGE_CLASS,
)
_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _access_modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _given(value: Json, fallback: Json = UNSET) -> Json:
    return fallback if value is None else value


def _phase(obj: JsonObject) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    phase: str = (obj.get("status") or {}).get("phase", "")
    return phase


def _class_of(obj: JsonObject) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    name: str = annotations.get(CLASS_ANNOTATION, (obj.get("spec") or {}).get("storageClassName") or "")
    return name


def _volume(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage", "0"),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        _class_of(obj),
        _given(spec.get("volumeAttributesClassName")),
        (obj.get("status") or {}).get("reason", ""),
        age(obj, now),
        _given(spec.get("volumeMode")),
    ]


def _claim(obj: JsonObject, now: datetime) -> list[Json]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        _phase(obj),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        _access_modes(status.get("accessModes")) if bound else "",
        _class_of(obj),
        _given(spec.get("volumeAttributesClassName")),
        age(obj, now),
        _given(spec.get("volumeMode")),
    ]


def _storage_class(obj: JsonObject, now: datetime) -> list[Json]:
    annotations = obj["metadata"].get("annotations") or {}
    default = " (default)" if any(annotations.get(key) == "true" for key in DEFAULT_CLASS) else ""
    return [
        name_of(obj) + default,
        obj.get("provisioner", ""),
        _given(obj.get("reclaimPolicy"), "Delete"),
        _given(obj.get("volumeBindingMode"), "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _attributes_class(obj: JsonObject, now: datetime) -> list[Json]:
    return [name_of(obj), obj.get("driverName", ""), age(obj, now)]


def _driver(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    requests = spec.get("tokenRequests")
    return [
        name_of(obj),
        _given(spec.get("attachRequired"), True),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if requests is None else ",".join(request.get("audience", "") for request in requests),
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


def _attachment(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    return [
        name_of(obj),
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName") or "",
        spec.get("nodeName", ""),
        bool((obj.get("status") or {}).get("attached")),
        age(obj, now),
    ]


def _resource_claim(obj: JsonObject, now: datetime) -> list[Json]:
    status = obj.get("status") or {}
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not deleted:
        states.append("pending")
    return [name_of(obj), ",".join(states), age(obj, now)]


def _resource_slice(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    return [name_of(obj), spec.get("nodeName") or "", spec.get("driver", ""), pool, age(obj, now)]


_VOLUME_MODE = text("VolumeMode", "Whether it is a file system or a block device.", wide=True)
_STORAGE_CLASS = text("StorageClass", "Class of the storage.")
_ATTRIBUTES_CLASS = text("VolumeAttributesClass", "Class of the changeable attributes.")

STORAGE: dict[str, Printer] = {
    "PersistentVolume": (
        (
            NAME,
            text("Capacity", "Size of the volume."),
            text("Access Modes", "How the volume can be mounted."),
            text("Reclaim Policy", "What happens to the volume when it is released."),
            text("Status", "Whether the volume is free or bound."),
            text("Claim", "The claim that has the volume."),
            _STORAGE_CLASS,
            _ATTRIBUTES_CLASS,
            text("Reason", "Why the volume is in this state."),
            AGE,
            _VOLUME_MODE,
        ),
        _volume,
    ),
    "PersistentVolumeClaim": (
        (
            NAME,
            text("Status", "Whether the claim has a volume."),
            text("Volume", "The volume of the claim."),
            text("Capacity", "Size of the volume."),
            text("Access Modes", "How the volume can be mounted."),
            _STORAGE_CLASS,
            _ATTRIBUTES_CLASS,
            AGE,
            _VOLUME_MODE,
        ),
        _claim,
    ),
    "StorageClass": (
        (
            NAME,
            text("Provisioner", "Who makes volumes of this class."),
            text("ReclaimPolicy", "What happens to a volume when it is released."),
            text("VolumeBindingMode", "When volumes are made."),
            text("AllowVolumeExpansion", "Whether volumes can grow."),
            AGE,
        ),
        _storage_class,
    ),
    "VolumeAttributesClass": ((NAME, text("DriverName", "Driver that knows the attributes."), AGE), _attributes_class),
    "CSIDriver": (
        (
            NAME,
            boolean("AttachRequired", "Whether volumes are attached to nodes first."),
            boolean("PodInfoOnMount", "Whether the driver is told about the pod."),
            boolean("StorageCapacity", "Whether the driver reports free capacity."),
            text("TokenRequests", "Audiences of tokens for the driver."),
            boolean("RequiresRepublish", "Whether volumes are published again and again."),
            text("Modes", "Kinds of volumes the driver offers."),
            AGE,
        ),
        _driver,
    ),
    "CSINode": ((NAME, integer("Drivers", "How many drivers run on the node."), AGE), counted(("spec", "drivers"))),
    "VolumeAttachment": (
        (
            NAME,
            text("Attacher", "Driver that attaches the volume.", format="name"),
            text("PV", "The volume."),
            text("Node", "The node to which it is attached."),
            boolean("Attached", "Whether it is attached."),
            AGE,
        ),
        _attachment,
    ),
    "ResourceClaim": ((NAME, text("State", "Whether devices are allocated and in use."), AGE), _resource_claim),
    "ResourceClaimTemplate": ((NAME, AGE), name_and_age),
    "DeviceClass": ((NAME, AGE), name_and_age),
    "ResourceSlice": (
        (
            NAME,
            text("Node", "Node that has the devices."),
            text("Driver", "Driver of the devices."),
            text("Pool", "Pool to which the devices belong."),
            AGE,
        ),
        _resource_slice,
    ),
}
