"""Strategic merge patch: a merge patch that knows which lists are collections of named things.

What a field means is written on its node: `patch_strategy` says whether a list or map is merged or replaced,
`merge_key` names the field that identifies the items of a list. The patch may carry directives:

| directive                          | effect |
|------------------------------------|--------|
| `$patch: replace` in a map         | the map becomes the rest of the patch |
| `$patch: delete` in a map          | the map becomes empty |
| `{key: v, $patch: delete}`         | items with that key leave the list |
| `{$patch: replace}` in a list      | the list becomes the other items of the patch |
| `$retainKeys: [..]`                | keys of the live map that are not listed are dropped first |
| `$deleteFromPrimitiveList/f: [..]` | scalars leave the list `f` |
| `$setElementOrder/f: [..]`         | the final order of the list `f` |

Order of a merged list: the items of the patch keep the order of the patch (or of `$setElementOrder`), the items that
only the server has keep theirs, and the two are interleaved by the positions they had on the server.

Values of a patch that replace something are taken as they are, directives and nulls included; only where a value goes
to a place that was empty are they cleaned. Decoding reports the leftovers as unknown fields. That is how Kubernetes
behaves, and strict validation reports such patches to their clients.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from kohort.cluster.apiserver.patch.go_error_text import cannot_unmarshal, does_not_apply, go_text, go_type, refused
from kohort.cluster.apiserver.schema.node import Node
from kohort.kube.errors import ApiError, bad_request
from kohort.objects.json_types import Json, JsonObject, hashable

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
DELETE_FROM_LIST: Final = "$deleteFromPrimitiveList"
ELEMENT_ORDER: Final = "$setElementOrder"

_NO_METADATA: Final = Node("any")


def apply(document: JsonObject, patch: Json, node: Node) -> JsonObject:
    if patch is None:
        return document
    if not isinstance(patch, dict):
        raise cannot_unmarshal(patch, "value of type map[string]interface {}")
    return _merge_map(document, patch, node)


def _merge_map(live: JsonObject, patch: JsonObject, node: Node) -> JsonObject:
    if DIRECTIVE in patch:
        return _whole_map(patch)
    result = _retained(live, patch)
    for key, value in _ordinary_fields(result, patch, node):
        _merge_field(result, key, value, node.field(key) or _NO_METADATA)
    return result


def _ordinary_fields(result: JsonObject, patch: JsonObject, node: Node) -> Iterable[tuple[str, Json]]:
    """The fields of a patch that are left when its directives have been carried out. Most patches have none."""
    if not any(key[0] == "$" for key in patch if key):
        return patch.items()
    pending = {key: value for key, value in patch.items() if key != RETAIN_KEYS}
    for key in [key for key in pending if key.startswith(ELEMENT_ORDER)]:
        _merge_ordered_list(result, pending, key, node)
    for key in [key for key in pending if key.startswith(DELETE_FROM_LIST)]:
        _delete_from_list(result, _list_name(key, "invalid patch format of primitive list"), pending.pop(key))
    return pending.items()


def _whole_map(patch: JsonObject) -> JsonObject:
    match patch[DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != DIRECTIVE}
        case "delete":
            return {}
    raise _unknown_directive(patch)


def _retained(live: JsonObject, patch: JsonObject) -> JsonObject:
    """A copy of the live map, without what `$retainKeys` does not list."""
    if RETAIN_KEYS not in patch:
        return dict(live)
    keep = patch[RETAIN_KEYS]
    if not isinstance(keep, list) or not _names_only(patch, keep):
        raise bad_request("invalid patch format of retainKeys")
    kept = set(map(hashable, keep))
    return {key: value for key, value in live.items() if key in kept}


def _names_only(patch: JsonObject, keep: list[Json]) -> bool:
    kept = set(map(hashable, keep))
    return all(
        key in kept
        for key, value in patch.items()
        if value is not None and key != RETAIN_KEYS and not key.startswith((DELETE_FROM_LIST, ELEMENT_ORDER))
    )


def _merge_field(result: JsonObject, key: str, value: Json, node: Node) -> None:
    if value is None:
        result.pop(key, None)
        return
    live = result.get(key)
    if isinstance(live, dict) and isinstance(value, dict):
        result[key] = value if "replace" in node.patch_strategy else _merge_map(live, value, node)
    elif isinstance(live, list) and isinstance(value, list):
        result[key] = _merge_list(live, value, node) if "merge" in node.patch_strategy else value
    else:
        _set_cleaned(result, key, value)


def _set_cleaned(result: JsonObject, key: str, value: Json) -> None:
    """Put a value where nothing of its kind was."""
    if value.__class__ not in _NESTED:
        result[key] = value
    elif _is_directive(value):
        result.pop(key, None)
    else:
        result[key] = _cleaned(value)


_NESTED: Final = frozenset({dict, list})


def _cleaned(value: Json) -> Json:
    """What a value leaves where nothing was: no nulls, except as elements of lists, and no directives."""
    if value.__class__ is dict:
        return {
            key: _cleaned(item) if item.__class__ in _NESTED else item
            for key, item in value.items()
            if item is not None and not _directs(item)
        }
    return [_cleaned(item) if item.__class__ in _NESTED else item for item in value if not _directs(item)]


def _directs(value: Json) -> bool:
    """Whether a value is a directive; one that is null has been removed before."""
    return value.__class__ is dict and value.get(DIRECTIVE) is not None


def _without_directives(value: Json) -> Json:
    if value.__class__ is dict:
        return {
            key: _without_directives(item) if item.__class__ in _NESTED else item
            for key, item in value.items()
            if not _is_directive(item)
        }
    if value.__class__ is list:
        return [_without_directives(item) for item in value if not _is_directive(item)]
    return value


def _is_directive(value: Json) -> bool:
    return isinstance(value, dict) and DIRECTIVE in value


def _delete_from_list(result: JsonObject, key: str, unwanted: Json) -> None:
    if unwanted is None:
        result.pop(key, None)
        return
    live = result.get(key)
    if not isinstance(live, list) or not isinstance(unwanted, list) or not (live or unwanted):
        return
    _check_elements(live, unwanted)
    gone = set(map(hashable, unwanted))
    result[key] = [item for item in live if hashable(item) not in gone]


def _merge_list(live: list[Json], patch: list[Json], node: Node) -> list[Json]:
    if not live and not patch:
        return live
    if not _check_elements(live, patch):
        return _interleaved(_distinct([*live, *patch]), patch, live, _itself)
    kept, items = _directives_carried_out(live, patch, _merge_key(node))
    return _interleaved(_merge_items(kept, items, node), items, kept, _key_reader(node.merge_key))


def _merge_key(node: Node) -> str:
    if not node.merge_key:
        raise refused("cannot merge lists without merge key for struct")
    return node.merge_key


def _merge_items(live: list[Json], patch: list[Json], node: Node) -> list[Json]:
    """Items of the patch merged into those with the same key, the new ones at the end."""
    key_of = _key_reader(node.merge_key)
    merged = list(live)
    places = _first_places(item.get(node.merge_key) for item in merged)
    for item in patch:
        key = hashable(key_of(item))
        position = places.get(key, -1)
        if position < 0:
            places[key] = len(merged)
            merged.append(item)
        else:
            merged[position] = _merge_map(merged[position], item, node.items)
    return merged


def _directives_carried_out(live: list[Json], patch: list[Json], merge_key: str) -> tuple[list[Json], list[Json]]:
    """The live list after deletions or replacement, and the items of the patch that are left to merge."""
    items = [item for item in patch if DIRECTIVE not in item]
    replaced = False
    deleted: set[Hashable] = set()
    for item in patch:
        match item.get(DIRECTIVE, ""):
            case "":
                pass
            case "replace":
                replaced = True
            case "delete":
                if merge_key not in item:
                    raise _no_merge_key(item, merge_key)
                deleted.add(hashable(item[merge_key]))
            case "merge":
                raise refused("merging lists cannot yet be specified in the patch")
            case _:
                raise _unknown_directive(item)
    if deleted:
        live = [other for other in live if hashable(other.get(merge_key)) not in deleted]
    return (items, []) if replaced else (live, items)


def _merge_ordered_list(result: JsonObject, pending: JsonObject, directive: str, node: Node) -> None:
    """Merge the list that a `$setElementOrder` directive speaks of, and put it into that order."""
    order = _as_list(pending.pop(directive))
    key = _list_name(directive, "invalid patch format of setElementOrder list")
    field = node.field(key) or _NO_METADATA
    live = _as_list(result[key]) if key in result else None
    patch = _as_list(pending.pop(key)) if key in pending else None
    _check_order(patch or [], order, field.merge_key)
    if live is None and patch is None:
        return
    if not live and not patch:
        raise refused("no elements in any of the given slices")
    if patch is None:
        merged = live or []
    elif live is None:
        merged = _without_directives(patch)
    else:
        merged = _merge_list(live, patch, field) if "merge" in field.patch_strategy else patch
    key_of = _key_reader(field.merge_key) if field.merge_key else _itself
    result[key] = _interleaved(merged, order, _places(live or [], patch or [], field), key_of)


def _places(live: list[Json], patch: list[Json], node: Node) -> list[Json]:
    """The server's order as the directive sees it: new items have taken the places that deleted ones left."""
    if not node.merge_key or not live or not patch:
        return live
    kept, items = _directives_carried_out(live, patch, node.merge_key)
    if not items:
        return live
    known = {hashable(item.get(node.merge_key)) for item in kept}
    new = [item for item in items if hashable(item.get(node.merge_key)) not in known]
    return [*kept, *new[: len(live) - len(kept)]]


