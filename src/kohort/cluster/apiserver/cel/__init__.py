"""CEL, the expression language of validation rules, match conditions and admission policies.

Text becomes a syntax tree (`parser`), the tree gets types (`checker`, against the types of a schema when there is one),
and a typed tree becomes a nest of Python closures (`closures`). An `Environment` holds the variables and functions that
an expression may use and compiles it once; a `Program` is then called as often as wanted.
"""

from kohort.cluster.apiserver.cel.environment import Environment, kubernetes_environment
from kohort.cluster.apiserver.cel.errors import BudgetExceeded, CelError, CompileError
from kohort.cluster.apiserver.cel.program import Budget, Program

__all__ = [
    "Budget",
    "BudgetExceeded",
    "CelError",
    "CompileError",
    "Environment",
    "Program",
    "kubernetes_environment",
]
