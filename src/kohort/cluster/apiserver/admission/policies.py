"""Admission policies: rules that users write as expressions, without a webhook.

A policy says what must hold (or, for mutating ones, what to change); a binding says where it is in force, with which
parameters, and whether a violation denies, warns or is only audited. Policies are compiled when they change.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from kohort.cluster.apiserver.admission import matching
from kohort.cluster.apiserver.admission.expressions import arguments, variable_values
from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.object_conversion import KindsOf, converted, node_of, replace_content, reshaped
from kohort.cluster.apiserver.admission.policy_mutations import Mutation, apply_mutation
from kohort.cluster.apiserver.admission.policy_objects import (
    Binding,
    Policy,
    PolicyCatalog,
    Validation,
    condition_environment,
)
from kohort.cluster.apiserver.admission.policy_parameters import FindKind, ParameterProblem, Parameters
from kohort.cluster.apiserver.admission.reinvocation import Reinvocation
from kohort.cluster.apiserver.cel import Budget, BudgetExceeded, CelError, Environment, Program
from kohort.cluster.apiserver.cel.admission_environments import policy_environment
from kohort.cluster.apiserver.cel.budget import PER_OBJECT
from kohort.cluster.apiserver.cel.functions.authorizer import Authorize
from kohort.cluster.apiserver.cel.values import NONE, Optional, WrappedMap
from kohort.cluster.apiserver.schema.decode import DecodingFailed
from kohort.cluster.apiserver.storage.model import Store
from kohort.kube import errors
from kohort.kube.resources import Resource
from kohort.objects.json_types import Json, JsonObject

_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_MAX_MESSAGE: Final = 5 * 1024


class Evaluation:
    """The values that the expressions of one policy see, for one request and one set of parameters."""

    def __init__(self, policy: Policy, values: JsonObject) -> None:
        self.budget = Budget(PER_OBJECT)
        self._values = {**values, "variables": _Variables(policy, self)}

    def run(self, program: Program, environment: Environment) -> Json:
        return program(*arguments(environment, self._values), budget=self.budget)


class _Variables(WrappedMap):
    """A policy's own variables: evaluated when first read, and then remembered."""

    __slots__ = ("_evaluation", "_policy", "_programs")

    def __init__(self, policy: Policy, evaluation: Evaluation) -> None:
        super().__init__({})
        self.raw: dict[str, Json] = {}
        self._policy = policy
        self._evaluation = evaluation
        self._programs = dict(policy.variables)

    def find(self, name: Json) -> Optional:
        if name in self.raw:
            return Optional(self.raw[name])
        program = self._programs.get(name)
        if program is None:
            return NONE
        try:
            self.raw[name] = self._evaluation.run(program, self._policy.environment)
        except CelError as error:
            raise CelError(f'composited variable "{name}" fails to evaluate: {error}') from None
        return Optional(self.raw[name])

    def keys(self) -> Iterator[str]:
        return iter(self._programs)


class PolicyDecision:
    """Why a request is denied by a policy under a binding."""

    __slots__ = ("message", "reason")

    def __init__(self, message: str, reason: str = "Invalid") -> None:
        self.message = message
        self.reason = reason