def _check_order(patch: list[Json], order: list[Json], merge_key: str) -> None:
    """The items of the patch must appear in the wanted order, in that order."""
    if not order or not patch:
        return
    key_of = _key_reader(merge_key) if merge_key else _itself
    wanted = [hashable(key_of(item)) for item in order]
    reached = 0
    for item in patch:
        if _is_directive(item):
            fits = item[DIRECTIVE] == "delete" or reached < len(wanted)
        else:
            key = hashable(key_of(item))
            while reached < len(wanted) and wanted[reached] != key:
                reached += 1
            fits = reached < len(wanted)
            reached += 1
        if not fits:
            raise refused(
                f"The order in patch list:\n{go_text(patch)}\n doesn't match {ELEMENT_ORDER} list:\n{go_text(order)}\n"
            )


KeyReader = Callable[[Json], Json]


def _interleaved(merged: list[Json], order: list[Json], server_order: list[Json], key_of: KeyReader) -> list[Json]:
    """Items named by `order` in that order, the others in the server's, woven together by the server's positions."""
    wanted, before = _first_places(map(key_of, order)), _first_places(map(key_of, server_order))
    keys = [hashable(key_of(item)) for item in merged]
    ranks, places = [wanted.get(key, -1) for key in keys], [before.get(key, -1) for key in keys]
    named = sorted((index for index, rank in enumerate(ranks) if rank >= 0), key=ranks.__getitem__)
    server_only = sorted((index for index, rank in enumerate(ranks) if rank < 0), key=places.__getitem__)
    woven: list[int] = []
    left = 0
    for index in named:
        while left < len(server_only) and 0 <= places[server_only[left]] < places[index]:
            woven.append(server_only[left])
            left += 1
        woven.append(index)
    return [merged[index] for index in woven + server_only[left:]]


