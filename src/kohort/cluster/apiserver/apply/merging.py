"""Merging an intent into the live object by schema, and taking fields out again."""

from collections.abc import Iterator

from kohort.cluster.apiserver.apply.field_comparison import unchanged
from kohort.cluster.apiserver.apply.fieldset import SELF, FieldSet
from kohort.cluster.apiserver.apply.ownership_schema import elements, entry_node, is_leaf, repeated
from kohort.cluster.apiserver.schema.node import Node
from kohort.objects.json_types import Json, JsonObject


def merged(live: JsonObject, intent: JsonObject, node: Node) -> JsonObject:
    """The live object with everything that the intent says. Nothing is removed."""
    return _merge_maps(live, intent, node)


def _merge(live: Json, intent: Json, node: Node) -> Json:
    if is_leaf(node):
        return intent
    if isinstance(live, dict) and live and (intent is None or isinstance(intent, dict)):
        return _merge_maps(live, intent, node) if intent else live
    if isinstance(live, list) and live and node.type == "array":
        return _merge_items(live, intent, node) if intent else live
    return intent


def _merge_maps(live: JsonObject, intent: JsonObject, node: Node) -> JsonObject:
    result = dict(live)
    for key, value in intent.items():
        if key not in live:
            result[key] = value
        elif not unchanged(live[key], value, node):
            result[key] = _merge(live[key], value, entry_node(node, key))
    return result


def _merge_items(live: list[Json], intent: list[Json], node: Node) -> list[Json]:
    """Shared items in the order of the intent; items that only one side has stay behind their predecessor there."""
    live_names, intent_names = elements(live, node), elements(intent, node)
    twice = repeated(live_names)
    known = dict(zip(live_names, live, strict=True))
    wanted = dict(zip(intent_names, intent, strict=True))

    def combined(name: str) -> Json:
        if name not in known or name in twice:
            return wanted[name]
        return _merge(known[name], wanted[name], node.items)

    return [
        live[position] if position is not None else combined(name)
        for name, position in _merged_order(live_names, intent_names)
    ]


def _merged_order(live: list[str], intent: list[str]) -> Iterator[tuple[str, int | None]]:
    """The names of both lists in their merged order; items that only the live list has come with their position."""
    alive, wanted = set(live), set(intent)
    shared = iter([name for name in intent if name in alive])
    turn = next(shared, None)
    taken = 0
    for position, name in enumerate(live):
        if name not in wanted:
            yield name, position
        elif name == turn:
            upto = intent.index(name, taken) + 1
            yield from ((other, None) for other in intent[taken:upto])
            taken = upto
            turn = next(shared, None)
    yield from ((name, None) for name in intent[taken:])


def removed(value: JsonObject, node: Node, unwanted: FieldSet) -> JsonObject:
    """The object without the fields and items of a set. What becomes empty on the way becomes null."""
    return _remove(value, node, unwanted) or {}


def _remove(value: Json, node: Node, unwanted: FieldSet) -> Json:
    if isinstance(value, dict) and not is_leaf(node):
        entries: JsonObject = {}
        for key, entry in value.items():
            mark = unwanted.get("f:" + key)
            if mark is None:
                entries[key] = entry
            elif mark and SELF not in mark:
                entries[key] = _remove(entry, entry_node(node, key), mark)
        return entries or None
    if isinstance(value, list) and not is_leaf(node) and node.type == "array":
        kept: list[Json] = []
        for name, entry in zip(elements(value, node), value, strict=True):
            mark = unwanted.get(name)
            if mark is None:
                kept.append(entry)
            elif mark and SELF not in mark:
                kept.append(_remove(entry, node.items, mark))
        return kept or None
    return None if isinstance(value, dict | list) else value
