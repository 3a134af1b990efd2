"""Which fields an object claims, and how two versions of it differ.

Two different sets describe one object, and users see both. `claimed` is what an intent owns: its leaves, items and map
entries, but not the structs on the way to them. `differences` lists everything that changed: a struct that was not
there before is itself a change. Null counts as an empty value of whatever kind the field has, and fields that are
written as null when they are not set count as present even if they are absent.
"""

from functools import lru_cache
from typing import Final

from kohort.cluster.apiserver.apply.empty_object import always_null
from kohort.cluster.apiserver.apply.fieldset import EMPTY, SELF, FieldSet, json_text
from kohort.cluster.apiserver.apply.ownership_schema import elements, entry_node, is_leaf, repeated
from kohort.cluster.apiserver.schema.node import ANY, Node
from kohort.objects.bounded_cache import LONGEST
from kohort.objects.json_types import Json, JsonObject


class Differences:
    """What a new version of an object wrote (added or changed) and what it removed."""

    __slots__ = ("removed", "written")

    def __init__(self, written: FieldSet, removed: FieldSet) -> None:
        self.written = written
        self.removed = removed


def claimed(value: JsonObject, node: Node) -> FieldSet:
    """The set that an applied object owns."""
    return _claim_map(value, node) or EMPTY


def _claim(value: Json, node: Node) -> FieldSet | None:
    """The node of one value; None when neither it nor anything below it is claimed on its own account."""
    if is_leaf(node):
        return EMPTY
    if isinstance(value, dict):
        return _claim_map(value, node)
    if isinstance(value, list) and node.type == "array":
        return _claim_items(value, node)
    return None if value is None else EMPTY


def _claim_map(value: JsonObject, node: Node) -> FieldSet | None:
    declared = node.fields if node.type == "object" else {}
    result: FieldSet = {}
    for key, entry in value.items():
        field = declared.get(key)
        claim = _claim(entry, field or entry_node(node, key))
        if field is None or entry is None or entry == {}:
            claim = _as_member(claim)
        if claim is not None:
            result["f:" + key] = claim
    return result or None


def _claim_items(value: list[Json], node: Node) -> FieldSet | None:
    names = elements(value, node)
    twice = repeated(names)
    result: FieldSet = {}
    for name, entry in zip(names, value, strict=True):
        result[name] = EMPTY if name in twice else _as_member(_claim(entry, node.items))
    return result or None


def _as_member(claim: FieldSet | None) -> FieldSet:
    return {SELF: EMPTY, **claim} if claim else EMPTY


def differences(old: JsonObject, new: JsonObject, node: Node) -> Differences:
    written, removed = _compare_maps(old, new, node)
    return Differences(written or EMPTY, removed or EMPTY)


_Changes = tuple[FieldSet | None, FieldSet | None]
_NONE: Final[_Changes] = (None, None)
_WRITTEN: Final[_Changes] = (EMPTY, None)


def _whole(value: Json, node: Node) -> FieldSet:
    """A value that is there on one side only: itself and everything below it.

    This is where the time of a create goes. Most fields are scalars, which need no look at the schema, and most maps
    hold nothing but scalars (an environment variable, a mount), so that maps with the same keys can share one set.
    """
    if not value or is_leaf(node):
        return EMPTY
    if value.__class__ is dict:
        unwritten = always_null(node)
        if not unwritten:
            for entry in value.values():
                if entry.__class__ in _NESTED:
                    break
            else:
                return _flat(tuple(value))
        result: FieldSet = {SELF: EMPTY}
        for key in unwritten:
            result["f:" + key] = EMPTY
        fields = node.fields
        fallback = node.items
        for key, entry in value.items():
            if entry and entry.__class__ in _NESTED:
                result["f:" + key] = _whole(entry, fields.get(key, fallback))
            else:
                result["f:" + key] = EMPTY
        return result
    if value.__class__ is list and node.type == "array":
        names = elements(value, node)
        items = node.items
        result = {SELF: EMPTY}
        for name, entry in zip(names, value, strict=True):
            result[name] = _whole(entry, items)
        if len(result) <= len(names):
            result.update((name, EMPTY) for name in repeated(names))
        return result
    return EMPTY


_NESTED: Final = frozenset({dict, list})


def _flat(keys: tuple[str, ...]) -> FieldSet:
    """The set of all keys of a flat map. Small maps, such as the labels of pods, come again and again."""
    small = len(keys) <= _SMALL_MAP and max(map(len, keys), default=0) <= LONGEST
    return _kept_flat(keys) if small else _new_flat(keys)


def _new_flat(keys: tuple[str, ...]) -> FieldSet:
    return {SELF: EMPTY, **{"f:" + key: EMPTY for key in keys}}


