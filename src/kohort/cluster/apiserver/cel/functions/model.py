"""Libraries of functions: the classes that declare one."""

from collections.abc import Mapping
from typing import NamedTuple

from kohort.cluster.apiserver.cel.signatures import Cost, Implementation


class Function(NamedTuple):
    signature: str
    implementation: Implementation
    cost: Cost | None = None


class Library(NamedTuple):
    functions: tuple[Function, ...]
    types: Mapping[str, str] = {}
    """Types that the library adds: the name in signatures, and the name in expressions."""
