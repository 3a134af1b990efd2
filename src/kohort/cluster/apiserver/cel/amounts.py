"""Numbers of an estimate: sizes between a least and a most, costs that stop growing at the largest there is."""

import math
from typing import Final, NamedTuple

LIMITLESS: Final = 2**64 - 1
TEXT: Final = 0.1
PATTERN: Final = 0.25
NEW_LIST: Final = 10
NEW_MAP: Final = 30
NEW_STRUCT: Final = 40
NAME_PATTERN: Final = 128
SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


class Size(NamedTuple):
    least: int
    most: int

    def union(self, other: "Size") -> "Size":
        return Size(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: "Size") -> "Size":
        return Size(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: "Size") -> "Size":
        return Size(capped(self.least * other.least), capped(self.most * other.most))


UNKNOWN: Final = Size(0, LIMITLESS)


class ElementSizes(NamedTuple):
    """Sizes of the keys (or positions) and the values of a list or map."""

    kind: str
    key: Size
    value: Size


class LocalVariable(NamedTuple):
    path: tuple[str, ...]
    size: Size | None
    entry: ElementSizes | None


def capped(value: int) -> int:
    return min(value, LIMITLESS)


def scaled(value: int, factor: float) -> int:
    scaled = value * factor
    return LIMITLESS if scaled >= LIMITLESS else math.ceil(scaled)


def fixed(value: int) -> Size:
    return Size(value, value)
