"""The function libraries. Each module lists its functions as signature, implementation and, where a call can be
expensive, what it costs; `libraries()` gathers them into one table by name."""

from collections.abc import Iterable

from kohort.cluster.apiserver.cel.functions import (
    authorizer,
    collections,
    formats,
    lists,
    network,
    optionals,
    patches,
    quantities,
    regex,
    semver,
    standard,
    strings,
    timefields,
    urls,
)
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.signatures import Overload, declare
from kohort.cluster.apiserver.cel.types import Type, opaque

CORE = (standard.LIBRARY, timefields.LIBRARY)
KUBERNETES = (
    *CORE,
    strings.LIBRARY,
    lists.LIBRARY,
    collections.LIBRARY,
    optionals.LIBRARY,
    regex.LIBRARY,
    urls.LIBRARY,
    network.LIBRARY,
    quantities.LIBRARY,
    semver.LIBRARY,
    formats.LIBRARY,
    authorizer.LIBRARY,
)
PATCHES = patches.LIBRARY
"""Only in expressions that produce patches."""


def libraries(chosen: Iterable[Library]) -> tuple[dict[str, list[Overload]], dict[str, Type]]:
    """Overloads by function name, and the types that the libraries add by their full name."""
    chosen = tuple(chosen)
    short: dict[str, Type] = {}
    types: dict[str, Type] = {}
    for library in chosen:
        for name, full_name in library.types.items():
            short[name] = types[full_name] = opaque(full_name)
    functions: dict[str, list[Overload]] = {}
    for library in chosen:
        for function in library.functions:
            name, overload = declare(function.signature, function.implementation, function.cost, short)
            functions.setdefault(name, []).append(overload)
    return functions, types


__all__ = ["KUBERNETES", "PATCHES", "Function", "Library", "libraries"]
