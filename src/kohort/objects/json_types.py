"""JSON as Python sees it.

The API server works on whole objects whose shape is only known at run time, so they stay plain dictionaries.
These two aliases are the only use of `Any`; code that knows the shape of an object uses a typed view.
"""

from collections.abc import Hashable
from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]


def identical(one: Json, other: Json) -> bool:
    """Equal as JSON: Python takes `true` for 1 and 1.0 for 1, JSON does not."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(identical(value, other[key]) for key, value in one.items())
    if type(one) is list:
        return len(one) == len(other) and all(map(identical, one, other))
    return bool(one == other)


def hashable(value: Json) -> Hashable:
    """A form of a value that can be looked up in sets and dictionaries, equal for equal values."""
    if type(value) is dict or type(value) is list:
        return msgspec.json.encode(value, order="deterministic")
    return (value,) if type(value) is bool else value
