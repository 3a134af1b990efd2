"""Numbers as Go prints them by default (`%v`), for messages: 1000000.0 is `1e+06`, 5.0 is `5`, 1e-07 has two digits."""

from decimal import Decimal


def as_go_prints(value: int | float) -> str:
    """A floating point number in the shortest form that identifies it. Integers in schemas are floats in Go."""
    number = Decimal(repr(float(value))).normalize()
    power = number.adjusted()
    if not number or -4 <= power < 6:
        return f"{number:f}"
    sign, digits, _ = number.as_tuple()
    head, tail = str(digits[0]), "".join(map(str, digits[1:]))
    return f"{'-' if sign else ''}{head}{'.' if tail else ''}{tail}e{'+' if power >= 0 else '-'}{abs(power):02d}"
