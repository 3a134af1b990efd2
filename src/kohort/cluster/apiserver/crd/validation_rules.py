"""Validation rules of a schema (`x-kubernetes-validations`), applied to an object.

The rules of a schema form a tree beside the schema's own; only branches that contain a rule are ever visited. Rules are
compiled when an object first reaches them. A rule that mentions `oldSelf` judges a change and needs an old value; any
other rule judges the new value and is waived (with a warning) where nothing changed.
"""

from contextlib import suppress
from typing import Final

from kohort.cluster.apiserver.cel import Budget, BudgetExceeded, CelError, CompileError, Program, kubernetes_environment
from kohort.cluster.apiserver.cel import types as t
from kohort.cluster.apiserver.cel.budget import PER_CALL, PER_OBJECT
from kohort.cluster.apiserver.cel.errors import NoOverload
from kohort.cluster.apiserver.cel.schema_types import schema_type, wrapper
from kohort.cluster.apiserver.cel.types import Type
from kohort.cluster.apiserver.cel.values import NONE, Optional
from kohort.cluster.apiserver.crd.field_paths import ROOT, below, entry, item
from kohort.cluster.apiserver.crd.json_path import normalized_path
from kohort.cluster.apiserver.crd.old_value_correlation import Correlation
from kohort.cluster.apiserver.schema.has_rules import has_rules
from kohort.cluster.apiserver.schema.node import Node, Rule
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import Json, JsonObject

MAX_MESSAGE: Final = 5 * 1024


def validate_rules(
    obj: JsonObject,
    old: JsonObject | None,
    schema: "Node | RuleTree | None",
    *,
    warnings: list[str] | None = None,
) -> list[FieldError]:
    """What the rules of a schema have against an object, or against its change from `old`.

    To validate many objects, make the `rule_tree` of the schema once and pass it.
    """
    tree = rule_tree(schema) if isinstance(schema, Node) else schema
    if tree is None:
        return []
    run = _Run(warnings if warnings is not None else [])
    root = Correlation(obj, old, tree.node) if old is not None else None
    with suppress(BudgetExceeded):  # the rule that spent the budget has reported it; the others are not run
        run.visit(tree, ROOT, obj, _Place(root, None))
    return run.errors


# -- the tree


class CompiledRule:
    """A rule with its programs. `problem` says why there are none."""

    __slots__ = ("field_path", "message", "message_program", "problem", "program", "rule")

    def __init__(self, rule: Rule, node: Node, type: Type | None) -> None:
        self.rule = rule
        self.message = (rule.message or rule.rule).strip()
        self.program: Program | None = None
        self.message_program: Program | None = None
        self.field_path = normalized_path(rule.field_path, node) if rule.field_path else ""
        self.problem = ""
        if type is None:
            self.problem = "unable to convert structural schema to CEL declarations"
            return
        try:
            self.program = compile_rule(rule.rule, type, optional_old=rule.optional_old_self)
            if rule.message_expression:
                self.message_program = compile_rule(rule.message_expression, type, optional_old=rule.optional_old_self)
        except CompileError as error:
            self.problem = f"compilation failed: {error}"

    @property
    def transition(self) -> bool:
        return self.program is not None and "oldSelf" in self.program.uses


def compile_rule(source: str, type: Type, *, optional_old: bool) -> Program:
    """A rule or message expression over a value of `type`. Raises CompileError."""
    if optional_old:
        variables, raw = {"self": type, "oldSelf": t.optional_of(type)}, ["self"]
    else:
        variables, raw = {"self": type, "oldSelf": type}, ["self", "oldSelf"]
    return kubernetes_environment().with_variables(variables, raw=raw).compile(source)


class RuleTree:
    """The rules at one level of a schema and the branches below it that have rules."""

    __slots__ = ("_children", "_items", "_rules", "node", "root")

    def __init__(self, node: Node, *, root: bool = False) -> None:
        self.node = node
        self.root = root
        self._rules: list[CompiledRule] | None = None
        self._children: dict[str, RuleTree | None] = {}
        self._items: tuple[RuleTree | None] | None = None

    @property
    def rules(self) -> list[CompiledRule]:
        if self._rules is None:
            type = schema_type(self.node, root=self.root) if self.node.rules else None
            self._rules = [CompiledRule(rule, self.node, type) for rule in self.node.rules if rule.rule.strip()]
        return self._rules

    def child(self, name: str) -> "RuleTree | None":
        """The branch below a declared field."""
        if name not in self._children:
            node = self.node.fields.get(name)
            self._children[name] = None if node is None else rule_tree(node, root=False)
        return self._children[name]

    @property
    def items(self) -> "RuleTree | None":
        """The branch below every element of a list, or every value of a map."""
        if self._items is None:
            self._items = (rule_tree(self.node.items, root=False),)
        return self._items[0]


def rule_tree(node: Node, *, root: bool = True) -> RuleTree | None:
    """The rules of a schema; None when it has none. `root`: it is the schema of a resource."""
    return RuleTree(node, root=root) if node.source is not None and has_rules(node.source) else None


