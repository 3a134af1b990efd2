"""Types for a syntax tree, or the reasons why it has none.

The checker goes on after a problem (an expression of unknown type fits everywhere), so that one pass reports all of
them. Messages and the places they point at are those that authors of Kubernetes rules know.
"""

from collections.abc import Mapping

from kohort.cluster.apiserver.cel import types as t
from kohort.cluster.apiserver.cel.errors import CompileError, Issue
from kohort.cluster.apiserver.cel.functions.lists import COMPARABLE
from kohort.cluster.apiserver.cel.signatures import Overload
from kohort.cluster.apiserver.cel.syntax import (
    Call,
    Comprehension,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    OptionalMap,
    Select,
    StructLiteral,
    qualified_name,
)
from kohort.cluster.apiserver.cel.types import Bindings, ObjectType, StructType, Type, Variable
from kohort.cluster.apiserver.cel.values import Uint

MAX_DEPTH = 300

_LITERALS: dict[type, Type] = {
    bool: t.BOOL,
    int: t.INT,
    Uint: t.UINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    type(None): t.NULL,
}


class Checker:
    def __init__(
        self,
        source: str,
        variables: Mapping[str, Type],
        functions: Mapping[str, list[Overload]],
        types: Mapping[str, Type],
        structs: Mapping[str, StructType],
    ) -> None:
        self.source = source
        self.scopes: list[Mapping[str, Type]] = [variables]
        self.functions = functions
        self.types = types
        self.structs = structs
        self.bindings = Bindings()
        self.issues: list[Issue] = []
        self.checked: list[Expr] = []
        self.depth = 0
        self.used: set[str] = set()

    def run(self, root: Expr) -> Type:
        """Check the whole tree; afterwards every node has its final type."""
        self.check(root)
        if self.issues:
            raise CompileError(self.source, self.issues)
        for expr in self.checked:
            expr.type = t.final(expr.type)
        return root.type

    def report(self, offset: int, message: str) -> Type:
        self.issues.append(Issue(offset, message))
        return t.ERROR

    def undeclared(self, offset: int, name: str) -> Type:
        return self.report(offset, f"undeclared reference to '{name}' (in container '')")

    def check(self, expr: Expr) -> Type:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise CompileError(self.source, [Issue(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")])
        expr.type = self.typed(expr)
        self.checked.append(expr)
        self.depth -= 1
        return expr.type

    def typed(self, expr: Expr) -> Type:
        match expr:
            case Literal():
                return _LITERALS[type(expr.value)]
            case Ident():
                return self.lookup(expr.name, absolute=expr.absolute) or self.undeclared(expr.offset, expr.name)
            case Select():
                return self.select(expr)
            case Call():
                return self.call(expr)
            case Comprehension():
                return self.comprehension(expr)
            case OptionalMap():
                return self.optional_map(expr)
            case ListLiteral():
                return self.list_literal(expr)
            case MapLiteral():
                return self.map_literal(expr)
            case StructLiteral():
                return self.struct(expr)
        raise AssertionError(expr)

    def lookup(self, name: str, *, absolute: bool = False) -> Type | None:
        for scope in self.scopes[:1] if absolute else reversed(self.scopes):
            if name in scope:
                self.used.add(name)
                return scope[name]
        return self.types.get(name)

    # -- selection

    def select(self, expr: Select) -> Type:
        name = None if expr.test or expr.optional else qualified_name(expr)
        if name is not None and name.partition(".")[0] not in self.local_names():
            known = self.lookup(name)
            if known is not None:
                expr.qualified = name
                return known
        result = self.selected(expr, self.check(expr.operand))
        return t.BOOL if expr.test else result

    def local_names(self) -> set[str]:
        return {name for scope in self.scopes[1:] for name in scope}

    def selected(self, expr: Select, operand: Type) -> Type:
        target = t.resolved(operand)
        optional = expr.optional or target.kind == "optional"
        if target.kind == "optional":
            target = t.resolved(target.params[0])
        result = self.field_type(expr, target)
        return t.optional_of(result) if optional else result

    def field_type(self, expr: Select, target: Type) -> Type:
        if target.kind == "map":
            return target.params[1]
        if isinstance(target, ObjectType):
            return target.field(expr.field) or self.report(expr.offset, f"undefined field '{expr.field}'")
        if isinstance(target, Variable):
            self.bindings.assignable(t.DYN, target)
            return t.DYN
        if not t.is_dynamic(target):
            self.report(expr.offset, f"type '{t.final(target)}' does not support field selection")
        return t.DYN

    # -- calls

    def call(self, expr: Call) -> Type:
        arguments = [self.check(arg) for arg in expr.args]
        if expr.function in ("_&&_", "_||_"):
            return self.logical(expr, arguments)
        if expr.target is None:
            overloads = self.functions.get(expr.function)
            if overloads is None:
                return self.undeclared(expr.offset, expr.function)
            return self.resolve(expr, expr.function, overloads, arguments, member=False)
        prefix = qualified_name(expr.target)
        if prefix is not None:
            namespaced = self.functions.get(f"{prefix}.{expr.function}")
            if namespaced is not None:
                expr.function = f"{prefix}.{expr.function}"
                expr.target = None
                return self.resolve(expr, expr.function, namespaced, arguments, member=False)
        target = self.check(expr.target)
        overloads = self.functions.get(expr.function)
        if overloads is None:
            return self.undeclared(expr.offset, expr.function)
        return self.resolve(expr, expr.function, overloads, [target, *arguments], member=True)

    def logical(self, expr: Call, arguments: list[Type]) -> Type:
        result = t.BOOL
        for operand, type in zip(expr.args, arguments, strict=True):
            if not self.bindings.assignable(type, t.BOOL):
                result = self.report(operand.offset, f"expected type 'bool' but found '{t.final(type)}'")
        return result

    def resolve(self, expr: Call, name: str, overloads: list[Overload], arguments: list[Type], *, member: bool) -> Type:
        result: Type | None = None
        for overload in overloads:
            if overload.member != member:
                continue
            params, returned = overload.instance()
            if not self.bindings.all_assignable(arguments, params):
                continue
            expr.overloads.append(overload)
            if result is None:
                result = returned
            elif not t.same_type(result, returned):
                result = t.DYN
        if result is not None:
            return result
        shown = [str(t.final(argument)) for argument in arguments]
        signature = f"{shown[0]}.({', '.join(shown[1:])})" if member else f"({', '.join(shown)})"
        return self.report(expr.offset, f"found no matching overload for '{name}' applied to '{signature}'")

    # -- macros

    def comprehension(self, expr: Comprehension) -> Type:
        first, second = self.loop_types(expr, self.check(expr.range))
        self.scopes.append({expr.first: first, **({expr.second: second} if expr.second else {})})
        condition = self.check(expr.condition) if expr.condition is not None else t.BOOL
        body = self.check(expr.body)
        self.scopes.pop()
        if expr.condition is not None:
            self.expect_choice(expr, condition, t.list_of(body))
        return self.loop_result(expr, first, body)

    def loop_types(self, expr: Comprehension, over: Type) -> tuple[Type, Type]:
        """Types of the loop variables. With one variable a map yields its keys."""
        over = t.resolved(over)
        if over.kind == "list":
            return (t.INT, over.params[0]) if expr.second else (over.params[0], t.ERROR)
        if over.kind == "map":
            return over.params[0], over.params[1]
        if isinstance(over, Variable):
            self.bindings.assignable(t.DYN, over)
        elif not t.is_dynamic(over):
            shown = t.final(over)
            message = f"expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)"
            self.report(expr.range.offset, message)
            return t.ERROR, t.ERROR
        return t.DYN, t.DYN

    def loop_result(self, expr: Comprehension, first: Type, body: Type) -> Type:
        match expr.kind:
            case "all" | "exists" | "exists_one":
                self.expect_bool(expr.body, body)
                return t.BOOL
            case "filter":
                self.expect_choice(expr, body, t.list_of(first))
                return t.list_of(first)
            case "map" | "transformList":
                return t.list_of(body)
            case "transformMap":
                return t.map_of(first, body)
            case "transformMapEntry":
                return body
            case "sortBy":
                key = t.resolved(body)
                if not t.is_dynamic(key) and not isinstance(key, Variable) and key.kind not in COMPARABLE:
                    applied = f"list({t.final(first)}).(list({t.final(key)}))"
                    message = f"found no matching overload for '@sortByAssociatedKeys' applied to '{applied}'"
                    self.report(expr.offset, message)
                return t.list_of(first)

    def expect_bool(self, expr: Expr, type: Type) -> None:
        if not self.bindings.assignable(type, t.BOOL):
            self.report(expr.offset, f"expected type 'bool' but found '{t.final(type)}'")

    def expect_choice(self, expr: Comprehension, condition: Type, result: Type) -> None:
        """A filter is a choice between two lists, and its condition is reported as part of one."""
        if not self.bindings.assignable(condition, t.BOOL):
            applied = f"({t.final(condition)}, {t.final(result)}, {t.final(result)})"
            self.report(expr.offset, f"found no matching overload for '_?_:_' applied to '{applied}'")

    def optional_map(self, expr: OptionalMap) -> Type:
        value = self.check(expr.value)
        inner = t.resolved(value)
        if inner.kind == "optional":
            value = inner.params[0]
        elif not t.is_dynamic(inner):
            self.report(expr.offset, f"expected type 'optional_type(dyn)' but found '{t.final(inner)}'")
        self.scopes.append({expr.name: value})
        body = self.check(expr.body)
        self.scopes.pop()
        if expr.rewrap:
            return t.optional_of(body)
        if not self.bindings.assignable(body, t.optional_of(Variable())):
            return self.report(expr.body.offset, f"expected type 'optional_type(dyn)' but found '{t.final(body)}'")
        return body

    # -- literals

    def list_literal(self, expr: ListLiteral) -> Type:
        element: Type | None = None
        for place, item in enumerate(expr.items):
            found = self.check(item)
            if place in expr.optional:
                found = self.unwrapped_optional(item, found)
            element = self.joined(element, found)
        return t.list_of(element or Variable())

    def map_literal(self, expr: MapLiteral) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in expr.entries:
            key = self.joined(key, self.check(entry.key))
            found = self.check(entry.value)
            if entry.optional:
                found = self.unwrapped_optional(entry.value, found)
            value = self.joined(value, found)
        return t.map_of(key or Variable(), value or Variable())

    def unwrapped_optional(self, expr: Expr, type: Type) -> Type:
        inner = t.resolved(type)
        if inner.kind == "optional":
            return inner.params[0]
        if not t.is_dynamic(inner):
            shown = t.final(inner)
            self.report(expr.offset, f"expected type 'optional_type({shown})' but found '{shown}'")
        return inner

    def joined(self, before: Type | None, found: Type) -> Type:
        """The type of elements of a literal; where it makes sense to mix types is for `literals` to say."""
        return found if before is None else self.bindings.joined(before, found) or t.DYN

    def struct(self, expr: StructLiteral) -> Type:
        struct = self.structs.get(expr.name)
        for init in expr.fields:
            found = self.check(init.value)
            if init.optional:
                found = self.unwrapped_optional(init.value, found)
            if struct is None:
                continue
            field = struct.field(init.name)
            if field is None:
                self.report(init.offset, f"undefined field '{init.name}'")
            elif not self.bindings.assignable(found, field):
                message = f"expected type of field '{init.name}' is '{field}' but provided type is '{t.final(found)}'"
                self.report(init.offset, message)
        return struct or self.undeclared(expr.offset, expr.name)
