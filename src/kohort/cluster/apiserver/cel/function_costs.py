"""What calls of functions cost at worst, and how large their results can be (see `estimate` for the model)."""

import math
from collections.abc import Callable
from typing import Final, Protocol

from kohort.cluster.apiserver.cel.amounts import (
    LIMITLESS,
    NAME_PATTERN,
    NEW_LIST,
    PATTERN,
    TEXT,
    UNKNOWN,
    ElementSizes,
    Size,
    capped,
    fixed,
    scaled,
)
from kohort.cluster.apiserver.cel.signatures import Overload
from kohort.cluster.apiserver.cel.syntax import Call, Expr, Literal
from kohort.cluster.apiserver.cel.types import Type


class Sizes(Protocol):
    """What is known of the values of expressions."""

    def size_or_unknown(self, expr: Expr) -> Size: ...

    def size_at(self, path: tuple[str, ...]) -> Size | None: ...

    def path(self, expr: Expr) -> tuple[str, ...]: ...

    def keep_size(self, expr: Expr, size: Size) -> None: ...

    def keep_entry(self, expr: Expr, entry: ElementSizes | None) -> None: ...

    def joined_entry(self, one: Expr, two: Expr) -> ElementSizes | None: ...


Rule = Callable[[Sizes, Call, Overload], "int | None"]

_CHEAP: Final = """
serviceAccount path group resource subresource namespace name allowed reason error errored
masked prefixLength family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast
format.named sign asInteger isInteger asApproximateFloat isGreaterThan isLessThan compareTo add sub major minor patch
getScheme getHostname getHost getPort getEscapedPath getQuery
"""

_CONSTANT: Final = {"check": 350_000, **dict.fromkeys(_CHEAP.split(), 1)}


def own_cost(sizes: Sizes, expr: Call, overload: Overload) -> int:
    """What a call itself costs, beyond its arguments; notes the size of its result where that is known."""
    if expr.function in _CONSTANT:
        return _CONSTANT[expr.function]
    rule = _RULES.get(expr.function)
    cost = rule(sizes, expr, overload) if rule is not None else None
    return 1 if cost is None else cost


def _target(expr: Call) -> Expr:
    return expr.target if expr.target is not None else expr.args[0]


def _walk_target(factor: float, *, sized: bool = True) -> Rule:
    """Functions that read a text once (or twice) and yield something no longer than it."""

    def rule(sizes: Sizes, expr: Call, overload: Overload) -> int:
        size = sizes.size_or_unknown(_target(expr))
        if sized:
            sizes.keep_size(expr, size)
        return scaled(size.most, factor)

    return rule


def _walk_argument(sizes: Sizes, expr: Call, overload: Overload) -> int:
    return scaled(sizes.size_or_unknown(expr.args[0]).most, TEXT)


def _list_walk(sizes: Sizes, expr: Call, overload: Overload) -> int:
    target = _target(expr)
    size = sizes.size_or_unknown(target)
    if target.type.kind != "list":
        return scaled(size.most, TEXT)
    per_item = 1
    if target.type.params[0].kind in ("string", "bytes"):
        per_item = capped(1 + scaled(_item_size(sizes, target).most, TEXT))
    return capped(size.most * per_item)


def _item_size(sizes: Sizes, target: Expr) -> Size:
    """Elements of what is not below a field may have any size."""
    path = sizes.path(target)
    return (sizes.size_at((*path, "@items")) if path else None) or UNKNOWN


def _concatenation(sizes: Sizes, expr: Call, overload: Overload) -> int | None:
    kind = overload.params[0].kind
    if kind not in ("string", "bytes", "list"):
        return None
    one, two = expr.args
    size = sizes.size_or_unknown(one).plus(sizes.size_or_unknown(two))
    sizes.keep_entry(expr, sizes.joined_entry(one, two))
    sizes.keep_size(expr, size)
    return 1 if kind == "list" else scaled(size.most, TEXT)


def _comparison(sizes: Sizes, expr: Call, overload: Overload) -> int | None:
    one, two = expr.args
    if expr.function in ("_==_", "_!=_"):
        if expr.function == "_==_" and one.type.kind == "opaque" and one.type.name == two.type.name:
            return _opaque_equality(one.type)
    elif overload.params[0].kind not in ("string", "bytes"):
        return None
    return scaled(min(sizes.size_or_unknown(one).most, sizes.size_or_unknown(two).most), TEXT)


def _opaque_equality(type: Type) -> int:
    return scaled(64, TEXT) if type.name == "kubernetes.NamedFormat" else 1


def _contains(sizes: Sizes, expr: Call, overload: Overload) -> int:
    text = scaled(sizes.size_or_unknown(_target(expr)).most, TEXT)
    return capped(text * scaled(sizes.size_or_unknown(expr.args[-1]).most, TEXT))


def _pattern_walk(sizes: Sizes, expr: Call, overload: Overload) -> int | None:
    if expr.target is None:
        return None
    text = sizes.size_or_unknown(expr.target)
    pattern = scaled(sizes.size_or_unknown(expr.args[0]).most, PATTERN)
    if expr.function in ("find", "findAll"):
        sizes.keep_size(expr, Size(0, text.most))
    return capped(scaled(capped(text.most + 1), TEXT) * pattern)


def _replace(sizes: Sizes, expr: Call, overload: Overload) -> int:
    text, old, new = (sizes.size_or_unknown(one) for one in (_target(expr), expr.args[0], expr.args[1]))
    if old.least == 0:
        longest = Size(0, capped(capped(text.most + 1) * new.most + text.most))
    elif new.most <= old.least:
        longest = Size(0, text.most)
    else:
        longest = Size(0, capped(math.ceil(text.most / old.least) * new.most))
    sizes.keep_size(expr, longest)
    return scaled(text.most, 2 * TEXT)


