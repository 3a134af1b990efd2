"""What expressions may use: variables with their types, functions, struct types.

Environments are cheap to derive from one another; the function table is built once and shared.
"""

from collections.abc import Iterable, Mapping
from functools import cache

from kohort.cluster.apiserver.cel import types as t
from kohort.cluster.apiserver.cel.checker import Checker
from kohort.cluster.apiserver.cel.closures import Compiler, Slot
from kohort.cluster.apiserver.cel.errors import CompileError, InstantiationError, Issue
from kohort.cluster.apiserver.cel.functions import KUBERNETES, PATCHES, libraries
from kohort.cluster.apiserver.cel.literals import constant_problem, literal_issues
from kohort.cluster.apiserver.cel.parser import parse
from kohort.cluster.apiserver.cel.program import Program
from kohort.cluster.apiserver.cel.signatures import Overload
from kohort.cluster.apiserver.cel.types import StructType, Type

_TYPE_NAMES: dict[str, Type] = {
    "bool": t.BOOL,
    "int": t.INT,
    "uint": t.UINT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "bytes": t.BYTES,
    "null_type": t.NULL,
    "list": t.list_of(t.DYN),
    "map": t.map_of(t.DYN, t.DYN),
    "type": t.type_of_type(t.DYN),
    "optional_type": t.optional_of(t.DYN),
    "google.protobuf.Timestamp": t.TIMESTAMP,
    "google.protobuf.Duration": t.DURATION,
}


class Environment:
    def __init__(
        self,
        functions: Mapping[str, list[Overload]],
        types: Mapping[str, Type],
        variables: Mapping[str, Type] | None = None,
        *,
        raw: Iterable[str] = (),
        structs: Mapping[str, StructType] | None = None,
    ) -> None:
        self._functions = functions
        self._types = types
        self.variables: Mapping[str, Type] = dict(variables or {})
        self._raw = frozenset(raw)
        self._structs: Mapping[str, StructType] = structs or {}
        self._identifiers = {name: t.type_of_type(type) for name, type in {**_TYPE_NAMES, **types}.items()}
        self._programs: dict[str, Program] = {}

    def with_variables(
        self, variables: Mapping[str, Type], *, raw: Iterable[str] = (), structs: Mapping[str, StructType] | None = None
    ) -> "Environment":
        """The same functions, other variables. `raw` names those that are given as JSON with a schema type."""
        return Environment(self._functions, self._types, variables, raw=raw, structs=structs)

    def type(self, name: str) -> Type:
        """A type that a library adds, by its full name."""
        return self._types[name]

    def compile(self, source: str) -> Program:
        """The program for an expression, from memory if it was compiled before. Raises CompileError."""
        program = self._programs.get(source)
        if program is None:
            program = self._programs[source] = self._compiled(source)
        return program

    def _compiled(self, source: str) -> Program:
        try:
            tree = parse(source)
            checker = Checker(source, self.variables, self._functions, self._identifiers, self._structs)
            result = checker.run(tree)
            issues = literal_issues(tree)
            if issues:
                raise CompileError(source, issues)
            problem = constant_problem(tree)
            if problem:
                raise InstantiationError(source, problem)
            slots = {name: Slot(place, name in self._raw) for place, name in enumerate(self.variables, start=1)}
            compiler = Compiler(slots, {name: name for name in self._identifiers})
            body = compiler.value(tree)
        except RecursionError:
            raise CompileError(source, [Issue(-1, "expression is nested too deeply")]) from None
        uses = frozenset(checker.used & self.variables.keys())
        return Program(source, tree, body, compiler.locals_used, result, uses)


@cache
def kubernetes_environment() -> Environment:
    """The language with the function libraries of Kubernetes, without variables."""
    functions, types = libraries(KUBERNETES)
    return Environment(functions, types)


@cache
def mutation_environment() -> Environment:
    """What mutating policies may use on top of it."""
    functions, types = libraries((*KUBERNETES, PATCHES))
    return Environment(functions, types)
