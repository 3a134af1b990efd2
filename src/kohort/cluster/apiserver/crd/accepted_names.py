"""The names that a definition gets: accepted or in conflict with another definition.

Within a group every name stands for one resource, and every kind for one kind. First come, first served: a definition
whose names are taken waits, unserved, until they become free.

| taken | reason |
|-------|--------|
| plural | PluralConflict |
| singular | SingularConflict |
| one of the short names | ShortNamesConflict |
| kind | KindConflict |
| list kind | ListKindConflict |
"""

from collections.abc import Iterable

import msgspec

from kohort.objects.json_types import JsonObject


class NameDecision(msgspec.Struct, frozen=True):
    accepted: JsonObject
    reason: str = ""
    message: str = ""

    @property
    def conflict(self) -> bool:
        return bool(self.reason)


def decide_names(crd: JsonObject, others: Iterable[JsonObject]) -> NameDecision:
    """The names that a definition may have beside the others."""
    wanted = crd["spec"]["names"]
    held = (crd.get("status") or {}).get("acceptedNames") or {}
    resources, kinds = _taken(crd, others)
    accepted = dict(held)
    problem = ("", "")
    for field, reason, taken in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("shortNames", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("listKind", "ListKindConflict", kinds),
    ):
        conflict = _conflict(wanted.get(field), held.get(field), taken)
        if conflict:
            problem = (reason, conflict)
        elif wanted.get(field):
            accepted[field] = wanted[field]
        else:
            accepted.pop(field, None)
    if wanted.get("categories"):
        accepted["categories"] = wanted["categories"]
    else:
        accepted.pop("categories", None)
    accepted.setdefault("plural", "")
    accepted.setdefault("kind", "")
    return NameDecision(accepted, *problem)


def _taken(crd: JsonObject, others: Iterable[JsonObject]) -> tuple[set[str], set[str]]:
    """Names of resources and of kinds that other definitions of the group hold."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != crd["spec"]["group"] or other["metadata"]["name"] == crd["metadata"].get("name"):
            continue
        held = (other.get("status") or {}).get("acceptedNames") or {}
        resources.update((held.get("plural") or "", held.get("singular") or "", *(held.get("shortNames") or ())))
        kinds.update((held.get("kind") or "", held.get("listKind") or ""))
    return resources - {""}, kinds - {""}


def _conflict(wanted: str | list[str] | None, held: str | list[str] | None, taken: set[str]) -> str:
    if not wanted or wanted == held:
        return ""
    if isinstance(wanted, str):
        return f'"{wanted}" is already in use' if wanted in taken else ""
    fresh = [name for name in wanted if name not in (held or ()) and name in taken]
    messages = [f'"{name}" is already in use' for name in fresh]
    return messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]" if messages else ""