class Policies:
    def __init__(self, store: Store, kinds_of: KindsOf, find_kind: FindKind, authorize: Authorize) -> None:
        self._store = store
        self._kinds_of = kinds_of
        self._authorize = authorize
        self._parameters = Parameters(store, find_kind)
        self._validating = PolicyCatalog(store, "validating")
        self._mutating = PolicyCatalog(store, "mutating")

    # -- validating

    async def validate(self, attributes: Attributes) -> None:
        denied: tuple[str, PolicyDecision] | None = None
        for policy, bindings in self._validating.entries():
            for subject, decision, actions in self._judged(policy, bindings, attributes):
                if "Warn" in actions:
                    text = f"Validation failed for ValidatingAdmissionPolicy {subject}: {decision.message}"
                    attributes.warnings.append(text)
                if "Deny" in actions and denied is None:
                    denied = (f"ValidatingAdmissionPolicy {subject} denied request: {decision.message}", decision)
        if denied is not None:
            raise _denial(attributes, *denied)

    def _judged(
        self, policy: Policy, bindings: list[Binding], attributes: Attributes
    ) -> Iterator[tuple[str, PolicyDecision, list[str]]]:
        others = partial(self._equivalents, attributes.resource, attributes.subresource)
        matched = policy.match.matched(attributes, others, self._store)
        if matched is None:
            return
        for binding in bindings:
            if binding.match.matched(attributes, others, self._store) is None:
                continue
            subject = f"'{policy.name}' with binding '{binding.name}'"
            try:
                parameters = self._parameters.of(policy.param_kind, binding.param_ref, attributes.namespace)
            except ParameterProblem as problem:
                if not policy.ignore_failure:
                    yield subject, PolicyDecision(f"failed to configure binding: {problem}"), ["Deny"]
                continue
            for parameter in parameters:
                for decision in self._decisions(policy, attributes, matched, parameter):
                    yield subject, decision, binding.actions

    def _decisions(
        self, policy: Policy, attributes: Attributes, matched: Resource, parameter: JsonObject | None
    ) -> Iterator[PolicyDecision]:
        if policy.problem:
            if not policy.ignore_failure:
                yield PolicyDecision(policy.problem)
            return
        evaluation = self._evaluation(policy, attributes, matched, parameter)
        try:
            if not self._conditions_hold(policy, evaluation):
                return
        except CelError as error:
            if not policy.ignore_failure:
                yield PolicyDecision(str(error))
            return
        for validation in policy.validations:
            try:
                holds = evaluation.run(validation.program, policy.environment)
            except (CelError, BudgetExceeded) as error:
                if not policy.ignore_failure:
                    yield PolicyDecision(f"expression '{validation.expression}' resulted in error: {error}")
                continue
            if holds is not True:
                yield PolicyDecision(_message(validation, evaluation, policy), validation.reason)

    # -- mutating

    async def mutate(self, attributes: Attributes, round: Reinvocation) -> None:
        if attributes.object is None or attributes.operation not in ("CREATE", "UPDATE"):
            return
        others = partial(self._equivalents, attributes.resource, attributes.subresource)
        for policy, bindings in self._mutating.entries():
            key = f"policy/{policy.name}"
            matched = policy.match.matched(attributes, others, self._store)
            if matched is None or (round.second_round and key not in round.to_call):
                continue
            for binding in bindings:
                if binding.match.matched(attributes, others, self._store) is None:
                    continue
                if self._mutate_with(policy, binding, attributes, matched):
                    round.changed()
                    round.wanted = True
            if policy.reinvoke:
                round.called.add(key)

    def _mutate_with(self, policy: Policy, binding: Binding, attributes: Attributes, matched: Resource) -> bool:
        try:
            if policy.problem:
                raise CelError(policy.problem)
            changed = False
            for parameter in self._parameters.of(policy.param_kind, binding.param_ref, attributes.namespace):
                changed |= self._mutated(policy, attributes, matched, parameter)
            return changed
        except ParameterProblem as problem:
            if policy.ignore_failure:
                return False
            text = f"failed to configure binding: {problem}"
            raise _mutation_denial(attributes, policy, binding, text, "Forbidden") from None
        except (CelError, BudgetExceeded) as error:
            if policy.ignore_failure:
                return False
            raise _mutation_denial(attributes, policy, binding, str(error)) from None

    def _mutated(self, policy: Policy, attributes: Attributes, matched: Resource, parameter: JsonObject | None) -> bool:
        obj = attributes.object
        assert obj is not None
        evaluation = self._evaluation(policy, attributes, matched, parameter)
        if not self._conditions_hold(policy, evaluation):
            return False
        changed = False
        for mutation in policy.mutations:
            before = converted(obj, attributes, matched, self._kinds_of)
            evaluation = self._evaluation(policy, attributes, matched, parameter)
            outcome = _outcome(mutation, evaluation, policy)
            after = apply_mutation(mutation, before, outcome, node_of(before, matched, self._kinds_of))
            try:
                reshaped(after, attributes, matched, self._kinds_of)
            except DecodingFailed as error:
                raise errors.internal(error.detail) from None
            if after != before:
                replace_content(obj, after, attributes, matched, self._kinds_of)
                changed = True
        return changed

    # -- both

    def _equivalents(self, resource: Resource, subresource: str) -> list[Resource]:
        return matching.equivalents(self._kinds_of(resource), subresource)

    def _evaluation(
        self, policy: Policy, attributes: Attributes, matched: Resource, parameter: JsonObject | None
    ) -> Evaluation:
        values = variable_values(attributes, matched, self._authorize)
        for name in ("object", "oldObject"):
            if values[name] is not None:
                values[name] = converted(values[name], attributes, matched, self._kinds_of)
        values["params"] = parameter
        stored = self._store.get("namespaces", "", attributes.namespace) if attributes.namespace else None
        values["namespaceObject"] = stored.decode() if stored is not None else None
        return Evaluation(policy, values)

    def _conditions_hold(self, policy: Policy, evaluation: Evaluation) -> bool:
        problems = []
        environment = condition_environment(policy.param_kind is not None)
        for condition in policy.conditions:
            try:
                if evaluation.run(condition, environment) is False:
                    return False
            except CelError as error:
                problems.append(f"expression '{condition.source}' resulted in error: {error}")
        if problems:
            raise CelError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        return True


def _message(validation: Validation, evaluation: Evaluation, policy: Policy) -> str:
    if validation.message_program is not None:
        try:
            computed = evaluation.run(validation.message_program, _without_authorizer(policy))
        except (CelError, BudgetExceeded):
            computed = None
        if isinstance(computed, str):
            text = computed.strip()
            if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE:
                return text
    return validation.message or f"failed expression: {validation.expression}"


def _without_authorizer(policy: Policy) -> Environment:
    types = {name: program.result_type for name, program in policy.variables}
    return policy_environment(types, params=policy.param_kind is not None, authorizer=False)


def _outcome(mutation: Mutation, evaluation: Evaluation, policy: Policy) -> Json:
    try:
        return evaluation.run(mutation.program, policy.environment)
    except CelError as error:
        raise CelError(f"expression '{mutation.program.source}' resulted in error: {error}") from None


def _mutation_denial(
    attributes: Attributes, policy: Policy, binding: Binding, problem: str, reason: str = "Invalid"
) -> errors.ApiError:
    message = f"policy '{policy.name}' with binding '{binding.name}' denied request: {problem}"
    resource = attributes.resource
    cause = errors.StatusCause(message=message)
    return errors.failure(
        403, reason, message, name=attributes.shown_name, group=resource.group, kind=resource.plural, causes=[cause]
    )


def _denial(attributes: Attributes, message: str, decision: PolicyDecision) -> errors.ApiError:
    resource = attributes.resource
    cause = errors.StatusCause(message=message)
    forbidden = errors.forbidden(resource.plural, attributes.shown_name, message, resource.group, [cause])
    status = forbidden.status
    status.reason = decision.reason
    status.code = _CODES.get(decision.reason, 422)
    return errors.from_status(status)
