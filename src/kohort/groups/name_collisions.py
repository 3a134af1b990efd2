"""Sets whose objects would have the same names.

Set `a` has for its group 1 a StatefulSet `a-1` (and perhaps a Service), with pods `a-1-1`, `a-1-2` and so on. Set `a-1`
has a StatefulSet and a Service `a-1`, with pods `a-1-0`, `a-1-1`. They cannot both exist. Whether they meet depends on
how many groups `a` may have, surge included, and on whether its groups have anything but a leader:

| set `a` | set `a-<k>` is refused when |
|---|---|
| size above 1, or a subdomain per replica | k < replicas + surge |
| size 1, shared subdomain | never |
"""

from collections.abc import Iterable

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_identity import leader_name, parse_pod_name


def collision_errors(document: JsonObject, others: Iterable[LeaderWorkerSet]) -> list[FieldError]:
    """With the sets of the same namespace."""
    metadata = {key: value for key, value in document["metadata"].items() if key in ("name", "uid", "annotations")}
    new = msgspec.convert({"metadata": metadata, "spec": document["spec"]}, LeaderWorkerSet)
    found: list[FieldError] = []
    for other in others:
        for outer, inner in ((new, other), (other, new)):
            index = _group_named(outer, inner.metadata.name)
            if index is not None and other.metadata.name != new.metadata.name:
                found.append(field_errors.invalid("metadata.name", new.metadata.name, _text(new, other, outer, index)))
    return found


def _group_named(outer: LeaderWorkerSet, name: str) -> int | None:
    """The group of a set whose objects have this name."""
    parsed = parse_pod_name(name)
    if parsed is None or leader_name(outer.metadata.name, parsed.ordinal) != name:
        return None
    has_objects = outer.template.size > 1 or outer.subdomain_policy == group_labels.UNIQUE
    return parsed.ordinal if has_objects and parsed.ordinal < outer.replicas + outer.surge else None


def _text(new: LeaderWorkerSet, other: LeaderWorkerSet, outer: LeaderWorkerSet, index: int) -> str:
    shared = leader_name(outer.metadata.name, index)
    whose = "its" if outer is new else "that set's"
    return (
        f"collides with LeaderWorkerSet {other.metadata.name}: {whose} group {index} needs objects named {shared}; "
        "choose a name that does not end in the number of a group"
    )
