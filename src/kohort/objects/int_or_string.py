"""Numbers that may also be percentages of something: `maxUnavailable: 25%`, `partition: 3`."""

import re

_PERCENT = re.compile(r"[0-9]+%", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)

LARGEST = 2**31 - 1
"""Numbers of the API that may also be percentages have 32 bits."""
PERCENT_WRONG = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def resolve(value: int | str, total: int, *, round_up: bool) -> int:
    """The number that this value means out of a total.

    >>> resolve("25%", 10, round_up=True), resolve("25%", 10, round_up=False), resolve(4, 10, round_up=True)
    (3, 2, 4)

    Raises ValueError, in the API's words, for text that is not a percentage.
    """
    if isinstance(value, int):
        return value
    share = percentage(value) * total
    return -(-share // 100) if round_up else share // 100


def percentage(value: str) -> int:
    """25 for `25%`."""
    if not value.endswith("%"):
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    number = value[:-1]
    if not _INTEGER.fullmatch(number):
        cause = f'strconv.Atoi: parsing "{number}": invalid syntax'
        raise ValueError(f'invalid value for IntOrString: invalid value "{value}": {cause}')
    return int(number)


def is_percentage(value: int | str) -> bool:
    return isinstance(value, str) and _PERCENT.fullmatch(value) is not None