_SMALL_MAP: Final = 32
_kept_flat: Final = lru_cache(maxsize=4096)(_new_flat)


def _compare(old: Json, new: Json, node: Node) -> _Changes:
    """Two values of one field, both present."""
    if is_leaf(node):
        return _NONE if same(old, new) else _WRITTEN
    if isinstance(old, dict) or isinstance(new, dict):
        return _compare_as_maps(old, new, node)
    if node.type == "array" and (old or new):
        return _compare_items(old or [], new or [], node)
    return _NONE if same(old, new) else _WRITTEN


def _compare_as_maps(old: Json, new: Json, node: Node) -> _Changes:
    """At least one is a map; without a schema the other may be anything."""
    before = old if isinstance(old, dict) else {}
    after = new if isinstance(new, dict) else {}
    if not before and not after:
        return _NONE if old == new else _WRITTEN
    written, removed = _compare_maps(before, after, node)
    replaced = not isinstance(old, dict | None) or not isinstance(new, dict | None)
    return (_as_member(written) if replaced else written), removed


def _compare_maps(old: JsonObject, new: JsonObject, node: Node) -> _Changes:
    written: FieldSet = {}
    removed: FieldSet = {}
    unwritten = always_null(node)
    fields = node.fields
    fallback = node.items if node.type == "map" else ANY
    for key, before in old.items():
        if key in new or key in unwritten:
            after = new.get(key)
            if before is after or unchanged(before, after, node):
                continue
            added, gone = _compare(before, after, fields.get(key, fallback))
            if added is not None:
                written["f:" + key] = added
            if gone is not None:
                removed["f:" + key] = gone
        else:
            removed["f:" + key] = _whole(before, fields.get(key, fallback))
    for key, after in new.items():
        if key not in old:
            if key not in unwritten:
                entire = _whole(after, fields.get(key, fallback)) if after.__class__ in _NESTED else EMPTY
                written["f:" + key] = entire
            elif (added := _compare(None, after, fields.get(key, fallback))[0]) is not None:
                written["f:" + key] = added
    return written or None, removed or None


def _compare_items(old: list[Json], new: list[Json], node: Node) -> _Changes:
    old_names, new_names = elements(old, node), elements(new, node)
    before, after = dict(zip(old_names, old, strict=True)), dict(zip(new_names, new, strict=True))
    if len(before) != len(old) or len(after) != len(new):
        return _compare_repeated(_grouped(old_names, old), _grouped(new_names, new), node)
    written: FieldSet = {}
    removed: FieldSet = {}
    items = node.items
    for name, entry in before.items():
        if name not in after:
            removed[name] = _whole(entry, items)
        elif not unchanged(entry, after[name], items):
            added, gone = _compare(entry, after[name], items)
            if added is not None:
                written[name] = added
            if gone is not None:
                removed[name] = gone
    for name, entry in after.items():
        if name not in before:
            written[name] = _whole(entry, items)
    return written or None, removed or None


def _grouped(names: list[str], items: list[Json]) -> dict[str, list[Json]]:
    groups: dict[str, list[Json]] = {}
    for name, entry in zip(names, items, strict=True):
        groups.setdefault(name, []).append(entry)
    return groups


def _compare_repeated(before: dict[str, list[Json]], after: dict[str, list[Json]], node: Node) -> _Changes:
    """Lists in which several items have the same key: those items are owned as one."""
    written: FieldSet = {}
    removed: FieldSet = {}
    for name in {**before, **after}:
        old, new = before.get(name, []), after.get(name, [])
        if len(old) > 1 and len(new) > 1:
            if old != new:
                written[name] = EMPTY
        elif len(old) > 1:
            removed[name] = EMPTY
            if new:
                written[name] = _whole(new[0], node.items)
        elif len(new) > 1:
            written[name] = EMPTY
            if old:
                removed[name] = _whole(old[0], node.items)
        elif not new:
            removed[name] = _whole(old[0], node.items)
        elif not old:
            written[name] = _whole(new[0], node.items)
        else:
            added, gone = _compare(old[0], new[0], node.items)
            if added is not None:
                written[name] = added
            if gone is not None:
                removed[name] = gone
    return written or None, removed or None


def unchanged(before: Json, after: Json, parent: Node) -> bool:
    """Whether two values of a field are certainly the same, without looking into them.

    To Python 1 and true are equal. Types of built-in kinds fix which one a field has; elsewhere the texts decide.
    """
    if before != after or before.__class__ is not after.__class__:
        return False
    return bool(parent.name) or before.__class__ not in _NESTED or json_text(before) == json_text(after)


def same(left: Json, right: Json) -> bool:
    """Equality of values, where 1 and 1.0 are one number but true is none."""
    if left.__class__ is not right.__class__ and bool in (left.__class__, right.__class__):
        return False
    return bool(left == right)