# -- the walk


class _Place:
    """Where the walk is: the corresponding old value, or else the nearest place above that had one."""

    __slots__ = ("above", "here")

    def __init__(self, here: Correlation | None, above: Correlation | None) -> None:
        self.here = here
        self.above = above

    @property
    def waived(self) -> bool:
        """Whether nothing changed here, so that violations are old ones."""
        nearest = self.here or self.above
        return nearest is not None and nearest.unchanged

    def key(self, name: str) -> "_Place":
        if self.here is None:
            return self
        if self.above is None and name in ("apiVersion", "kind"):
            return _Place(None, None)
        return _Place(self.here.key(name), self.here)

    def index(self, position: int) -> "_Place":
        return self if self.here is None else _Place(self.here.index(position), self.here)


class _Run:
    def __init__(self, warnings: list[str]) -> None:
        self.errors: list[FieldError] = []
        self.warnings = warnings
        self.budget = Budget(PER_CALL)
        self.left = PER_OBJECT

    def visit(self, tree: RuleTree, path: str, value: Json, place: _Place) -> None:
        if value is None:
            return
        for rule in tree.rules:
            self.judge(tree.node, rule, path, value, place)
        if isinstance(value, dict):
            self.visit_map(tree, path, value, place)
        elif isinstance(value, list) and tree.node.type == "array":
            branch = tree.items
            if branch is not None:
                for position, element in enumerate(value):
                    self.visit(branch, item(path, position), element, place.index(position))

    def visit_map(self, tree: RuleTree, path: str, value: JsonObject, place: _Place) -> None:
        every = tree.items if tree.node.type == "map" else None
        for name, inner in value.items():
            branch = tree.child(name)
            if branch is not None:
                self.visit(branch, below(path, name), inner, place.key(name))
            elif every is not None:
                self.visit(every, entry(path, name), inner, place.key(name))

    def judge(self, node: Node, rule: CompiledRule, path: str, value: Json, place: _Place) -> None:
        shown_type = node.source.get("type", "") if node.source else node.type
        if rule.program is None:
            self.errors.append(field_errors.invalid(path, shown_type, f"rule compile error: {rule.problem}"))
            return
        old = place.here.old if place.here is not None else None
        if rule.transition and old is None and not rule.rule.optional_old_self:
            return
        try:
            holds = self.evaluate(rule.program, node, rule, value, old)
        except CelError as error:
            self.errors.append(field_errors.invalid(path, shown_type, _failure(error, rule.message)))
            return
        except BudgetExceeded as error:
            detail = f"'{error}': no further validation rules will be run due to call cost exceeds limit for rule: "
            self.errors.append(field_errors.invalid(path, shown_type, detail + rule.message))
            raise
        if holds is True:
            return
        found = self.violation(node, rule, path, value, old)
        if not rule.transition and place.waived:
            self.warnings.append(str(found))
        else:
            self.errors.append(found)

    def evaluate(self, program: Program, node: Node, rule: CompiledRule, value: Json, old: Json) -> Json:
        budget = self.budget
        allowed = budget.left = min(PER_CALL, self.left)
        try:
            if rule.rule.optional_old_self:
                return program(value, _optional(old, node) if old is not None else NONE, budget=budget)
            return program(value, old, budget=budget)
        finally:
            self.left -= allowed - budget.left

    def violation(self, node: Node, rule: CompiledRule, path: str, value: Json, old: Json) -> FieldError:
        field = below(path, rule.field_path) if rule.field_path else path
        detail = self.message(node, rule, value, old)
        composite = isinstance(value, (dict, list))
        match rule.rule.reason:
            case "FieldValueForbidden":
                return field_errors.forbidden(field, detail)
            case "FieldValueRequired":
                return field_errors.required(field, detail)
            case "FieldValueDuplicate":
                shown = "Duplicate value" if composite else f"Duplicate value: {field_errors.shown(value)}"
                return FieldError(field_errors.DUPLICATE, field, shown)
            case _ if composite:
                return FieldError(field_errors.INVALID, field, f"Invalid value: {detail}")
            case _:
                return field_errors.invalid(field, value, detail)

    def message(self, node: Node, rule: CompiledRule, value: Json, old: Json) -> str:
        """The text for a violation: computed if the rule says how and that yields one line, else the fixed one."""
        if rule.message_program is not None:
            try:
                computed = self.evaluate(rule.message_program, node, rule, value, old)
            except CelError:
                computed = None
            if isinstance(computed, str):
                text = computed.strip()
                if text and "\n" not in text and len(text.encode()) <= MAX_MESSAGE:
                    return text
        return rule.rule.message.strip() or f"failed rule: {rule.message}"


def _optional(old: Json, node: Node) -> Optional:
    type = schema_type(node)
    wrap = wrapper(type) if type is not None else None
    return Optional(wrap(old) if wrap else old)


def _failure(error: CelError, message: str) -> str:
    if isinstance(error, NoOverload):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro signature "
            f"for rule: {message}"
        )
    return f"{error} evaluating rule: {message}"
