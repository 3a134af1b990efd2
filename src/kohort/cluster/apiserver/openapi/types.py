"""The schemas of types as OpenAPI documents publish them.

Built-in types are written from the type data, custom ones from the schema in their definition. References go to
`#/components/schemas/` (OpenAPI 3) or `#/definitions/` (Swagger 2, which in addition cannot express alternatives and
defaults). A `Components` collects what one document needs: writing a type queues the types it refers to.
"""

from typing import Final

from kohort.cluster.apiserver.schema import descriptions_index
from kohort.cluster.apiserver.schema.builtin import OBJECT_META
from kohort.cluster.apiserver.schema.builtin_types import FieldRecord, TypeExpression, has_type, record
from kohort.objects.crd_schema import SCALAR_SCHEMAS
from kohort.objects.json_types import JsonObject
from kohort.objects.type_data import ZEROS

LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
VERSION: Final = "io.k8s.apimachinery.pkg.version.Info"
_VERSION_FIELDS: Final = (
    "major",
    "minor",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "platform",
)
PATCH: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
_APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"

_SPECIAL_NAMES: Final = {
    "time": "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    "microtime": "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    "duration": "io.k8s.apimachinery.pkg.apis.meta.v1.Duration",
    "fieldsv1": "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "intstr": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "raw": "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "json": f"{_APIEXTENSIONS}.JSON",
    "orbool": f"{_APIEXTENSIONS}.JSONSchemaPropsOrBool",
    "orarray": f"{_APIEXTENSIONS}.JSONSchemaPropsOrArray",
    "orstrings": f"{_APIEXTENSIONS}.JSONSchemaPropsOrStringArray",
}

_SPECIAL_SCHEMAS: Final[dict[str, JsonObject]] = {
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "duration": {"type": "string"},
    "fieldsv1": {"type": "object"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "intstr": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "raw": {"type": "object"},
}

_SWAGGER_SCHEMAS: Final[dict[str, JsonObject]] = {
    "quantity": {"type": "string"},
    "intstr": {"type": "string", "format": "int-or-string"},
}

_CONVENTIONS: Final = "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_API_VERSION: Final = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized "
    f"schemas to the latest internal value, and may reject unrecognized values. {_CONVENTIONS}#resources"
)
_KIND: Final = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the "
    f"endpoint the client submits requests to. Cannot be updated. In CamelCase. {_CONVENTIONS}#types-kinds"
)
"""What every client knows these fields by; a definition does not describe them itself."""

_NOT_IN_SWAGGER: Final = ("nullable", "oneOf", "anyOf", "allOf", "not", "default")


