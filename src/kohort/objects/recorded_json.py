"""JSON in annotations and ConfigMaps: what kohort has recorded there, and what any user may have written instead."""

from typing import TypeVar

import msgspec

T = TypeVar("T")


def read_recorded(text: str, type: type[T]) -> T | None:
    """None for a text that cannot be read, or that is nested too deeply for a decoder."""
    try:
        return msgspec.json.decode(text, type=type)
    except (msgspec.DecodeError, RecursionError):
        return None
