"""Whether a schema has rules at all: those that have none never need the expression language."""

from kohort.objects.json_types import JsonObject


def has_rules(schema: JsonObject) -> bool:
    """Whether there is a rule anywhere in a schema."""
    if schema.get("x-kubernetes-validations"):
        return True
    inner = list((schema.get("properties") or {}).values())
    inner += [below for key in ("items", "additionalProperties") if isinstance(below := schema.get(key), dict)]
    return any(map(has_rules, inner))
