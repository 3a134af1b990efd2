"""Amounts of a resource: `100m`, `1.5Gi`, `2e3`.

A quantity is an exact number of nano units (10⁻⁹) as a Python integer, and the family of suffix in which it likes to be
written. Nothing is ever a float, and nothing overflows. Rules that surprise:

- what is finer than a nano unit is rounded away from zero: who asks for something gets something;
- binary suffixes (`Ki` … `Ei`) are capped at 2⁶³-1, decimal ones are not;
- the canonical text has no fraction and the largest suffix that loses nothing (`1500m`, `1536Mi`), but text that is
  already regular is kept as written (`1.500` stays `1.500`): clients compare what they read with what they wrote;
- a binary amount below 1024 is written without suffix.

One deliberate difference: of an amount with an exponent, from 10¹⁰⁰⁰ on only the text is exact (`1e1000000` is written
`10e999999`), and it counts as 10¹⁰⁰⁰: an integer with a billion digits is a denial of service, not a resource.
The API takes such amounts, up to an exponent of 2³¹-1, and no node has them. One below 10⁻¹⁰⁰⁰ is a nano unit.
"""

import math
import re
from typing import Final

import msgspec

from kohort.objects.bounded_cache import remember_short

DECIMAL_SI: Final = "DecimalSI"
BINARY_SI: Final = "BinarySI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # fixed wording
)
NUMERIC_WRONG: Final = "unable to parse numeric part of quantity"
SUFFIX_WRONG: Final = "unable to parse quantity's suffix"

_NANO: Final = 10**9
_MAX_BINARY: Final = (2**63 - 1) * _NANO
_MAX_EXPONENT: Final = 1000
_MAX_WRITTEN_EXPONENT: Final = 2**31 - 1

_SHAPE = re.compile(r"([+-]?+)0*+([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)", re.ASCII)

_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_NEVER_WITHOUT_DIGITS: Final = {"Pi", "Ei"}  # a bare smaller suffix is read as nought
_BINARY_BY_POWER: Final = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]


class Quantity(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An exact amount. Equal amounts are equal and hash alike, however they are written.

    >>> Quantity.parse("1.5Gi") + Quantity.parse("512Mi")
    Quantity('2Gi')
    >>> Quantity.parse("0.1m").milli, Quantity.parse("1500m").value
    (1, 2)
    """

    nano: int
    format: str = DECIMAL_SI
    text: str | None = None

    @staticmethod
    def parse(value: "str | int | float | Quantity") -> "Quantity":
        """The quantity that a JSON string or number stands for; ValueError in the API's words if none."""
        if type(value) is str:
            return _parse(value)
        if isinstance(value, Quantity):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(FORMAT_WRONG)
        return _parse(repr(value))

    @staticmethod
    def of(units: int, format: str = DECIMAL_SI) -> "Quantity":
        """A whole number of units: bytes, cores, devices."""
        return Quantity(units * _NANO, format)

    @staticmethod
    def of_milli(thousandths: int, format: str = DECIMAL_SI) -> "Quantity":
        return Quantity(thousandths * 1_000_000, format)

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _divide_away_from_zero(self.nano, _NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return _divide_away_from_zero(self.nano, 1_000_000)

    @property
    def approximate(self) -> float:
        """Units as a float; infinite where a float ends."""
        try:
            return self.nano / _NANO
        except OverflowError:
            return math.inf if self.nano > 0 else -math.inf

    def rounded_up_to_milli(self) -> "Quantity":
        """The same amount, or the next thousandth away from zero: what the API stores of a resource request."""
        if self.nano % 1_000_000 == 0:
            return self
        return Quantity(self.milli * 1_000_000, self.format)

    def __str__(self) -> str:
        return self.text if self.text is not None else _canonical_text(self.nano, self.format)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __bool__(self) -> bool:
        return self.nano != 0

    def __hash__(self) -> int:
        return hash(self.nano)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __ne__(self, other: object) -> bool:
        """Not derived from `__eq__`: the base class has one of its own, which compares the text too."""
        return not self == other

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __le__(self, other: "Quantity") -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: "Quantity") -> bool:
        return self.nano > other.nano

    def __ge__(self, other: "Quantity") -> bool:
        return self.nano >= other.nano

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nano, self.format)

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity(self.nano * factor, self.format)


ZERO: Final = Quantity(0, DECIMAL_SI, "0")


def canonical(value: str | int | float) -> str:
    """The text under which the API stores this quantity.

    >>> canonical("1000m"), canonical("0.5"), canonical("1024Mi"), canonical("1.5Gi"), canonical(2)
    ('1', '500m', '1Gi', '1536Mi', '2')
    """
    return str(Quantity.parse(value))


