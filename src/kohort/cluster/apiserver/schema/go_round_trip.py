"""Objects of built-in kinds, brought into the form that a round trip through the Go types would give them.

The server's clients are written against a server that decodes every body into Go structs and encodes it again. Four
effects of that are visible and therefore reproduced here, in one walk over the object:

- unknown fields vanish (and are reported for strict validation);
- a value of the wrong JSON type refuses the request;
- quantities, times, bytes and numbers come out in their canonical form;
- null, and the zero value of a field that is not a pointer and is marked `omitempty`, vanish: `hostNetwork: false` and
  `args: []` are the same as not writing them, `replicas: 0` is not.

The reverse effect, zero values that Go always writes (`status: {}`, `rules: null`), is in `go_zero_values.py`, because
it must come after defaulting.

Every type is compiled once into a closure. The common case, a known field with a good scalar, costs one dictionary
lookup and one type comparison; paths are put together only when there is something to report, on the way out.
"""

from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

from kohort.cluster.apiserver.schema import scalars
from kohort.cluster.apiserver.schema.builtin_types import FieldRecord, Record, TypeExpression, record
from kohort.cluster.apiserver.schema.go_type_errors import TypeMismatch, json_type
from kohort.objects.json_types import Json, JsonObject

Unknown: TypeAlias = list[str] | None
"""Paths of unknown fields, relative to the value; None when there are none."""

Conformer: TypeAlias = Callable[[Json], Unknown]
"""Walks a dict or list and changes it in place."""

_Entry: TypeAlias = tuple[type | None, Conformer | None, scalars.Scalar | None, bool, str]
"""The expected Python type (None: any), how to go on below, how to canonicalise, whether an empty value is kept, and
the Go type for messages."""

MAX_UNKNOWN: Final = 100
"""Unknown fields that are reported of one object. Upstream's decoder stops at the same number: reports are for people,
and a body may have hundreds of thousands of unknown keys below a long path."""
LONG_KEY: Final = 256
"""Keys of maps that unknown fields lie below are cut after so many characters."""

SCHEMA_PROPS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


@cache
def conformer(type_name: str) -> Conformer:
    """The walk for a struct type, by its full name. It expects a dict."""
    return _struct_conformer(record(type_name))


def _struct_conformer(described: Record) -> Conformer:
    entries: dict[str, _Entry] = {}
    paths = _go_paths(described)
    struct = described.go_type.rpartition(".")[2]

    def conform(obj: JsonObject) -> Unknown:
        if not entries:  # compiled at the first visit: types refer to each other in circles
            entries.update({field.name: _entry(field) for field in described.fields})
        unknown: Unknown = None
        dropped: list[str] = []
        key = ""
        try:
            for key, value in obj.items():
                entry = entries.get(key)
                if entry is None:
                    unknown = _with(unknown, [key])
                    dropped.append(key)
                    continue
                expected, below, scalar, keep_empty, go_type = entry
                if type(value) is expected:
                    if below is not None:
                        found = below(value)
                        if found is not None:
                            unknown = _with(unknown, found, key)
                    if not value and not keep_empty:
                        dropped.append(key)
                elif value is None:
                    dropped.append(key)
                elif scalar is not None:
                    kept = scalar(value)
                    if kept is None or (not kept and not keep_empty):
                        dropped.append(key)
                    elif kept is not value:
                        obj[key] = kept
                else:
                    raise TypeMismatch(json_type(value), go_type)
        except TypeMismatch as mismatch:
            if not mismatch.struct:
                obj[key] = None
            mismatch.inside(struct, paths[key])
            raise
        for key in dropped:
            del obj[key]
        return unknown

    return conform


def _with(unknown: Unknown, found: list[str], key: str = "") -> list[str]:
    """Add what was found below a key, up to the number that is reported."""
    if unknown is None:
        unknown = []
    room = MAX_UNKNOWN - len(unknown)
    if room > 0:
        unknown += [_joined(key, path) for path in found[:room]] if key else found[:room]
    return unknown


def _joined(key: str, path: str) -> str:
    key = key[:LONG_KEY]
    return key + path if path[:1] == "[" else f"{key}.{path}"


def _go_paths(described: Record) -> dict[str, str]:
    """Field names as Go's messages show them: those of an inlined struct carry its name."""
    paths = {field.name: field.name for field in described.own_fields}
    for inlined, _ in described.inlined:
        short = inlined.rpartition(".")[2]
        paths |= {name: f"{short}.{path}" for name, path in _go_paths(record(inlined)).items()}
    return paths


