"""Searching texts by patterns."""

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.functions.model import Function, Library
from kohort.cluster.apiserver.schema.patterns import pattern
from kohort.objects.json_types import Json


def _usable(text: str) -> Json:
    try:
        return pattern(text)
    except ValueError as error:
        raise CelError(f"error parsing regexp: {error}") from None


def matches(text: str, expression: str) -> bool:
    return _usable(expression).search(text) is not None


def matches_cost(text: str, expression: str) -> int:
    return int((len(text) / 10 + 1) * len(expression) / 4)


def find(text: str, expression: str) -> str:
    hit = _usable(expression).search(text)
    return "" if hit is None else str(hit.group())


def find_all(text: str, expression: str, limit: int = -1) -> list[str]:
    """Matches from left to right. A match of nothing right after another match does not count."""
    found: list[str] = []
    compiled = _usable(expression)
    end = -1
    for hit in compiled.finditer(text):
        if 0 <= limit <= len(found):
            break
        if hit.start() == hit.end() == end:
            continue
        found.append(hit.group())
        end = hit.end()
    return found


def find_all_cost(text: str, expression: str, limit: int = -1) -> int:
    return matches_cost(text, expression)


LIBRARY = Library(
    (
        Function("string::find(string): string", find, matches_cost),
        Function("string::findAll(string): list<string>", find_all, find_all_cost),
        Function("string::findAll(string, int): list<string>", find_all, find_all_cost),
    )
)