def _first_places(keys: Iterable[Json]) -> dict[Hashable, int]:
    """Where each key comes first."""
    places: dict[Hashable, int] = {}
    for place, key in enumerate(keys):
        places.setdefault(hashable(key), place)
    return places


def _itself(item: Json) -> Json:
    return item


def _key_reader(merge_key: str) -> KeyReader:
    def key_of(item: Json) -> Json:
        if not isinstance(item, dict):
            raise refused(f"expected a map[string]interface {{}}, but received a {go_type(item)}")
        if merge_key not in item:
            raise _no_merge_key(item, merge_key)
        return item[merge_key]

    return key_of


def _distinct(items: list[Json]) -> list[Json]:
    return list({hashable(item): item for item in reversed(items)}.values())[::-1]


def _check_elements(live: list[Json], patch: list[Json]) -> bool:
    """True for lists of maps, False for lists of scalars; both lists must agree and must not contain lists."""
    items = [*live, *patch]
    if isinstance(items[0], list):
        raise does_not_apply()
    if any(type(item) is not type(items[0]) for item in items):
        raise refused(f"list element types are not identical: [{go_text(live)} {go_text(patch)}]")
    return isinstance(items[0], dict)


def _as_list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise refused(f"expected a []interface {{}}, but received a {go_type(value)}")
    return value


def _list_name(directive: str, complaint: str) -> str:
    prefix, slash, name = directive.partition("/")
    if not slash or prefix not in (DELETE_FROM_LIST, ELEMENT_ORDER):
        raise bad_request(complaint)
    return name


def _no_merge_key(item: JsonObject, merge_key: str) -> ApiError:
    return refused(f"map: {go_text(item)} does not contain declared merge key: {merge_key}")


def _unknown_directive(item: JsonObject) -> ApiError:
    return refused(f"unknown patch type: {go_text(item[DIRECTIVE])} in map: {go_text(item)}")
