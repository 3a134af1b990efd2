"""Regular expressions with the semantics and the linear time of RE2, which is loaded when a pattern is first met."""

from functools import lru_cache
from typing import Final

from kohort.objects.json_types import Json

_GO_WORDS: Final = {
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""The same library in two languages, with different words."""


@lru_cache(maxsize=2048)
def pattern(text: str) -> Json:
    """A compiled pattern; ValueError when it is not one, in the words of Go."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "invalid"
        raise ValueError(_in_go_words(reason.decode() if isinstance(reason, bytes) else str(reason))) from None


def _in_go_words(reason: str) -> str:
    head, separator, rest = reason.rpartition(": ")
    shown = f"{head}: `{rest}`" if separator else reason
    for theirs, go in _GO_WORDS.items():
        if shown.startswith(theirs):
            return go + shown.removeprefix(theirs)
    return shown
