"""A patched object as it is printed in the refusal of its patch.

Kubernetes prints the very text that it tried to decode. Where the patch reached, that text has its keys sorted; all the
rest is as Go wrote it, with fields in the order of their declaration. Objects here keep the order in which fields came
and were filled in, so the text is put in that order first. What no patch reached is still shared with the live object.
"""

from kohort.cluster.apiserver.schema.builtin_types import TypeExpression, record
from kohort.objects.json_types import Json


def as_printed(document: Json, patched: Json, live: Json, type_name: str) -> Json:
    """`document` is a copy of `patched` from before anything was done to it; `type_name` is empty for custom kinds."""
    if not isinstance(document, dict):
        return document
    if patched is live:
        return _declared(document, type_name) if type_name else document
    patched = patched if isinstance(patched, dict) else {}
    live = live if isinstance(live, dict) else {}
    types = {field.name: field.type for field in record(type_name).fields} if type_name else {}
    shown = {}
    for key in sorted(document):
        expression = types.get(key)
        if patched.get(key) is live.get(key) and expression is not None:
            shown[key] = _value(document[key], expression)
        else:
            deeper = expression.word if expression is not None and expression.kind == "struct" else ""
            shown[key] = as_printed(document[key], patched.get(key), live.get(key), deeper)
    return shown


def _declared(value: Json, type_name: str) -> Json:
    known = {field.name: field.type for field in record(type_name).fields}
    ordered = {name: _value(value[name], known[name]) for name in known if name in value}
    return {**ordered, **{name: value[name] for name in sorted(value) if name not in known}}


def _value(value: Json, expression: TypeExpression) -> Json:
    if expression.kind == "struct" and isinstance(value, dict):
        return _declared(value, expression.word)
    if expression.kind == "map" and isinstance(value, dict):
        return {key: _value(value[key], expression.item) for key in sorted(value)}
    if expression.kind in ("list", "wrapped-list") and isinstance(value, list):
        return [_value(item, expression.item) for item in value]
    return _by_name(value)


def _by_name(value: Json) -> Json:
    """Objects without fields of their own, such as those of managedFields."""
    return {key: _by_name(value[key]) for key in sorted(value)} if isinstance(value, dict) else value