def _split(sizes: Sizes, expr: Call, overload: Overload) -> int:
    text = sizes.size_or_unknown(_target(expr))
    limit = expr.args[1] if len(expr.args) > 1 else None
    most = limit.value % 2**64 if isinstance(limit, Literal) and isinstance(limit.value, int) else text.most
    sizes.keep_size(expr, Size(0, most))
    return scaled(text.most, 2 * TEXT)


def _join(sizes: Sizes, expr: Call, overload: Overload) -> int:
    target = _target(expr)
    count = sizes.size_or_unknown(target)
    size = count.times(_item_size(sizes, target))
    if expr.args:
        gaps = Size(max(0, count.least - 1), max(0, count.most - 1))
        size = size.plus(sizes.size_or_unknown(expr.args[0]).times(gaps))
    sizes.keep_size(expr, size)
    return scaled(size.most, TEXT)


def _validate(sizes: Sizes, expr: Call, overload: Overload) -> int:
    return scaled(_walk_argument(sizes, expr, overload), NAME_PATTERN * PATTERN)


def _membership(sizes: Sizes, expr: Call, overload: Overload) -> int | None:
    return sizes.size_or_unknown(expr.args[1]).most if overload.params[1].kind == "list" else None


def _sets(factor: int) -> Rule:
    def rule(sizes: Sizes, expr: Call, overload: Overload) -> int:
        one, two = (sizes.size_or_unknown(arg).most for arg in expr.args)
        return capped(scaled(capped(one * two), factor) + 1)

    return rule


def _address(sizes: Sizes, expr: Call, overload: Overload) -> int:
    return 1 if overload.member else _walk_argument(sizes, expr, overload)


def _network(extra: int) -> Rule:
    def rule(sizes: Sizes, expr: Call, overload: Overload) -> int:
        parse = _walk_argument(sizes, expr, overload) if overload.params[1].kind == "string" else 0
        return capped(scaled(32, TEXT) + extra + parse)

    return rule


def _new_list(factor: float, size: Callable[[Sizes, Call], Size]) -> Rule:
    def rule(sizes: Sizes, expr: Call, overload: Overload) -> int:
        result = size(sizes, expr)
        sizes.keep_size(expr, result)
        return capped(scaled(result.most, factor) + 1 + NEW_LIST)

    return rule


def _whole_number(expr: Expr, otherwise: int) -> int:
    if isinstance(expr, Literal) and type(expr.value) is int:
        return max(0, expr.value)
    return otherwise


def _slice_size(sizes: Sizes, expr: Call) -> Size:
    size = sizes.size_or_unknown(_target(expr))
    start, end = _whole_number(expr.args[0], 0), _whole_number(expr.args[1], size.most)
    return fixed((end - start) % 2**64)


def _target_size(sizes: Sizes, expr: Call) -> Size:
    return sizes.size_or_unknown(_target(expr))


def _square(sizes: Sizes, expr: Call) -> Size:
    size = _target_size(sizes, expr)
    return size.times(size)


def _range_size(sizes: Sizes, expr: Call) -> Size:
    return fixed(_whole_number(expr.args[0], LIMITLESS))


def _flatten(sizes: Sizes, expr: Call, overload: Overload) -> int | None:
    depth = _whole_number(expr.args[0], LIMITLESS) if expr.args else 1
    return _new_list(float(depth), _target_size)(sizes, expr, overload)


def _sort(sizes: Sizes, expr: Call, overload: Overload) -> int | None:
    factor = 2.0 + (TEXT if overload.params[0].params[0].kind in ("string", "bytes") else 0)
    return _new_list(factor, _square)(sizes, expr, overload)


def _text_conversion(sizes: Sizes, expr: Call, overload: Overload) -> int | None:
    source = overload.params[0].kind
    size = sizes.size_or_unknown(expr.args[0])
    if expr.function == "bytes" and source == "string":
        sizes.keep_size(expr, Size(size.least, capped(size.most * 4)))
        return scaled(size.most, TEXT)
    if expr.function == "string" and source == "bytes":
        sizes.keep_size(expr, Size(size.least // 4, size.most))
        return scaled(size.most, TEXT)
    return None


def _quote(sizes: Sizes, expr: Call, overload: Overload) -> int:
    size = sizes.size_or_unknown(expr.args[0])
    sizes.keep_size(expr, Size(size.least + 2, capped(size.most * 2 + 2)))
    return scaled(size.most, TEXT)


_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _list_walk),
    **dict.fromkeys(("url", "jsonpatch.escapeKey", "lowerAscii", "upperAscii"), _walk_target(TEXT)),
    **dict.fromkeys(("substring", "trim"), _walk_target(TEXT)),
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _comparison),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _walk_argument),
    **dict.fromkeys(("startsWith", "endsWith", "fieldSelector", "labelSelector"), _walk_argument),
    **dict.fromkeys(("matches", "find", "findAll"), _pattern_walk),
    **dict.fromkeys(("bytes", "string"), _text_conversion),
    "_+_": _concatenation,
    "@in": _membership,
    "contains": _contains,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "format": _walk_target(TEXT, sized=False),
    "strings.quote": _quote,
    "validate": _validate,
    "ip": _address,
    "ip.isCanonical": _walk_target(2 * TEXT, sized=False),
    "containsIP": _network(0),
    "containsCIDR": _network(3),
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
    "slice": _new_list(1, _slice_size),
    "reverse": _new_list(1, _target_size),
    "distinct": _new_list(2, _square),
    "lists.range": _new_list(1, _range_size),
    "flatten": _flatten,
    "sort": _sort,
}
