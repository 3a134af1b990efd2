"""What an expression can cost at worst, judged before any object is there.

The model is that of Kubernetes, since its verdict decides which definitions a real cluster accepts: looking at
something costs 1, walking a text a tenth of its length, a pattern a quarter of its length for each such step, a new
list 10, a new map 30, a loop the cost of a round for every element that the schema allows. Sizes come from limits in
the schema (`maxItems`, `maxLength`, ...), else from the largest request there can be.

Some corners of the model are odd (a loop variable over something that is not a field is taken to be as large as the
whole value under the rule); they are kept, because the sum must come out the same.
"""

from collections.abc import Sequence

from kohort.cluster.apiserver.cel.amounts import (
    LIMITLESS,
    NEW_LIST,
    NEW_MAP,
    NEW_STRUCT,
    SCALARS,
    TEXT,
    UNKNOWN,
    ElementSizes,
    LocalVariable,
    Size,
    capped,
    fixed,
    scaled,
)
from kohort.cluster.apiserver.cel.function_costs import own_cost
from kohort.cluster.apiserver.cel.sizes import ValueExtent
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
)
from kohort.cluster.apiserver.cel.types import Type


def worst_case(tree: Expr, root: ValueExtent) -> int:
    """The highest cost of a checked expression over values of the extent `root`."""
    return Estimator(root).cost(tree)


