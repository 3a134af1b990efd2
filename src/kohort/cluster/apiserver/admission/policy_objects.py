"""Policies and their bindings as they are stored, compiled for use."""

from functools import cache
from typing import Final

from kohort.cluster.apiserver.admission.matching import Equivalents, Rule, Selectors, first_match
from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.policy_mutations import Mutation
from kohort.cluster.apiserver.cel import CompileError, Environment, Program
from kohort.cluster.apiserver.cel.admission_environments import policy_environment
from kohort.cluster.apiserver.cel.types import Type
from kohort.cluster.apiserver.storage.model import Store, Stored
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject

_GROUP: Final = "admissionregistration.k8s.io"


class MatchResources:
    """`matchConstraints` of a policy, `matchResources` of a binding."""

    __slots__ = ("equivalent", "excluded", "rules", "selectors")

    def __init__(self, match: JsonObject | None) -> None:
        match = match or {}
        self.rules = tuple(Rule.parse(rule) for rule in match.get("resourceRules") or ())
        self.excluded = tuple(Rule.parse(rule) for rule in match.get("excludeResourceRules") or ())
        self.equivalent = (match.get("matchPolicy") or "Equivalent") == "Equivalent"
        self.selectors = Selectors(match.get("namespaceSelector"), match.get("objectSelector"))

    def matched(self, attributes: Attributes, equivalents: Equivalents, store: Store) -> Resource | None:
        others = equivalents if self.equivalent else None
        if self.excluded and first_match(self.excluded, attributes, others) is not None:
            return None
        matched = first_match(self.rules, attributes, others) if self.rules else attributes.resource
        if matched is None or not self.selectors.match(attributes, store):
            return None
        return matched


class Validation:
    __slots__ = ("expression", "message", "message_program", "program", "reason")

    def __init__(self, entry: JsonObject, environment: Environment, messages: Environment) -> None:
        self.expression = entry["expression"].strip()
        self.program = environment.compile(entry["expression"])
        self.message = (entry.get("message") or "").strip()
        self.reason = entry.get("reason") or "Invalid"
        text = entry.get("messageExpression")
        self.message_program = messages.compile(text) if text else None


class Policy:
    """A policy, compiled. `problem` says why it cannot be used."""

    def __init__(self, stored: Stored, *, mutating: bool) -> None:
        document = stored.decode()
        spec = document.get("spec") or {}
        self.name = stored.name
        self.match = MatchResources(spec.get("matchConstraints"))
        self.ignore_failure = spec.get("failurePolicy") == "Ignore"
        self.reinvoke = spec.get("reinvocationPolicy") == "IfNeeded"
        self.param_kind: JsonObject | None = spec.get("paramKind")
        self.variables: list[tuple[str, Program]] = []
        self.conditions: list[Program] = []
        self.validations: list[Validation] = []
        self.mutations: list[Mutation] = []
        self.problem = ""
        self.environment = policy_environment({}, params=True)
        try:
            self._compile(spec, mutating)
        except CompileError as error:
            self.problem = f"compilation error: compilation failed: {error}"

    def _compile(self, spec: JsonObject, mutating: bool) -> None:
        params = self.param_kind is not None
        known: dict[str, Type] = {}
        environment = policy_environment(known, params=params, mutating=mutating)
        conditions = condition_environment(params)
        self.conditions = [conditions.compile(entry["expression"]) for entry in spec.get("matchConditions") or ()]
        for variable in spec.get("variables") or ():
            program = environment.compile(variable["expression"])
            self.variables.append((variable["name"], program))
            known[variable["name"]] = program.result_type
            environment = policy_environment(known, params=params, mutating=mutating)
        self.environment = environment
        messages = policy_environment(known, params=params, authorizer=False)
        self.validations = [Validation(entry, environment, messages) for entry in spec.get("validations") or ()]
        self.mutations = [Mutation(entry, environment) for entry in spec.get("mutations") or ()]


class Binding:
    def __init__(self, stored: Stored) -> None:
        spec = stored.decode().get("spec") or {}
        self.name = stored.name
        self.policy: str = spec.get("policyName") or ""
        self.match = MatchResources(spec.get("matchResources"))
        self.param_ref: JsonObject | None = spec.get("paramRef")
        self.actions: list[str] = list(spec.get("validationActions") or ())


class PolicyCatalog:
    """Policies with their bindings, compiled anew when one of them changed."""

    def __init__(self, store: Store, kind: str) -> None:
        self._store = store
        self._mutating = kind == "mutating"
        self._policies = f"{kind}admissionpolicies.{_GROUP}"
        self._bindings = f"{kind}admissionpolicybindings.{_GROUP}"
        self._seen: tuple[tuple[str, int], ...] = ()
        self._entries: list[tuple[Policy, list[Binding]]] = []

    def entries(self) -> list[tuple[Policy, list[Binding]]]:
        policies, bindings = self._store.list(self._policies), self._store.list(self._bindings)
        seen = tuple((one.name, one.revision) for one in (*policies, *bindings))
        if seen != self._seen:
            bound = [Binding(one) for one in bindings]
            self._entries = [
                (Policy(one, mutating=self._mutating), [binding for binding in bound if binding.policy == one.name])
                for one in policies
            ]
            self._seen = seen
        return self._entries


def condition_environment(params: bool) -> Environment:
    """Conditions decide before the policy's variables exist."""
    return _WITH_PARAMS() if params else _WITHOUT_PARAMS()


_WITH_PARAMS: Final = cache(lambda: policy_environment({}, params=True, variables_visible=False))
_WITHOUT_PARAMS: Final = cache(lambda: policy_environment({}, params=False, variables_visible=False))