@remember_short(32768)
def _parse(text: str) -> Quantity:
    if text == "0":
        return ZERO
    shape = _SHAPE.fullmatch(text)
    if shape is None or not text:
        raise ValueError(FORMAT_WRONG)
    sign, whole, fraction, suffix = shape.group(1), shape.group(2), shape.group(3) or "", shape.group(4)
    digits = (whole or "0") + fraction
    if digits == "0" and "0" not in text and suffix in _NEVER_WITHOUT_DIGITS:
        raise ValueError(NUMERIC_WRONG)
    binary = _BINARY_SUFFIXES.get(suffix)
    if binary is not None:
        return _binary(text, sign, digits, len(fraction), binary)
    return _decimal(text, sign, digits, len(fraction), suffix)


def _decimal(text: str, sign: str, digits: str, fraction: int, suffix: str) -> Quantity:
    exponent, format = _decimal_exponent(suffix)
    mantissa = _integer(digits)
    if format == DECIMAL_EXPONENT and mantissa and len(str(mantissa)) + exponent - fraction > _MAX_EXPONENT + 1:
        return _beyond_computing(sign, mantissa, exponent - fraction)
    scale = exponent - fraction if mantissa else 0
    nano = _scaled(mantissa, scale + 9)
    if sign == "-":
        nano = -nano
    regular = (
        mantissa != 0
        and len(digits) <= 18
        and scale >= -9
        and scale % 3 == 0
        and not digits.endswith("000")
        and digits[0] != "0"
    )
    return Quantity(nano, format, text if regular else _canonical_text(nano, format))


def _decimal_exponent(suffix: str) -> tuple[int, str]:
    exponent = _DECIMAL_SUFFIXES.get(suffix)
    if exponent is not None:
        return exponent, DECIMAL_SI
    if len(suffix) < 2 or suffix[0] not in "eE":
        raise ValueError(SUFFIX_WRONG)
    try:
        exponent = int(suffix[1:])
    except ValueError:
        raise ValueError(SUFFIX_WRONG) from None
    if exponent > _MAX_WRITTEN_EXPONENT:
        raise ValueError(SUFFIX_WRONG)
    return max(exponent, -_MAX_EXPONENT), DECIMAL_EXPONENT


def _beyond_computing(sign: str, mantissa: int, exponent: int) -> Quantity:
    nano = _NANO * int(10**_MAX_EXPONENT)
    mantissa, exponent = mantissa * 10 ** (exponent % 3), exponent - exponent % 3
    while mantissa % 1000 == 0:
        mantissa, exponent = mantissa // 1000, exponent + 3
    minus = "-" if sign == "-" else ""
    return Quantity(-nano if minus else nano, DECIMAL_EXPONENT, f"{minus}{mantissa}e{exponent}")


def _binary(text: str, sign: str, digits: str, fraction: int, power: int) -> Quantity:
    mantissa = _integer(digits)
    nano = min(_scaled(mantissa << power, 9 - fraction), _MAX_BINARY)
    format = DECIMAL_SI if 0 < nano < _NANO else BINARY_SI
    if sign == "-":
        nano = -nano
    # Only short whole numbers are kept as written; the bound is the precision that fits beside the suffix.
    regular = fraction == 0 and len(digits) <= 14 - power * 3 // 10 and mantissa % 8 != 0
    return Quantity(nano, format, text if regular else _canonical_text(nano, format))


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # CPython refuses to convert thousands of digits
        raise ValueError(NUMERIC_WRONG) from None


def _scaled(mantissa: int, scale: int) -> int:
    """mantissa x 10^scale, rounded up; the mantissa is not negative."""
    if scale >= 0:
        return mantissa * int(10**scale)
    if mantissa == 0:
        return 0
    if -scale > 5000:
        return 1
    return -(-mantissa // int(10**-scale))


def _divide_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _canonical_text(nano: int, format: str) -> str:
    if nano == 0:
        return "0"
    if format == BINARY_SI and abs(nano) >= 1024 * _NANO and nano % _NANO == 0:
        return _binary_text(nano // _NANO)
    return _decimal_text(nano, format)


def _binary_text(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power < len(_BINARY_BY_POWER) - 1:
        units //= 1024
        power += 1
    return f"{units}{_BINARY_BY_POWER[power]}"


def _decimal_text(nano: int, format: str) -> str:
    mantissa, exponent = nano, -9
    while mantissa % 1000 == 0 and (exponent < 18 or format == DECIMAL_EXPONENT):
        mantissa //= 1000
        exponent += 3
    if format == DECIMAL_EXPONENT:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_BY_EXPONENT[exponent]}"
