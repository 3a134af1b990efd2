"""Paths that definitions write: `.spec.replicas`, `.metadata.labels['a.b']`.

Only steps to named fields and map entries are allowed, and every step must exist in the schema.
"""

import re
from typing import Final

from kohort.cluster.apiserver.crd.field_paths import ROOT, below, entry
from kohort.cluster.apiserver.schema.node import Node

_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]]+")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class PathError(ValueError):
    pass


def resolve(path: str, node: Node, *, brackets: bool = True) -> tuple[str, Node]:
    """The path as error messages write it, and the schema it leads to. PathError when it leads nowhere."""
    found = ROOT
    tokens = _TOKEN.findall(path)
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token == "[":
            if not brackets:
                raise PathError("array notation is not allowed")
            name = _quoted(_at(tokens, position + 1))
            closing = _at(tokens, position + 2)
            if closing != "]":
                raise PathError(f"expected ] but got {closing}")
            position += 3
        elif token == ".":
            name = _at(tokens, position + 1)
            position += 2
        else:
            raise PathError(f"expected [ or . but got: {token}")
        found, node = _step(found, node, name)
    return found, node


def normalized_path(path: str, node: Node) -> str:
    """The path of a rule's `fieldPath`, empty when it is none."""
    try:
        return resolve(path, node)[0]
    except PathError:
        return ""


def values_at(path: str) -> list[str]:
    """The names along a path without brackets: `.spec.replicas`."""
    return path.lstrip(".").split(".")


def _at(tokens: list[str], position: int) -> str:
    if position >= len(tokens):
        raise PathError("unexpected end of JSON path")
    return tokens[position]


def _quoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise PathError(f"expected single quoted string but got {token}")
    return re.sub(r"\\(.)", _unescaped, token[1:-1])


def _unescaped(hit: re.Match[str]) -> str:
    if hit[1] not in _ESCAPES:
        raise PathError(f"invalid string literal: invalid escape char {hit[0]}")
    return _ESCAPES[hit[1]]


def _step(path: str, node: Node, name: str) -> tuple[str, Node]:
    if node.type == "map":
        return entry(path, name), node.items
    field = node.fields.get(name)
    if field is None or (node.source is not None and name not in (node.source.get("properties") or {})):
        raise PathError("does not refer to a valid field")
    return below(path, name), field