def _entry(field: FieldRecord) -> _Entry:
    expression = field.type
    keep_empty = expression.pointer or not (field.omit_empty or field.omit_zero)
    if expression.kind == "struct" and not field.omit_zero:
        keep_empty = True
    if expression.kind == "special":
        keep_empty = True  # 0 and "" mean something here
    return (*_value_entry(expression), keep_empty, expression.go_type)


def _value_entry(expression: TypeExpression) -> tuple[type | None, Conformer | None, scalars.Scalar | None]:
    match expression.kind:
        case "struct":
            return dict, conformer(expression.word), None
        case "list" | "wrapped-list":
            return list, _list_conformer(expression.item), None
        case "map":
            return dict, _map_conformer(expression.item), None
        case "scalar":
            return _scalar_entry(expression)
    return None, None, _SPECIAL[expression.word]


def _scalar_entry(expression: TypeExpression) -> tuple[type | None, Conformer | None, scalars.Scalar | None]:
    match expression.word:
        case "string":
            return str, None, None
        case "bool":
            return bool, None, None
        case "int32":
            return None, None, scalars.integer(32, expression.go_type)
        case "int64":
            return None, None, scalars.integer(64, expression.go_type)
        case "float64":
            return None, None, scalars.number(expression.go_type)
    return None, None, scalars.base64_bytes


def zero(expression: TypeExpression) -> Json:
    """What Go makes of null inside a list or map: there is no absence there, only the zero value."""
    if expression.pointer:
        return None
    match expression.kind:
        case "struct":
            return {}
        case "scalar":
            return {"string": "", "bool": False, "bytes": None}.get(expression.word, 0)
        case "special":
            return {"quantity": "0", "intstr": 0}.get(expression.word)
    return None


def _list_conformer(element: TypeExpression) -> Conformer:
    expected, below, scalar = _value_entry(element)
    good = {expected}

    def conform(items: list[Json]) -> Unknown:
        if below is None and scalar is None and good.issuperset(map(type, items)):
            return None
        unknown: Unknown = None
        for index, item in enumerate(items):
            if type(item) is expected:
                if below is not None and (found := below(item)) is not None:
                    unknown = _with(unknown, found, f"[{index}]")
            elif item is None:
                items[index] = zero(element)
            elif scalar is not None:
                items[index] = scalar(item)
            else:
                items[index] = None
                raise TypeMismatch(json_type(item), element.go_type)
        return unknown

    return conform


def _map_conformer(element: TypeExpression) -> Conformer:
    expected, below, scalar = _value_entry(element)
    good = {expected}

    def conform(values: JsonObject) -> Unknown:
        if below is None and scalar is None and good.issuperset(map(type, values.values())):
            return None
        unknown: Unknown = None
        for key, value in values.items():
            if type(value) is expected:
                if below is not None and (found := below(value)) is not None:
                    unknown = _with(unknown, found, key)
            elif value is None:
                values[key] = zero(element)
            elif scalar is not None:
                values[key] = scalar(value)
            else:
                values[key] = None
                raise TypeMismatch(json_type(value), element.go_type)
        return unknown

    return conform


def _schema(value: JsonObject) -> Json:
    """A JSON schema behind a type that decodes itself: nothing unknown is reported from there."""
    try:
        conformer(SCHEMA_PROPS)(value)
    except TypeMismatch as mismatch:
        mismatch.forget_path()
        raise
    return value


def _schema_or_bool(value: Json) -> Json:
    if type(value) is dict:
        return _schema(value)
    if type(value) is bool:
        return value
    raise ValueError("boolean or JSON schema expected")


def _schema_or_list(value: Json) -> Json:
    if type(value) is dict:
        return _schema(value)
    if type(value) is list:
        for item in value:
            if type(item) is not dict:
                raise TypeMismatch(json_type(item), "v1.JSONSchemaProps")
            _schema(item)
        return value
    return None


def _schema_or_strings(value: Json) -> Json:
    if type(value) is dict:
        return _schema(value)
    if type(value) is list:
        _list_conformer(TypeExpression("scalar", "string", False, None, "string"))(value)
        return value
    return None


_SPECIAL: Final[dict[str, scalars.Scalar]] = {
    "time": scalars.time,
    "microtime": scalars.micro_time,
    "duration": scalars.text("string"),
    "quantity": scalars.quantity,
    "intstr": scalars.int_or_string,
    "raw": scalars.untouched,
    "json": scalars.untouched,
    "fieldsv1": scalars.untouched,
    "any": scalars.untouched,
    "orbool": _schema_or_bool,
    "orarray": _schema_or_list,
    "orstrings": _schema_or_strings,
}
