"""Durations as Go writes them: `15s`, `1m30s`, `250ms`."""

import re
from typing import Final

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PIECE: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|us|µs|ns|h|m|s)")


def parse_duration(text: str) -> float:
    """Seconds. ValueError when the text is not a duration."""
    if text == "0":
        return 0.0
    pieces = _PIECE.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        raise ValueError(f"invalid duration {text!r}; write it like 15s, 1m30s or 250ms")
    return sum(float(number) * _UNITS[unit] for number, unit in pieces)
