"""Keeps equal parts of cached objects once.

The pods of a set differ in their names and addresses; their containers, volumes, tolerations and conditions are the
same, thousands of times over, and are most of their size. A cache that keeps one copy of each needs about a third of
the memory (figures: bench/informer_cache.py).

Views are immutable, so parts can be shared. Candidates are the lists, dictionaries and structures
directly inside `metadata`, `spec` and `status` (or the object itself). Whether interning a field pays is measured:
a field whose values are mostly unique is skipped from then on. Equality is equality of the
encoded bytes, because dictionaries inside have no hash.
"""

import types
import typing
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import TypeAlias, Union

import msgspec

from kohort.objects.json_types import Json

_TRIAL = 256
"""Values after which a field is judged: it is skipped if less than half of them were seen before."""
_REMEMBERED = 512
_COLLECTIONS = (tuple, list, dict, frozenset)


class _Field:
    __slots__ = ("hits", "known", "name", "section", "tries")

    def __init__(self, section: str, name: str) -> None:
        self.section = section
        """Empty for a field of the object itself."""
        self.name = name
        self.known: dict[bytes, Json] = {}
        self.hits = 0
        self.tries = 0

    def intern(self, owner: Json, value: Json, encoded: bytes) -> None:
        self.tries += 1
        found = self.known.get(encoded)
        if found is not None:
            self.hits += 1
            msgspec.structs.force_setattr(owner, self.name, found)
            return
        if len(self.known) >= _REMEMBERED:
            self.known.clear()
        self.known[encoded] = value

    @property
    def useless(self) -> bool:
        return self.tries >= _TRIAL and self.hits * 2 < self.tries


class ValueInterner:
    """The interned parts of the objects of one store."""

    def __init__(self, view: Json) -> None:
        self._fields = [_Field(section, name) for section, name in _candidates(view)]
        self._sections = _by_section(self._fields)
        self._encode = msgspec.msgpack.Encoder().encode
        self._judged = 0

    def intern(self, obj: Json) -> None:
        """Replace parts of a fresh object by equal parts of earlier ones."""
        for section, values_of, fields in self._sections:
            owner = getattr(obj, section) if section else obj
            if owner is None:
                continue
            for field, value in zip(fields, values_of(owner), strict=True):
                if value:
                    field.intern(owner, value, self._encode(value))
        self._judged += 1
        if self._judged == _TRIAL:
            self._judged = 0
            self._fields = [field for field in self._fields if not field.useless]
            self._sections = _by_section(self._fields)


_Reader: TypeAlias = Callable[[Json], tuple[Json, ...]]


def _by_section(fields: list[_Field]) -> list[tuple[str, _Reader, list[_Field]]]:
    """The fields of each section, and what reads them all at once: most of them are empty in most objects."""
    sections: dict[str, list[_Field]] = {}
    for field in fields:
        sections.setdefault(field.section, []).append(field)
    return [(section, _reader([field.name for field in inside]), inside) for section, inside in sections.items()]


def _reader(names: list[str]) -> _Reader:
    read = attrgetter(*names)
    return read if len(names) > 1 else lambda owner: (read(owner),)


@lru_cache(maxsize=256)
def _candidates(view: Json) -> tuple[tuple[str, str], ...]:
    """Section and name of the fields worth trying; the section is empty for fields of the object itself."""
    found = [("", each.name) for each in _fields_of(view) if _is_collection(each.type)]
    for section in _fields_of(view):
        inside = _fields_of(_struct(section.type))
        found += [(section.name, each.name) for each in inside if _is_collection(each.type) or _struct(each.type)]
    return tuple(found)


def _fields_of(view: Json) -> tuple[msgspec.structs.FieldInfo, ...]:
    is_struct = isinstance(view, type) and issubclass(view, msgspec.Struct)
    return msgspec.structs.fields(view) if is_struct else ()


def _alternatives(annotation: Json) -> tuple[Json, ...]:
    """`X | None` is X and None."""
    origin: Json = typing.get_origin(annotation)
    return typing.get_args(annotation) if origin in (Union, types.UnionType) else (annotation,)


def _is_collection(annotation: Json) -> bool:
    kinds: list[Json] = [typing.get_origin(each) or each for each in _alternatives(annotation)]
    return any(kind in _COLLECTIONS for kind in kinds)


def _struct(annotation: Json) -> Json:
    for each in _alternatives(annotation):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return each
    return None
