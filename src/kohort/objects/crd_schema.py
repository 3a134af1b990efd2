"""Structural schemas for custom resources that embed built-in types.

A LeaderWorkerSet holds whole pod templates. So that an API server prunes, defaults and checks them as it would in a
pod, the definition of the resource spells their schema out; this module makes that schema from the type data.
"""

from functools import cache
from typing import Final

from kohort.objects.json_types import JsonObject
from kohort.objects.type_data import FieldRecord, TypeExpression, record

OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_TEXT: Final[JsonObject] = {"type": "string"}
EMBEDDED_METADATA: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "annotations": {"type": "object", "additionalProperties": _TEXT},
        "finalizers": {"type": "array", "items": _TEXT},
        "labels": {"type": "object", "additionalProperties": _TEXT},
        "name": _TEXT,
        "namespace": _TEXT,
    },
}
"""The metadata that a template may carry; everything else is set by the server when an object is made from it."""

SCALAR_SCHEMAS: Final[dict[str, JsonObject]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "float64": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
"""Of `type_data.SCALARS`; special types differ between definitions and OpenAPI documents."""

_SCHEMAS: Final[dict[str, JsonObject]] = {
    **SCALAR_SCHEMAS,
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "duration": {"type": "string"},
    "intstr": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
    "quantity": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": QUANTITY_PATTERN,
        "x-kubernetes-int-or-string": True,
    },
}

_LOCAL_REFERENCE: Final = "io.k8s.api.core.v1.LocalObjectReference"
_DEFAULTS: Final[dict[str, JsonObject]] = {
    _LOCAL_REFERENCE: {"name": ""},
    "io.k8s.api.core.v1.GRPCAction": {"service": ""},
    "io.k8s.api.core.v1.FileKeySelector": {"optional": False},
    "io.k8s.api.core.v1.AzureDiskVolumeSource": {"fsType": "ext4", "readOnly": False},
    "io.k8s.api.core.v1.ISCSIVolumeSource": {"iscsiInterface": "default"},
    "io.k8s.api.core.v1.RBDVolumeSource": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "io.k8s.api.core.v1.ScaleIOVolumeSource": {"fsType": "xfs", "storageMode": "ThinProvisioned"},
}
"""Defaults that the schemas of custom resources with pod templates carry, besides those in the type data."""

_NO_DEFAULTS: Final = {"io.k8s.api.core.v1.AzureDiskVolumeSource": ("cachingMode", "kind")}
"""Defaults of the type data that generated schemas do not carry. A server that filled them in would change stored sets
of others: their template would seem edited, and they would roll."""


@cache
def schema_of(type_name: str) -> JsonObject:
    """The schema of a built-in struct. Shared between callers: not to be changed."""
    if type_name == OBJECT_META:
        return EMBEDDED_METADATA
    known = record(type_name)
    properties = {field.name: _field(field) for field in known.fields}
    sources = (type_name, *(inlined for inlined, _ in known.inlined))
    for source in sources:
        for name, value in _DEFAULTS.get(source, {}).items():
            properties[name] = {**properties[name], "default": value}
    for name in _NO_DEFAULTS.get(type_name, ()):
        properties[name].pop("default", None)
    schema: JsonObject = {"type": "object", "properties": properties}
    required = sorted(known.required)
    if required:
        schema["required"] = required
    if any(record(source).atomic for source in sources):
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _field(field: FieldRecord) -> JsonObject:
    schema = dict(_expression(field.type))
    if schema.get("type") == "array":
        schema["x-kubernetes-list-type"] = field.list_type
        if field.list_type == "map":
            schema["x-kubernetes-list-map-keys"] = list(field.list_keys)
    if field.map_type:
        schema["x-kubernetes-map-type"] = field.map_type
    if field.default is not None:
        schema["default"] = field.default
    return schema


def _expression(type: TypeExpression) -> JsonObject:
    if type.kind == "struct":
        return schema_of(type.word)
    if type.kind in ("list", "wrapped-list"):
        return {"type": "array", "items": _expression(type.item)}
    if type.kind == "map":
        return {"type": "object", "additionalProperties": _expression(type.item)}
    return _SCHEMAS.get(type.word, {"x-kubernetes-preserve-unknown-fields": True})
