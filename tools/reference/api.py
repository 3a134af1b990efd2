"""The API reference: fields, types, defaults, rules and meanings, all from the definitions.

One table per object, so that names of fields are short and no column breaks them. Every field has an anchor made of
kind, version and path: `api.md#leaderworkerset.v1.spec.replicas`.
"""

from collections.abc import Iterator

from kohort.groups import crd as groups
from kohort.objects.json_types import JsonObject
from kohort.rollouts import crd as rollouts

TEMPLATES = {"leaderTemplate": "PodTemplateSpec", "workerTemplate": "PodTemplateSpec"}
"""Kinds of Kubernetes are named, not repeated."""


def page() -> str:
    lines = [
        "# API reference",
        "",
        "Generated from the definitions in the code. `kubectl explain lws.spec` shows the same on a cluster.",
        "",
        "Every field has an address made of kind, version and path, for example",
        "[`#leaderworkerset.v1.spec.replicas`](#leaderworkerset.v1.spec.replicas).",
        "",
    ]
    for definition in definitions():
        lines += _section(definition)
    return "\n".join(lines) + "\n"


def definitions() -> list[JsonObject]:
    return [groups.definition(), *rollouts.definitions()]


def fields(definition: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """All fields that are listed, by their paths, in all versions."""
    for version in definition["spec"]["versions"]:
        for path, field, _ in _fields(version["schema"]["openAPIV3Schema"]):
            yield path, field


def _section(definition: JsonObject) -> Iterator[str]:
    spec = definition["spec"]
    for version in spec["versions"]:
        yield f"## {spec['names']['kind']} ({spec['group']}/{version['name']})"
        yield ""
        schema = version["schema"]["openAPIV3Schema"]
        prefix = f"{spec['names']['kind']}.{version['name']}"
        listed = list(_fields(schema))
        parents = {path.rpartition(".")[0] for path, _, _ in listed}
        for parent in dict.fromkeys(path.rpartition(".")[0] for path, _, _ in listed):
            yield f"### `{parent}`"
            yield ""
            if parent not in ("spec", "status"):
                yield f'<a id="{anchor(prefix, parent)}.fields"></a>'
                yield ""
            yield "| field | type | default | meaning |"
            yield "|---|---|---|---|"
            for path, field, required in listed:
                if path.rpartition(".")[0] == parent:
                    yield _row(prefix, path, field, required, inner=_inner(path, parents))
            yield ""
        rules = list(_rules(schema))
        if rules:
            yield "Rules beyond the types:"
            yield ""
            yield from (f"- {rule}" for rule in dict.fromkeys(rules))
            yield ""


def anchor(prefix: str, path: str) -> str:
    """
    >>> anchor("Rollout.v1beta1", "spec.strategy.canary.steps[].traffic")
    'rollout.v1beta1.spec.strategy.canary.steps.traffic'
    """
    kind, _, rest = f"{prefix}.{path}".replace("[]", "").partition(".")
    return f"{kind.lower()}.{rest}"


def _row(prefix: str, path: str, field: JsonObject, required: bool, *, inner: str) -> str:
    kind = _type(path, field)
    kind = f"[{kind}](#{anchor(prefix, inner)}.fields)" if inner else kind
    name = path.rpartition(".")[2]
    words = kind + (", required" if required else "")
    return f'| <a id="{anchor(prefix, path)}"></a>`{name}` | {words} | {_default(field)} | {field["description"]} |'


def _inner(path: str, parents: set[str]) -> str:
    """The path under which the fields of an object, or of the objects in a list, are shown; empty if it has none."""
    return next((one for one in (path, f"{path}[]") if one in parents), "")


def _fields(schema: JsonObject, prefix: str = "") -> Iterator[tuple[str, JsonObject, bool]]:
    required = schema.get("required") or ()
    for name, field in (schema.get("properties") or {}).items():
        if not prefix and name in ("apiVersion", "kind", "metadata"):
            continue
        path = f"{prefix}{name}"
        if path not in ("spec", "status"):
            yield path, field, name in required
        if name in TEMPLATES or name in ("volumeClaimTemplates", "conditions"):
            continue
        inner = field.get("items") if field.get("type") == "array" else field
        if inner and inner.get("properties"):
            yield from _fields(inner, f"{path}[]." if inner is not field else f"{path}.")


def _type(path: str, field: JsonObject) -> str:
    name = path.rsplit(".", 1)[-1]
    if name in TEMPLATES:
        return TEMPLATES[name]
    if name == "volumeClaimTemplates":
        return "list of PersistentVolumeClaim"
    if field.get("x-kubernetes-int-or-string"):
        return "number or text"
    if "enum" in field:
        return " / ".join(str(value) or '""' for value in field["enum"])
    if field.get("type") == "array":
        return f"list of {(field.get('items') or {}).get('type', 'object')}"
    limits = [f"{word} {field[key]}" for word, key in (("≥", "minimum"), ("≤", "maximum")) if key in field]
    return ", ".join([str(field.get("type", "object")), *limits])


def _default(field: JsonObject) -> str:
    return f"`{field['default']}`" if "default" in field else ""


def _rules(schema: JsonObject, path: str = "") -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations") or ():
        yield f"`{path}{rule.get('fieldPath', '')}`: {rule.get('message') or rule['rule']}"
    for name, field in (schema.get("properties") or {}).items():
        if name not in TEMPLATES and name != "volumeClaimTemplates":
            inner = field.get("items")
            here = f"{path}.{name}" if path else name
            yield from _rules(inner, f"{here}[]") if inner else _rules(field, here)
