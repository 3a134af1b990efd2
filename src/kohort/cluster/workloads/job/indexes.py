"""Sets of completion indexes, as the status of a Job writes them down."""

from collections.abc import Iterable


def format_indexes(indexes: Iterable[int]) -> str:
    """`0,2-4`: runs of three and more as ranges, pairs listed.

    >>> format_indexes([4, 0, 2, 3])
    '0,2-4'
    >>> format_indexes([0, 1, 5])
    '0,1,5'
    """
    parts: list[str] = []
    run: list[int] = []
    for index in [*sorted(set(indexes)), None]:
        if run and (index is None or index != run[-1] + 1):
            parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(one) for one in run]
            run = []
        if index is not None:
            run.append(index)
    return ",".join(parts)


def parse_indexes(text: str) -> frozenset[int]:
    """The inverse of `format_indexes`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
