"""A compiled expression."""

from kohort.cluster.apiserver.cel.budget import Budget
from kohort.cluster.apiserver.cel.errors import CelError, NoOverload
from kohort.cluster.apiserver.cel.logic import Closure
from kohort.cluster.apiserver.cel.syntax import Expr
from kohort.cluster.apiserver.cel.types import Type
from kohort.objects.json_types import Json

__all__ = ["Budget", "Program"]


class Program:
    """Call it with the values of the environment's variables, in the order in which they were declared."""

    __slots__ = ("_body", "_locals", "result_type", "source", "tree", "uses")

    def __init__(
        self, source: str, tree: Expr, body: Closure, local_slots: int, result_type: Type, uses: frozenset[str]
    ) -> None:
        self.source = source
        self.tree = tree
        self._body = body
        self._locals = [None] * local_slots
        self.result_type = result_type
        self.uses = uses
        """Names of the variables that the expression mentions."""

    def __call__(self, *values: Json, budget: Budget | None = None) -> Json:
        """The value of the expression. CelError when it has none, BudgetExceeded when it is too expensive."""
        try:
            return self._body([budget or Budget(), *values, *self._locals])
        except (TypeError, AttributeError, ValueError, OverflowError) as error:
            # A value that is not what its schema says: a null where none is allowed, a number for a string.
            raise NoOverload from error
        except RecursionError:
            raise CelError("expression is nested too deeply") from None
