"""How large a document may be before anything else is done with it.

All walks over documents are recursive, so their depth must be bounded where documents come in, or a few kilobytes of
brackets end in a RecursionError, or in a crash of the interpreter. Real objects are about 20 levels deep, the deepest
published definitions of custom resources about 80. The number of values bounds what a body can cost: three megabytes of
`[0,0,0,...` are a million and a half values, each of which is visited by every step of a write. And walks write out the
path that they are at, so a key of a megabyte above a hundred thousand items would be copied a hundred thousand times:
the length of paths is bounded, too.
"""

from typing import Final

from kohort.objects.json_types import Json

MAX_DEPTH: Final = 200
"""Objects and lists inside of each other, in any document that a client sends."""
MAX_VALUES: Final = 500_000
"""Objects, lists and scalars in one document."""
MAX_PATH: Final = 8192
"""Characters of all keys on the way to an object or list that is not empty."""
SMALL_BODY: Final = 64 * 1024
"""Bytes of a body in which long paths do no harm."""


class ExcessiveDocument(ValueError):
    """A document is beyond one of the limits; the message says which."""


def check_text(body: bytes, value: Json) -> None:
    """Check the value of a text. Raises ExcessiveDocument.

    Counting a few bytes is enough for most bodies: a text cannot be deeper than it has opening brackets.
    """
    if len(body) > SMALL_BODY or body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        check_value(value)


def check_value(value: Json) -> None:
    """Check a value, level by level. Raises ExcessiveDocument."""
    level: list[tuple[Json, int]] = [(value, 0)] if type(value) in _CONTAINERS else []
    depth, count = 0, 1
    while level:
        if depth == MAX_DEPTH:
            raise ExcessiveDocument("exceeded max depth")
        depth += 1
        below: list[tuple[Json, int]] = []
        for one, path in level:
            count += len(one)
            if path > MAX_PATH and one:
                raise ExcessiveDocument(f"the path of a field must have at most {MAX_PATH} characters")
            if type(one) is dict:
                below += [(inner, path + len(key)) for key, inner in one.items() if type(inner) in _CONTAINERS]
            else:
                below += [(inner, path) for inner in one if type(inner) in _CONTAINERS]
        if count > MAX_VALUES:
            raise ExcessiveDocument(f"must have at most {MAX_VALUES} values")
        level = below


_CONTAINERS: Final = frozenset({dict, list})
