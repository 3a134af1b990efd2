"""`quantity('1.5Gi')` and what can be done with it."""

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.cel.values import INT_MAX, INT_MIN, Extension
from kohort.objects.quantity import Quantity

_NANO = 10**9


class QuantityValue(Extension):
    __slots__ = ("amount",)
    type_name = "kubernetes.Quantity"

    def __init__(self, amount: Quantity) -> None:
        self.amount = amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantityValue) and self.amount == other.amount

    def __hash__(self) -> int:
        return hash(self.amount)


def to_quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue(Quantity.parse(text))
    except ValueError as error:
        raise CelError(str(error)) from None


def is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


def sign(quantity: QuantityValue) -> int:
    return (quantity.amount.nano > 0) - (quantity.amount.nano < 0)


def is_integer(quantity: QuantityValue) -> bool:
    nano = quantity.amount.nano
    return nano % _NANO == 0 and INT_MIN <= nano // _NANO <= INT_MAX


def as_integer(quantity: QuantityValue) -> int:
    if not is_integer(quantity):
        raise CelError("cannot convert value to integer")
    return quantity.amount.nano // _NANO


def as_float(quantity: QuantityValue) -> float:
    return quantity.amount.approximate


def compare(one: QuantityValue, two: QuantityValue) -> int:
    return (one.amount.nano > two.amount.nano) - (one.amount.nano < two.amount.nano)


def _whole(number: int) -> QuantityValue:
    return QuantityValue(Quantity.parse(number))


def add(one: QuantityValue, two: QuantityValue) -> QuantityValue:
    return QuantityValue(one.amount + two.amount)


def subtract(one: QuantityValue, two: QuantityValue) -> QuantityValue:
    return QuantityValue(one.amount - two.amount)


LIBRARY = Library(
    (
        Function("quantity(string): quantity", to_quantity),
        Function("isQuantity(string): bool", is_quantity),
        Function("sign(quantity): int", sign),
        Function("quantity::isInteger(): bool", is_integer),
        Function("quantity::asInteger(): int", as_integer),
        Function("quantity::asApproximateFloat(): double", as_float),
        Function("quantity::isGreaterThan(quantity): bool", lambda one, two: compare(one, two) > 0),
        Function("quantity::isLessThan(quantity): bool", lambda one, two: compare(one, two) < 0),
        Function("quantity::compareTo(quantity): int", compare),
        Function("quantity::add(quantity): quantity", add),
        Function("quantity::add(int): quantity", lambda one, number: add(one, _whole(number))),
        Function("quantity::sub(quantity): quantity", subtract),
        Function("quantity::sub(int): quantity", lambda one, number: subtract(one, _whole(number))),
    ),
    {"quantity": "kubernetes.Quantity"},
)
