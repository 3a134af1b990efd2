"""Paths of fields in error messages: `spec.items[0].name`, `spec.labels[key]`."""

from typing import Final

ROOT: Final = "<nil>"
"""How the whole object is written."""


def below(path: str, name: str) -> str:
    return name if path == ROOT else f"{path}.{name}"


def entry(path: str, key: str) -> str:
    return f"[{key}]" if path == ROOT else f"{path}[{key}]"


def item(path: str, position: int) -> str:
    return f"[{position}]" if path == ROOT else f"{path}[{position}]"
