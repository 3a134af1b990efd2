"""The grammar of cron schedules, as far as it is needed to say that one is wrong."""

import re
from typing import Final

_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS: Final = {name: index for index, name in enumerate(_MONTH_NAMES, 1)}
_DAYS: Final = {name: index for index, name in enumerate(_DAY_NAMES)}
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_duration = re.compile(r"(\d+(\.\d*)?(ns|us|ms|s|m|h))+", re.ASCII).fullmatch
_DESCRIPTORS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")


def schedule_problem(text: str) -> str:
    """What is wrong with a schedule, empty if nothing is."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if not text:
        return "empty spec string"
    if text.startswith("@"):
        if text in _DESCRIPTORS:
            return ""
        if text.startswith("@every "):
            return "" if _is_duration(text.removeprefix("@every ")) else f"failed to parse duration {text}"
        return f"unrecognized descriptor: {text}"
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            problem = _range_problem(part, low, high, names)
            if problem:
                return problem
    return ""


def _range_problem(part: str, low: int, high: int, names: dict[str, int]) -> str:
    span, *steps = part.split("/")
    if len(steps) > 1:
        return f"too many slashes: {part}"
    bounds = span.split("-")
    if len(bounds) > 2:
        return f"too many hyphens: {part}"
    if bounds[0] in ("*", "?"):
        start, end = low, high
    else:
        numbers = [names.get(text.lower(), _number(text)) for text in bounds]
        wrong = next((text for text, number in zip(bounds, numbers, strict=True) if number is None), None)
        if wrong is not None:
            return f'failed to parse int from {wrong}: strconv.Atoi: parsing "{wrong}": invalid syntax'
        start, end = numbers[0] or 0, numbers[-1] or 0
    if steps:
        step = _number(steps[0])
        if step is None:
            return f'failed to parse int from {steps[0]}: strconv.Atoi: parsing "{steps[0]}": invalid syntax'
        if step == 0:
            return f"step of range should be a positive number: {part}"
        end = high if len(bounds) == 1 else end
    if start < low:
        return f"beginning of range ({start}) below minimum ({low}): {part}"
    if end > high:
        return f"end of range ({end}) above maximum ({high}): {part}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {part}"
    return ""


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _is_duration(text: str) -> bool:
    return _duration(text.strip()) is not None
