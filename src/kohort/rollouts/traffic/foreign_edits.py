"""Keeps edits that other clients made to an object while a release had changed it.

Three documents are known: the object before the release (*original*), what the release wrote (*written*), and what it
is now (*live*). What differs between written and live was edited by another client and is carried over to the
original; all else of the original comes back as it was.

| live                     | result                                                                     |
|--------------------------|----------------------------------------------------------------------------|
| as written               | the original                                                               |
| as in the original       | the original: a client applied its manifest again                          |
| never touched by us      | live                                                                       |
| both changed a table     | member by member                                                           |
| both changed a list      | element by element: ours go, changed ones come back, those of others stay  |
| both changed a value     | live: the last word was theirs                                             |
"""

from typing import Final

from kohort.objects.json_types import Json


class _Absent:
    """A member that is not there; None is a value."""


ABSENT: Final = _Absent()
Member = Json | _Absent


def rebased(original: Json, written: Json, live: Json) -> Json:
    """The original with the edits of others."""
    result = _merged(original, written, live)
    return None if isinstance(result, _Absent) else result


def _merged(original: Member, written: Member, live: Member) -> Member:
    if live in (written, original):
        return original
    if written == original:
        return live
    if isinstance(original, dict) and isinstance(written, dict) and isinstance(live, dict):
        return _tables(original, written, live)
    if isinstance(original, list) and isinstance(written, list) and isinstance(live, list):
        return _lists(original, written, live)
    return live


def _tables(original: dict[str, Json], written: dict[str, Json], live: dict[str, Json]) -> Json:
    names = [*live, *(name for name in original if name not in live)]
    merged = {
        name: _merged(original.get(name, ABSENT), written.get(name, ABSENT), live.get(name, ABSENT)) for name in names
    }
    return {name: value for name, value in merged.items() if not isinstance(value, _Absent)}


def _lists(original: list[Json], written: list[Json], live: list[Json]) -> Json:
    if len(original) == len(written) == len(live):
        return [_element(*three) for three in zip(original, written, live, strict=True)]
    # Elements were added or removed, by another client or by us: each is looked up by its value.
    aligned = len(original) == len(written)
    result = []
    for element in live:
        if element in original or element not in written:
            result.append(element)
        elif aligned:
            result.append(original[written.index(element)])
    return result


def _element(original: Json, written: Json, live: Json) -> Json:
    merged = _merged(original, written, live)
    return live if isinstance(merged, _Absent) else merged
