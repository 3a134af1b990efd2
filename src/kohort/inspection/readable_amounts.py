"""Amounts for people: of resources and of time. Objects carry resources in a canonical form, which after an addition
may be 255200m or 2k."""

from typing import Final

from kohort.objects.quantity import Quantity

_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTES: Final = ("memory", "storage", "hugepages-")


def amount_text(name: str, amount: str) -> str:
    """
    >>> amount_text("cpu", "255200m"), amount_text("nvidia.com/gpu", "2k"), amount_text("memory", "2096640Mi")
    ('cpu 255.2', 'nvidia.com/gpu 2000', 'memory 2047.5Gi')
    """
    return f"{name} {readable_amount(name, amount)}"


def readable_amount(name: str, amount: str) -> str:
    """
    >>> readable_amount("cpu", "25910m"), readable_amount("memory", "24265691136")
    ('25.91', '22.6Gi')
    """
    found = Quantity.parse(amount)
    if not any(word in name for word in _BYTES):
        return _short(Quantity.of_milli(found.milli).approximate, 3)
    size, unit = Quantity.of(found.value).approximate, 0
    while abs(size) >= 10240 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{_short(size, 1)}{_UNITS[unit]}"


def _short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def duration_text(seconds: int) -> str:
    """
    >>> duration_text(45), duration_text(571), duration_text(600), duration_text(7260)
    ('45 s', '9 min 31 s', '10 min', '2 h 1 min')
    """
    minutes, rest = divmod(max(0, seconds), 60)
    amounts = [(minutes // 60, "h"), (minutes % 60, "min"), (0 if minutes >= 60 else rest, "s")]
    return " ".join(f"{amount} {unit}" for amount, unit in amounts if amount) or "0 s"
