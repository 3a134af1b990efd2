"""Many writes of one kind: one first, then twice as many each time.

An error for one pod is usually an error for all of them (a quota, a policy, a broken template). So a controller sees it
once, not a thousand times.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def growing_batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """
    >>> list(growing_batches("abcdefghi"))
    ['a', 'bc', 'defg', 'hi']
    """
    start, size = 0, 1
    while start < len(items):
        yield items[start : start + size]
        start, size = start + size, size * 2
