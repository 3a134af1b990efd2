"""Every way in which one value of an object can be wrong.

A mutation is a path and an operation. From one specimen come a few hundred requests, each of which breaks at most one
thing, so what the server says about it is the rule for that one field.
"""

import copy
import re
from collections.abc import Iterator
from typing import Final

from kohort.objects.json_types import Json, JsonObject

Path = tuple[str | int, ...]

LONG: Final = "a" * 300
_TEXTS: Final = ("", "Bad Name!", LONG)
_NUMBERS: Final = (-1, 0, 70_000)
_AMOUNTS: Final = ("0", "-1")
_PERCENTS: Final = ("0%", "101%")
_is_amount = re.compile(r"[0-9.]+(Ki|Mi|Gi|m)?").fullmatch


def mutations(part: Json, path: Path = ()) -> Iterator[tuple[Path, str, Json]]:
    """(path, operation, value); the operations are `remove`, `repeat` (the first entry of a list) and `set`."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part):
        here = (*path, key)
        if here in (("apiVersion",), ("kind",)):
            continue
        yield here, "remove", None
        if isinstance(value, dict):
            yield here, "set", {}
            yield from mutations(value, here)
        elif isinstance(value, list):
            yield here, "set", []
            if value:
                yield here, "repeat", None
            yield from mutations(value, here)
        else:
            yield from ((here, "set", other) for other in _others(value))


def _others(value: Json) -> tuple[Json, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return _NUMBERS
    if isinstance(value, str):
        more = _AMOUNTS if _is_amount(value) else _PERCENTS if value.endswith("%") else ()
        return (*_TEXTS, *more)
    return ()


def mutated(specimen: JsonObject, path: Path, operation: str, value: Json) -> JsonObject:
    obj = copy.deepcopy(specimen)
    holder: Json = obj
    for key in path[:-1]:
        holder = holder[key]
    last = path[-1]
    if operation == "remove":
        del holder[last]
    elif operation == "repeat":
        holder[last] = [*holder[last], copy.deepcopy(holder[last][0])]
    else:
        holder[last] = value
    return obj


def shown(path: Path, operation: str, value: Json) -> str:
    """A mutation in one short text, which is also its name in the recorded answers."""
    where = ".".join(str(key) for key in path)
    if operation != "set":
        return f"{operation} {where}"
    return f"{where} = {'long' if value == LONG else value!r}"
