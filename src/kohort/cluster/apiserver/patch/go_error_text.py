"""How Go prints decoded JSON inside error messages, and the answers that patches share.

Clients and their tests match on these texts, so a value has to look as `%v` and `%#v` show it.
"""

import math

import msgspec

from kohort.kube.errors import ApiError, bad_request, failure, generic
from kohort.objects.go_quote import go_quote
from kohort.objects.json_types import Json


def go_text(value: Json) -> str:
    """`%v`: maps with sorted keys, no quotes."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return go_float(value)
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{go_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(go_text, value)) + "]"
    return str(value)


def go_syntax(value: Json) -> str:
    """`%#v`: the value as a Go expression."""
    if value is None:
        return "interface {}(nil)"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, dict):
        entries = (f"{go_quote(key)}:{go_syntax(value[key])}" for key in sorted(value))
        return "map[string]interface {}{" + ", ".join(entries) + "}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(go_syntax, value)) + "}"
    return go_text(value)


def go_type(value: Json) -> str:
    """`%T` of decoded JSON."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, str):
        return "string"
    return "map[string]interface {}" if isinstance(value, dict) else "[]interface {}"


def go_float(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:].zfill(2)}" if mark else text


_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def go_json(value: Json) -> str:
    """JSON as Go writes it: keys sorted, characters with a meaning in HTML escaped."""
    return msgspec.json.encode(value, order="sorted").decode().translate(_HTML)


_JSON_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "bool"),
    (int, "number"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


def json_name(value: Json) -> str:
    """What encoding/json calls the kind of a JSON value."""
    return next((name for kind, name in _JSON_NAMES if isinstance(value, kind)), "null")


def cannot_unmarshal(value: Json, target: str) -> ApiError:
    return bad_request(f"error decoding patch: json: cannot unmarshal {json_name(value)} into Go {target}")


def does_not_apply() -> ApiError:
    """A patch that is well formed but does not fit the document. The server says no more than this."""
    return generic(422, "Invalid", "the server rejected our request due to an error in our request")


def refused(message: str) -> ApiError:
    """An error for which the API defines no reason: it is answered with 500, even if the client caused it."""
    return failure(500, "", message)
