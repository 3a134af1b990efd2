"""The hash by which Kruise Rollouts names a version of a Deployment (`canaryRevision`, `updatedRevision`).

It is FNV-1a over a dump of the Go struct, field by field with the names of their types, so it depends on the types that
the released manager was built with: `data/pod_template_layout.json` holds their layout, written by `tools/templatehash`
from the version of k8s.io/api that Kruise Rollouts 0.6 uses. Scripts compare this hash, so it is reproduced here.

Two things are done differently, because the hash also tells versions apart: quantities are hashed in canonical form,
since their spelling makes no new pods; and fields that the layout does not know, which the manager would not see at
all, are hashed besides.
"""

from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import msgspec

from kohort.objects.json_types import Json, JsonObject
from kohort.objects.quantity import canonical
from kohort.rules.canonical_form import encode
from kohort.rules.pod_template import pod_template_content
from kohort.rules.safe_text import fnv1a, safe_text

_NIL: Final = "<nil>"
_TEMPLATE: Final = "v1.PodTemplateSpec"
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_ZERO: Final = {"string": "", "bool": "false"}


class _Field(msgspec.Struct, frozen=True, array_like=True):
    name: str
    json: str
    """Empty where the members of the field stand beside the others."""
    type: str
    """As it is printed."""
    shape: str
    """The kind that is behind a named type: `*`, `[]`, `map[string]`, the name of a struct, or a basic kind."""


def template_hash(template: JsonObject) -> str:
    return _hash(encode(pod_template_content(template)))


@lru_cache(maxsize=512)
def _hash(content: bytes) -> str:
    template = msgspec.json.decode(content)
    text = template_dump(template)
    unknown = _unknown(template, _TEMPLATE)
    more = encode(unknown) if unknown else b""
    return safe_text(str(fnv1a(text.encode() + more)))


def template_dump(template: JsonObject) -> str:
    """What is hashed: a template in canonical form as Go's `spew` prints it with `%#v`."""
    return f"({_TEMPLATE}){_struct(template, _TEMPLATE)}"


@cache
def _layouts() -> dict[str, tuple[_Field, ...]]:
    data = Path(__file__).with_name("data").joinpath("pod_template_layout.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, tuple[_Field, ...]])


def _struct(value: JsonObject, name: str) -> str:
    members = []
    for field in _layouts()[name]:
        found = value.get(field.json) if field.json else value
        members.append(f"{field.name}:({field.type}){_value(found, field.shape)}")
    return "{" + " ".join(members) + "}"


def _value(value: Json, shape: str) -> str:
    """Without the type: inside of lists, maps and pointers it is not printed again."""
    if shape == "resource.Quantity":
        return _quantity(value)
    if shape == "intstr.IntOrString":
        return _int_or_string(value)
    if shape == "time.Time":
        return f"{{wall:(uint64)0 ext:(int64)0 loc:(*time.Location){_NIL}}}"
    if shape in _layouts():
        return _struct(value if isinstance(value, dict) else {}, shape)
    if shape.startswith(("*", "[]", "map[")) and value is None:
        return _NIL
    if shape.startswith("*"):
        return _value(value, shape[1:])
    if shape.startswith("[]"):
        return "[" + " ".join(_value(one, shape[2:]) for one in value) + "]"
    if shape.startswith("map["):
        inner = shape.partition("]")[2]
        return "map[" + " ".join(f"{key}:{_value(value[key], inner)}" for key in sorted(value)) + "]"
    if value is None:
        return _ZERO.get(shape, "0")
    return ("true" if value else "false") if shape == "bool" else str(value)


def _quantity(value: Json) -> str:
    """The text that was read is kept in the struct only where its digits show that it is canonical."""
    text = canonical(value) if value is not None else ""
    digits = text.rstrip("KMGTPEikmnu")
    suffix = text[len(digits) :]
    number, scale, format, kept = 0, 0, "DecimalSI" if text else "", True
    if suffix in _BINARY:
        number, format = int(digits) << _BINARY[suffix], "BinarySI"
        kept = int(digits) & 7 != 0
    elif text not in ("", "0"):
        mantissa, _, exponent = digits.partition("e")
        whole, _, fraction = mantissa.partition(".")
        number, scale = int(whole + fraction), _DECIMAL[suffix] + int(exponent or 0) - len(fraction)
        format = "DecimalExponent" if exponent else "DecimalSI"
        kept = scale % 3 == 0 and not mantissa.endswith("000")
    amount = f"i:(resource.int64Amount){{value:(int64){number} scale:(resource.Scale){scale}}}"
    large = f"d:(resource.infDecAmount){{Dec:(*inf.Dec){_NIL}}}"
    return f"{{{amount} {large} s:(string){text if kept else ''} Format:(resource.Format){format}}}"


def _int_or_string(value: Json) -> str:
    kind, number, text = (1, 0, value) if isinstance(value, str) else (0, value or 0, "")
    return f"{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}"


def _unknown(value: Json, shape: str) -> Json:
    """The parts of a document that the layout does not have."""
    while shape.startswith("*"):
        shape = shape[1:]
    if shape.startswith("[]") and isinstance(value, list):
        found = [_unknown(one, shape[2:]) for one in value]
        return found if any(found) else None
    if shape not in _layouts() or not isinstance(value, dict) or shape in _LEAVES:
        return None
    known = _members(shape)
    rest = {name: member for name, member in value.items() if name not in known}
    below = {name: _unknown(value[name], shape) for name, shape in known.items() if name in value}
    return rest | {name: member for name, member in below.items() if member}


_LEAVES: Final = frozenset({"resource.Quantity", "intstr.IntOrString", "time.Time", "v1.Time"})


@cache
def _members(name: str) -> dict[str, str]:
    """By the names that they have in JSON, those of inlined structs among them."""
    found: dict[str, str] = {}
    for field in _layouts()[name]:
        found |= {field.json: field.shape} if field.json else _members(field.shape)
    return found
