"""Results of pure functions of a text, kept for short texts only.

The same names, addresses and quantities occur again and again, so results about them are cached. Texts come from
clients, so only short ones are kept: thousands of texts of a megabyte each would exhaust the memory of the server.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

LONGEST: Final = 512
"""Characters of a text that is kept."""

Result = TypeVar("Result")


def remember_short(maxsize: int) -> Callable[[Callable[[str], Result]], Callable[[str], Result]]:
    """Keep the results for the last `maxsize` short texts."""

    def decorate(function: Callable[[str], Result]) -> Callable[[str], Result]:
        kept = lru_cache(maxsize=maxsize)(function)

        @wraps(function)
        def answer(text: str) -> Result:
            return kept(text) if len(text) <= LONGEST else function(text)

        return answer

    return decorate
