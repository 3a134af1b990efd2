"""Operators, sizes, conversions and the string functions that every CEL has.

Logical operators, the conditional, equality, indexing and `in` appear here for their types; the compiler makes closures
of its own for them.
"""

from kohort.cluster.apiserver.cel.equality import compared, contains, equal
from kohort.cluster.apiserver.cel.functions import arithmetic, conversions
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.functions.regex import matches, matches_cost
from kohort.cluster.apiserver.cel.times import duration_text, timestamp_text
from kohort.cluster.apiserver.cel.values import index, size_of
from kohort.objects.json_types import Json

# -- comparisons


def less(a: Json, b: Json) -> bool:
    return compared(a, b) < 0


def less_or_equal(a: Json, b: Json) -> bool:
    return compared(a, b) <= 0


def greater(a: Json, b: Json) -> bool:
    return compared(a, b) > 0


def greater_or_equal(a: Json, b: Json) -> bool:
    return compared(a, b) >= 0


# -- text


def text_contains(text: str, part: str) -> bool:
    return part in text


def text_cost(text: str, part: str) -> int:
    return len(text) // 10


def membership_cost(value: Json, container: Json) -> int:
    return size_of(container)


def unreachable(*_: Json) -> Json:
    raise AssertionError("compiled specially")


_NUMBERS = ("int", "uint", "double")
_ORDERED = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")


def _comparisons() -> list[Function]:
    implementations = {"_<_": less, "_<=_": less_or_equal, "_>_": greater, "_>=_": greater_or_equal}
    mixed = [(a, b) for a in _NUMBERS for b in _NUMBERS if a != b]
    pairs = [(kind, kind) for kind in _ORDERED] + mixed
    return [Function(f"{name}({a}, {b}): bool", code) for name, code in implementations.items() for a, b in pairs]


def _sizes() -> list[Function]:
    kinds = ("string", "bytes", "list<A>", "map<A, B>")
    both = [(f"size({kind}): int", f"{kind}::size(): int") for kind in kinds]
    return [Function(signature, size_of) for pair in both for signature in pair]


LIBRARY = Library(
    (
        Function("_?_:_(bool, A, A): A", unreachable),
        Function("_&&_(bool, bool): bool", unreachable),
        Function("_||_(bool, bool): bool", unreachable),
        Function("!_(bool): bool", unreachable),
        Function("_==_(A, A): bool", equal),
        Function("_!=_(A, A): bool", unreachable),
        Function("_[_](list<A>, int): A", index),
        Function("_[_](map<A, B>, A): B", index),
        Function("@in(A, list<A>): bool", lambda value, container: contains(container, value), membership_cost),
        Function("@in(A, map<A, B>): bool", lambda value, container: contains(container, value)),
        Function("_+_(int, int): int", arithmetic.add_ints),
        Function("_+_(uint, uint): uint", arithmetic.add_uints),
        Function("_+_(double, double): double", arithmetic.add_texts),
        Function("_+_(string, string): string", arithmetic.add_texts, arithmetic.add_texts_cost),
        Function("_+_(bytes, bytes): bytes", arithmetic.add_texts, arithmetic.add_texts_cost),
        Function("_+_(list<A>, list<A>): list<A>", arithmetic.add_lists, arithmetic.add_lists_cost),
        Function("_+_(duration, duration): duration", arithmetic.add_durations),
        Function("_+_(timestamp, duration): timestamp", arithmetic.later),
        Function("_+_(duration, timestamp): timestamp", arithmetic.duration_then_timestamp),
        Function("_-_(int, int): int", arithmetic.subtract_ints),
        Function("_-_(uint, uint): uint", arithmetic.subtract_uints),
        Function("_-_(double, double): double", lambda a, b: a - b),
        Function("_-_(duration, duration): duration", arithmetic.subtract_durations),
        Function("_-_(timestamp, duration): timestamp", arithmetic.earlier),
        Function("_-_(timestamp, timestamp): duration", arithmetic.between),
        Function("_*_(int, int): int", arithmetic.multiply_ints),
        Function("_*_(uint, uint): uint", arithmetic.multiply_uints),
        Function("_*_(double, double): double", arithmetic.multiply_doubles),
        Function("_/_(int, int): int", arithmetic.divide_ints),
        Function("_/_(uint, uint): uint", arithmetic.divide_uints),
        Function("_/_(double, double): double", arithmetic.divide_doubles),
        Function("_%_(int, int): int", arithmetic.remainder_ints),
        Function("_%_(uint, uint): uint", arithmetic.remainder_uints),
        Function("-_(int): int", arithmetic.negate_int),
        Function("-_(double): double", arithmetic.negate_double),
        *_comparisons(),
        *_sizes(),
        Function("type(A): type<A>", conversions.type_of),
        Function("dyn(A): dyn", conversions.same),
        Function("int(int): int", conversions.same),
        Function("int(uint): int", conversions.uint_to_int),
        Function("int(double): int", conversions.double_to_int),
        Function("int(string): int", conversions.string_to_int),
        Function("int(timestamp): int", conversions.timestamp_to_int),
        Function("int(duration): int", conversions.duration_to_int),
        Function("uint(uint): uint", conversions.same),
        Function("uint(int): uint", conversions.int_to_uint),
        Function("uint(double): uint", conversions.double_to_uint),
        Function("uint(string): uint", conversions.string_to_uint),
        Function("double(double): double", conversions.same),
        Function("double(int): double", conversions.to_double),
        Function("double(uint): double", conversions.to_double),
        Function("double(string): double", conversions.string_to_double),
        Function("bool(bool): bool", conversions.same),
        Function("bool(string): bool", conversions.string_to_bool),
        Function("string(string): string", conversions.same),
        Function("string(bool): string", conversions.bool_to_string),
        Function("string(int): string", conversions.int_to_string),
        Function("string(uint): string", conversions.int_to_string),
        Function("string(double): string", conversions.double_to_string),
        Function("string(bytes): string", conversions.bytes_to_string),
        Function("string(timestamp): string", timestamp_text),
        Function("string(duration): string", duration_text),
        Function("bytes(bytes): bytes", conversions.same),
        Function("bytes(string): bytes", conversions.string_to_bytes),
        Function("duration(duration): duration", conversions.same),
        Function("duration(string): duration", conversions.string_to_duration),
        Function("duration(int): duration", conversions.int_to_duration),
        Function("timestamp(timestamp): timestamp", conversions.same),
        Function("timestamp(string): timestamp", conversions.string_to_timestamp),
        Function("timestamp(int): timestamp", conversions.int_to_timestamp),
        Function("string::contains(string): bool", text_contains, text_cost),
        Function("string::startsWith(string): bool", str.startswith),
        Function("string::endsWith(string): bool", str.endswith),
        Function("matches(string, string): bool", matches, matches_cost),
        Function("string::matches(string): bool", matches, matches_cost),
    )
)
