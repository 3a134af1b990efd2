"""What a compiled expression is, and the one rule of `&&`, `||`, `all` and `exists`.

A term that decides (false for `&&` and `all`, true for `||` and `exists`) settles the matter, whatever else failed. If
no term decides, the first failure is the result; a term that is not a boolean counts as a failure.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from kohort.cluster.apiserver.cel.errors import CelError
from kohort.cluster.apiserver.cel.values import no_overload
from kohort.objects.json_types import Json

Frame: TypeAlias = list[Json]
Closure: TypeAlias = Callable[[Frame], Json]


def settle(v: Frame, terms: Iterable[Closure], deciding: bool) -> bool:
    problem: CelError | None = None
    for term in terms:
        try:
            value = term(v)
        except CelError as error:
            problem = problem or error
            continue
        if not isinstance(value, bool):
            problem = problem or no_overload()
        elif value == deciding:
            return deciding
    if problem is not None:
        raise problem
    return not deciding
