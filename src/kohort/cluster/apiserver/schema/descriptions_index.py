"""What the built-in types and their fields are for, as `kubectl explain` prints it.

The sentences are in `descriptions/*.txt`, whose README explains the format. They are read when the first OpenAPI
document is built: a server that serves no OpenAPI document never opens the files.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from kohort.cluster.apiserver.schema.builtin_types import has_type, record


class TypeDescriptions(msgspec.Struct):
    """What the files say about one type, or about all whose names have one ending."""

    text: str
    fields: dict[str, str]
    like: str = ""
    """The type that says what this one does not say about its fields."""


def type_text(name: str) -> str:
    """What a type is for; empty where nothing says it."""
    for key, described in _about(name):
        if described.text and (key == name or key.startswith("*")):
            return described.text.replace("{kind}", _short(name).removesuffix(key[1:]))
    return ""


def field_text(name: str, field: str) -> str:
    """What a field of a type is for; empty where nothing says it."""
    return next((described.fields[field] for _, described in _about(name) if field in described.fields), "")


def _about(name: str) -> Iterator[tuple[str, TypeDescriptions]]:
    """Everything that is said about a type, what concerns only this one first."""
    entries, endings = read()
    key = name
    while described := entries.get(key):
        yield key, described
        key = described.like
    short = _short(name)
    for ending in endings:
        if short.endswith(ending) and (ending or _is_kind(name)):
            yield f"*{ending}", entries[f"*{ending}"]


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _is_kind(name: str) -> bool:
    return has_type(name) and bool(record(name).kinds)


@cache
def read() -> tuple[dict[str, TypeDescriptions], tuple[str, ...]]:
    """Everything in the files by full type name, and the endings that stand for many types, the longest first."""
    entries: dict[str, TypeDescriptions] = {}
    for path in _files():
        for key, described in _parse(path.read_text(encoding="utf-8")):
            if key in entries:
                raise ValueError(f"{path.name} describes {key} again")
            entries[key] = described
    endings = [key[1:] for key in entries if key.startswith("*")]
    return entries, tuple(sorted(endings, key=len, reverse=True))


@cache
def digest() -> bytes:
    """A hash of all files: the documents change with them."""
    whole = hashlib.sha256()
    for path in _files():
        whole.update(path.read_bytes())
    return whole.digest()


def _files() -> list[Path]:
    return sorted(Path(__file__).with_name("descriptions").glob("*.txt"))


def _parse(text: str) -> Iterator[tuple[str, TypeDescriptions]]:
    package = ""
    current = TypeDescriptions("", {})
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            package = line.strip("[]")
            continue
        name, _, sentence = line.strip().partition(": ")
        if not line.startswith(" "):
            key, _, like = name.partition(" like ")
            current = TypeDescriptions(sentence, {}, _full(like, package))
            yield _full(key, package), current
        elif name in current.fields:
            raise ValueError(f"{package} describes {name} again: {sentence}")
        else:
            current.fields[name] = sentence


def _full(name: str, package: str) -> str:
    return name if not name or "." in name or name.startswith("*") else f"{package}.{name}"