class Estimator:
    def __init__(self, root: ValueExtent) -> None:
        self._root = root
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Size] = {}
        self._entries: dict[int, ElementSizes] = {}
        self._locals: dict[str, list[LocalVariable]] = {}

    # -- sizes

    def path(self, expr: Expr) -> tuple[str, ...]:
        if isinstance(expr, Ident) and (known := self._locals.get(expr.name)):
            return known[-1].path
        return self._paths.get(id(expr), ())

    def size(self, expr: Expr) -> Size | None:
        known = self._sizes.get(id(expr)) or _literal_size(expr) or self.size_at(self.path(expr))
        if known is not None:
            return known
        if _is_scalar(expr.type):
            return fixed(1)
        if isinstance(expr, Ident) and (local := self._locals.get(expr.name)):
            return local[-1].size
        return None

    def size_or_unknown(self, expr: Expr) -> Size:
        return self.size(expr) or UNKNOWN

    def size_at(self, path: tuple[str, ...]) -> Size | None:
        """The extent below a path. The name in front is not looked at."""
        if not path:
            return None
        extent: ValueExtent | None = self._root
        for name in path[1:]:
            if extent is None:
                return None
            extent = extent.step(name)
        return Size(0, extent.elements) if extent is not None else None

    def entry(self, expr: Expr) -> ElementSizes | None:
        if id(expr) in self._entries:
            return self._entries[id(expr)]
        if isinstance(expr, Ident) and (local := self._locals.get(expr.name)):
            return local[-1].entry
        return None

    # -- costs

    def cost(self, expr: Expr) -> int:
        match expr:
            case Literal():
                return 0
            case Ident():
                known = self._locals.get(expr.name)
                self._paths[id(expr)] = known[-1].path if known else (expr.name,)
                return 1
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
                return capped(NEW_STRUCT + sum(self.cost(field.value) for field in expr.fields))
        raise AssertionError(expr)

    def select(self, expr: Select) -> int:
        if expr.qualified:
            self._paths[id(expr)] = (expr.qualified,)
            return 1
        cost = self.cost(expr.operand)
        if expr.test:
            return cost
        if expr.optional:
            return capped(cost + 1)
        self._paths[id(expr)] = (*self.path(expr.operand), expr.field)
        return capped(cost + (expr.operand.type.kind in ("map", "object")))

    def list_literal(self, expr: ListLiteral) -> int:
        cost = sum(self.cost(item) for item in expr.items)
        self._entries[id(expr)] = ElementSizes("list", fixed(1), self.widest(expr.items))
        return capped(cost + NEW_LIST)

    def map_literal(self, expr: MapLiteral) -> int:
        cost = sum(self.cost(entry.key) + self.cost(entry.value) for entry in expr.entries)
        keys = self.widest([entry.key for entry in expr.entries])
        values = self.widest([entry.value for entry in expr.entries])
        self._entries[id(expr)] = ElementSizes("map", keys, values)
        return capped(cost + NEW_MAP)

    def widest(self, exprs: Sequence[Expr]) -> Size:
        sizes = [self.size_or_unknown(expr) for expr in exprs]
        if not sizes:
            return Size(0, 0)
        return Size(min(size.least for size in sizes), max(size.most for size in sizes))

    # -- calls

    def call(self, expr: Call) -> int:
        arguments = [self.cost(arg) for arg in expr.args]
        if expr.function == "dyn":
            self.copy(expr, expr.args[0])
            return capped(1 + arguments[0])
        if expr.function in ("_&&_", "_||_"):
            return capped(sum(arguments))
        target = self.cost(expr.target) if expr.target is not None else 0
        if expr.function == "_?_:_":
            return self.conditional(expr, arguments)
        costs = [own_cost(self, expr, overload) for overload in expr.overloads]
        self.note_index(expr)
        return capped(target + sum(arguments) + max(costs, default=0))

    def conditional(self, expr: Call, costs: list[int]) -> int:
        _, yes, no = expr.args
        self._sizes[id(expr)] = self.size_or_unknown(yes).union(self.size_or_unknown(no))
        self.keep_entry(expr, self.joined_entry(yes, no))
        return capped(costs[0] + max(costs[1], costs[2]))

    def joined_entry(self, one: Expr, two: Expr) -> ElementSizes | None:
        first, second = self.entry(one), self.entry(two)
        if first is None or second is None:
            return None
        return ElementSizes(first.kind, first.key.union(second.key), first.value.union(second.value))

    def keep_size(self, expr: Expr, size: Size) -> None:
        self._sizes[id(expr)] = size

    def keep_entry(self, expr: Expr, entry: ElementSizes | None) -> None:
        if entry is not None:
            self._entries[id(expr)] = entry

    def copy(self, target: Expr, source: Expr) -> None:
        if (size := self.size(source)) is not None:
            self._sizes[id(target)] = size
        self.keep_entry(target, self.entry(source))

    def note_index(self, expr: Call) -> None:
        """`list[i]` and `map[k]` go on the path of what they look into."""
        if expr.function != "_[_]":
            return
        container = expr.args[0]
        kinds = {overload.params[0].kind for overload in expr.overloads}
        entry = self.entry(container)
        if entry is not None:
            self._sizes[id(expr)] = entry.value
        last = "@values" if "map" in kinds else "@items" if "list" in kinds else ""
        if last:
            self._paths[id(expr)] = (*self.path(container), last)

    # -- macros

    def loop_variables(self, expr: Comprehension) -> dict[str, LocalVariable]:
        entry = self.entry(expr.range)
        kind = entry.kind if entry is not None else expr.range.type.kind
        path = self.path(expr.range)
        values = LocalVariable((*path, "@items" if kind == "list" else "@values"), entry.value if entry else None, None)
        keys = LocalVariable((*path, "@indices" if kind == "list" else "@keys"), entry.key if entry else None, None)
        if expr.second:
            return {expr.first: keys, expr.second: values}
        return {expr.first: values if kind == "list" else keys}

    def comprehension(self, expr: Comprehension) -> int:
        cost = self.cost(expr.range)
        count = self.size_or_unknown(expr.range)
        variables = self.loop_variables(expr)
        for name, local in variables.items():
            self._locals.setdefault(name, []).append(local)
        condition = self.cost(expr.condition) if expr.condition is not None else 0
        step, around, value = self.round(expr)
        for name in variables:
            self._locals[name].pop()
        if expr.condition is not None:
            step = condition + max(step, 1)
        if expr.kind in ("all", "exists", "exists_one"):
            self._sizes[id(expr)] = fixed(1)
        else:
            self._sizes[id(expr)] = count
            if value is not None:
                self._entries[id(expr)] = value
        if expr.kind == "sortBy":
            around += self.sort_cost(expr.body.type, count)
        return capped(cost + around + capped(count.most * capped(step)))

    def round(self, expr: Comprehension) -> tuple[int, int, ElementSizes | None]:
        """Cost of a round, cost of what stands around the loop, and what the result consists of."""
        body = expr.body
        if expr.kind == "transformMapEntry":
            assert isinstance(body, MapLiteral)
            return self.map_literal(body) + 2, NEW_MAP + 1, self.entry(body)
        cost = self.cost(body)
        match expr.kind:
            case "all":
                return cost + 3, 1, None
            case "exists":
                return cost + 4, 1, None
            case "exists_one":
                return cost + 2, 2, None
            case "filter":
                item = Ident(expr.range.offset, expr.first)
                item.type = expr.type.params[0]
                return cost + 13, NEW_LIST + 1, ElementSizes("list", fixed(1), Size(0, self.size_or_unknown(item).most))
            case "transformMap":
                key, value = Size(0, LIMITLESS), Size(0, self.size_or_unknown(body).most)
                return cost + 3, NEW_MAP + 1, ElementSizes("map", key, value)
        # map, transformList, and the keys of sortBy
        return cost + 12, NEW_LIST + 1, ElementSizes("list", fixed(1), Size(0, self.size_or_unknown(body).most))

    def sort_cost(self, key: Type, count: Size) -> int:
        factor = 2.0 + (TEXT if key.kind in ("string", "bytes") else 0)
        return NEW_LIST + 2 + NEW_LIST + 1 + scaled(capped(count.most * count.most), factor)

    def optional_map(self, expr: OptionalMap) -> int:
        value = self.cost(expr.value)
        self._locals.setdefault(expr.name, []).append(LocalVariable((), None, None))
        body = self.cost(expr.body)
        self._locals[expr.name].pop()
        bound = NEW_LIST + value + 1 + body + (1 if expr.rewrap else 0)
        return capped(value + 1 + max(bound, 1))


def _literal_size(expr: Expr) -> Size | None:
    if isinstance(expr, Literal):
        return fixed(len(expr.value) if isinstance(expr.value, (str, bytes)) else 1)
    if isinstance(expr, ListLiteral):
        return fixed(len(expr.items))
    if isinstance(expr, MapLiteral):
        return fixed(len(expr.entries))
    return None


def _is_scalar(type: Type) -> bool:
    return type.kind in SCALARS or (type.kind == "optional" and _is_scalar(type.params[0]))
