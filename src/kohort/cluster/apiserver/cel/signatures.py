"""Functions are declared by a line of text: `string::size(): int`, `sets.contains(list<T>, list<T>): bool`.

What stands before two colons is the receiver of a method; single capital letters are type parameters, fresh for every
call; a name with a dot is a function in a namespace.
"""

import re
from collections.abc import Callable, Mapping

from kohort.cluster.apiserver.cel import types as t
from kohort.cluster.apiserver.cel.types import Type, Variable
from kohort.objects.json_types import Json

Implementation = Callable[..., Json]
Cost = Callable[..., int]

_SIGNATURE = re.compile(
    r"(?:(?P<receiver>[a-z_A-Z.]+(?:<[^()]*>)?)::)?(?P<name>[^(]+)\((?P<args>.*)\): (?P<result>.+)$"
)

_NAMED: dict[str, Type] = {
    "dyn": t.DYN,
    "null": t.NULL,
    "bool": t.BOOL,
    "int": t.INT,
    "uint": t.UINT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "bytes": t.BYTES,
    "timestamp": t.TIMESTAMP,
    "duration": t.DURATION,
}


class Overload:
    """One way to call a function. `params` of a method begin with its receiver."""

    __slots__ = ("cost", "generic", "implementation", "member", "params", "result")

    def __init__(
        self, params: tuple[Type, ...], result: Type, member: bool, implementation: Implementation, cost: Cost | None
    ) -> None:
        self.params = params
        self.result = result
        self.member = member
        self.implementation = implementation
        self.cost = cost
        """What a call costs beyond one unit, asked before the call."""
        self.generic = any(_has_parameter(type) for type in (*params, result))

    def instance(self) -> tuple[tuple[Type, ...], Type]:
        """Parameters and result with fresh variables in place of type parameters."""
        if not self.generic:
            return self.params, self.result
        fresh: dict[str, Type] = {}
        return tuple(_instantiated(param, fresh) for param in self.params), _instantiated(self.result, fresh)


def declare(
    signature: str, implementation: Implementation, cost: Cost | None, opaque: Mapping[str, Type]
) -> tuple[str, Overload]:
    """The function's name and the overload. A receiver is set off by two colons: `string::size(): int`."""
    match = _SIGNATURE.match(signature)
    if match is None:
        raise ValueError(f"not a signature: {signature}")
    receiver = match["receiver"]
    arguments = [_parse(text, opaque) for text in _split(match["args"])]
    params = ([_parse(receiver, opaque)] if receiver else []) + arguments
    return match["name"], Overload(tuple(params), _parse(match["result"], opaque), bool(receiver), implementation, cost)


def _has_parameter(type: Type) -> bool:
    return type.kind == "param" or any(_has_parameter(param) for param in type.params)


def _instantiated(type: Type, fresh: dict[str, Type]) -> Type:
    if type.kind == "param":
        return fresh.setdefault(type.name, Variable())
    if not type.params:
        return type
    return type.with_params(tuple(_instantiated(param, fresh) for param in type.params))


def _split(text: str) -> list[str]:
    """Comma-separated parts, commas inside angle brackets not counting."""
    parts: list[str] = []
    depth = start = 0
    for index, char in enumerate(text):
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    tail = text[start:].strip()
    return [*parts, tail] if tail else parts


def _parse(text: str, opaque: Mapping[str, Type]) -> Type:
    if text in _NAMED:
        return _NAMED[text]
    if len(text) == 1:
        return Type("param", text)
    if text in opaque:
        return opaque[text]
    head, _, inside = text.partition("<")
    params = tuple(_parse(part, opaque) for part in _split(inside[:-1]))
    match head:
        case "list":
            return t.list_of(*params)
        case "map":
            return t.map_of(*params)
        case "optional":
            return t.optional_of(*params)
        case "type":
            return t.type_of_type(*params)
        case _:
            raise ValueError(f"unknown type in a signature: {text}")