class Components:
    """The schemas of one document, by name."""

    def __init__(self, *, swagger: bool = False) -> None:
        self.swagger = swagger
        self.schemas: dict[str, JsonObject] = {}
        self._base = "#/definitions/" if swagger else "#/components/schemas/"

    def reference(self, name: str) -> JsonObject:
        """A reference to a built-in type, which is written if it was not yet."""
        if name not in self.schemas:
            self.schemas[name] = {}  # types refer to each other in circles
            self.schemas[name] = _with_purpose(name, self._builtin(name))
        return {"$ref": self._base + name}

    def add(self, name: str, schema: JsonObject) -> JsonObject:
        self.schemas[name] = schema
        return {"$ref": self._base + name}

    def _builtin(self, name: str) -> JsonObject:
        if name == VERSION:
            texts = {field: {"type": "string"} | _purpose(name, field) for field in _VERSION_FIELDS}
            return {"type": "object", "properties": texts}
        if name == PATCH or not has_type(name):
            return {"type": "object"}
        described = record(name)
        schema: JsonObject = {"type": "object"}
        if described.required:
            schema["required"] = [field.name for field in described.fields if field.name in described.required]
        if described.fields:
            schema["properties"] = {field.name: self._field(name, field) for field in described.fields}
        if name.endswith("List") and "items" in schema.get("properties", {}):
            schema["properties"]["items"].pop("x-kubernetes-list-type", None)  # lists of kinds are never merged
        if described.kinds:
            schema["x-kubernetes-group-version-kind"] = list(described.kinds)
        if described.atomic:
            schema["x-kubernetes-map-type"] = "atomic"
        return schema

    def _field(self, owner: str, field: FieldRecord) -> JsonObject:
        schema = self._type(field.type)
        extras = _purpose(owner, field.name)
        if field.default is not None:
            extras["default"] = field.default
        elif not field.type.pointer:
            extras |= self._zero_default(field)
        if field.enum:
            schema.get("items", extras)["enum"] = list(field.enum)
        extras |= _merge_extensions(field)
        return self._with(self._alone(schema), extras)

    def _zero_default(self, field: FieldRecord) -> JsonObject:
        if field.type.kind == "struct":
            return {"default": {}}
        if field.type.kind == "scalar" and not field.omit_empty and field.type.word in ZEROS:
            return {"default": ZEROS[field.type.word]}
        return {}

    def _alone(self, schema: JsonObject) -> JsonObject:
        """A reference must stand alone in OpenAPI 3; what may be said beside it goes around it."""
        return {"allOf": [schema]} if "$ref" in schema and not self.swagger else schema

    def _with(self, schema: JsonObject, extras: JsonObject) -> JsonObject:
        if self.swagger:
            extras.pop("default", None)
        return self._alone(schema) | extras if extras else schema

    def _type(self, expression: TypeExpression) -> JsonObject:
        match expression.kind:
            case "struct":
                return self.reference(expression.word)
            case "list" | "wrapped-list":
                return {"type": "array", "items": self._element(expression.item)}
            case "map":
                return {"type": "object", "additionalProperties": self._element(expression.item)}
            case "scalar":
                return dict(SCALAR_SCHEMAS[expression.word])
        return self._special(expression.word)

    def _element(self, expression: TypeExpression) -> JsonObject:
        schema = self._type(expression)
        if expression.kind == "struct":
            return self._with(schema, {"default": {}})
        if expression.kind == "scalar" and expression.word in ZEROS:
            return self._with(schema, {"default": ZEROS[expression.word]})
        return schema

    def _special(self, word: str) -> JsonObject:
        name = _SPECIAL_NAMES.get(word)
        if name is None:
            return {}
        schema = _SPECIAL_SCHEMAS.get(word, {})
        if self.swagger:
            schema = _SWAGGER_SCHEMAS.get(word, schema)
        return self.add(name, _with_purpose(name, schema))

    def custom(self, name: str, source: JsonObject, group: str, version: str, kind: str) -> JsonObject:
        """Publish the schema of a CRD version. A Swagger 2 schema that names any property makes kubectl refuse all
        others, so a version that keeps unknown fields is published there without properties."""
        if self.swagger and source.get("x-kubernetes-preserve-unknown-fields"):
            schema: JsonObject = {"type": "object"}
        else:
            schema = self._custom_level(source)
            schema["properties"] = (schema.get("properties") or {}) | self._resource_properties()
            schema["type"] = "object"
        schema["x-kubernetes-group-version-kind"] = [{"group": group, "version": version, "kind": kind}]
        return self.add(name, schema)

    def custom_list(self, name: str, item: str, group: str, version: str, kind: str, plural: str) -> JsonObject:
        about_metadata = f"Standard list metadata. {_CONVENTIONS}#types-kinds"
        about_items = f"List of {plural}. {_CONVENTIONS}"
        schema: JsonObject = {
            "description": f"{kind} is a list of {item.rpartition('.')[2]}",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"description": _API_VERSION, "type": "string"},
                "items": {"description": about_items, "type": "array", "items": {"$ref": self._base + item}},
                "kind": {"description": _KIND, "type": "string"},
                "metadata": self._described(LIST_META, about_metadata),
            },
            "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}],
        }
        return self.add(name, schema)

    def _resource_properties(self) -> JsonObject:
        return {
            "apiVersion": {"description": _API_VERSION, "type": "string"},
            "kind": {"description": _KIND, "type": "string"},
            "metadata": self._described(OBJECT_META, f"Standard object's metadata. {_CONVENTIONS}#metadata"),
        }

    def _described(self, name: str, description: str) -> JsonObject:
        return self._alone(self.reference(name)) | {"description": description}

    def _custom_level(self, source: JsonObject) -> JsonObject:
        schema = {key: value for key, value in source.items() if key not in ("properties", "items")}
        if self.swagger:
            schema = _for_swagger(schema)
        if isinstance(source.get("properties"), dict):
            schema["properties"] = {name: self._custom_level(inner) for name, inner in source["properties"].items()}
        if isinstance(source.get("items"), dict):
            schema["items"] = self._custom_level(source["items"])
        if isinstance(source.get("additionalProperties"), dict):
            schema["additionalProperties"] = self._custom_level(source["additionalProperties"])
        if source.get("x-kubernetes-int-or-string") and not self.swagger:
            schema.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
        if source.get("x-kubernetes-embedded-resource"):
            schema["properties"] = (schema.get("properties") or {}) | self._resource_properties()
            schema["required"] = sorted({*(schema.get("required") or ()), "apiVersion", "kind"})
        return schema


def _with_purpose(name: str, schema: JsonObject) -> JsonObject:
    text = descriptions_index.type_text(name)
    return {"description": text} | schema if text else dict(schema)


def _purpose(owner: str, field: str) -> JsonObject:
    text = descriptions_index.field_text(owner, field)
    return {"description": text} if text else {}


def _merge_extensions(field: FieldRecord) -> JsonObject:
    extensions: JsonObject = {}
    if field.type.kind in ("list", "wrapped-list"):
        if field.list_keys:
            extensions["x-kubernetes-list-map-keys"] = list(field.list_keys)
        extensions["x-kubernetes-list-type"] = field.list_type
    if field.map_type:
        extensions["x-kubernetes-map-type"] = field.map_type
    if field.merge_key:
        extensions["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.strategy:
        extensions["x-kubernetes-patch-strategy"] = ",".join(field.strategy)
    return extensions


def _for_swagger(schema: JsonObject) -> JsonObject:
    """Swagger 2 readers choke on nulls and alternatives, so a field that may hold them is published without a type."""
    reduced = {key: value for key, value in schema.items() if key not in _NOT_IN_SWAGGER}
    if schema.get("nullable") or schema.get("x-kubernetes-preserve-unknown-fields"):
        reduced.pop("type", None)
    return reduced
