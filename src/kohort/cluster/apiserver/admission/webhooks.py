"""Admission webhooks.

Configurations are read from the store and compiled when they change. Mutating webhooks run one after the other, in the
order of the names of their configurations, and each sees what the previous left; validating ones run at the same time.
A webhook that asked for an older or newer version of a resource gets the object in that version.

Second round: when a webhook changed the object, built-in steps run again, and webhooks that asked for it
(`reinvocationPolicy: IfNeeded`) and had run before something changed are called once more. There is no third round.

The expression language is imported for webhooks with match conditions only: few have any, and it is slow to import.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from kohort.cluster.apiserver.admission.matching import Rule, Selectors, equivalents, first_match
from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.object_conversion import KindsOf, converted, replace_content, reshaped
from kohort.cluster.apiserver.admission.reinvocation import Reinvocation
from kohort.cluster.apiserver.admission.reviews import (
    BadReview,
    ReviewDecision,
    denial,
    request_for,
    review_bytes,
    review_version,
    verdict_of,
)
from kohort.cluster.apiserver.admission.webhook_client import CallFailed, WebhookClient
from kohort.cluster.apiserver.patch import jsonpatch
from kohort.cluster.apiserver.schema.decode import DecodingFailed
from kohort.cluster.apiserver.storage.model import Store, Stored
from kohort.kube import errors
from kohort.kube.log import Log
from kohort.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from kohort.objects.json_types import Json, JsonObject

if TYPE_CHECKING:
    from kohort.cluster.apiserver.cel import Program
    from kohort.cluster.apiserver.cel.functions.authorizer import Authorize

DEFAULT_TIMEOUT: Final = 10


class Webhook:
    """One entry of a configuration, compiled."""

    __slots__ = (
        "client_config",
        "conditions",
        "equivalent",
        "ignore_failure",
        "key",
        "name",
        "problem",
        "reinvoke",
        "review",
        "rules",
        "selectors",
        "side_effects",
        "timeout",
    )

    def __init__(self, configuration: str, position: int, entry: JsonObject) -> None:
        self.name: str = entry["name"]
        self.key = f"{configuration}/{self.name}/{position}"
        self.client_config: JsonObject = entry.get("clientConfig") or {}
        self.rules = tuple(Rule.parse(rule) for rule in entry.get("rules") or ())
        self.equivalent = (entry.get("matchPolicy") or "Equivalent") == "Equivalent"
        self.ignore_failure = entry.get("failurePolicy") == "Ignore"
        self.reinvoke = entry.get("reinvocationPolicy") == "IfNeeded"
        self.side_effects = entry.get("sideEffects") or ""
        self.timeout = entry.get("timeoutSeconds") or DEFAULT_TIMEOUT
        self.review: list[str] = list(entry.get("admissionReviewVersions") or ())
        self.problem = ""
        self.conditions: list[Program] = []
        self.selectors = Selectors(None, None)
        try:
            self.selectors = Selectors(entry.get("namespaceSelector"), entry.get("objectSelector"))
        except ValueError as error:
            self.problem = str(error)
        else:
            self._compile([condition["expression"] for condition in entry.get("matchConditions") or ()])

    def _compile(self, expressions: list[str]) -> None:
        if not expressions:
            return
        from kohort.cluster.apiserver.cel import CompileError
        from kohort.cluster.apiserver.cel.admission_environments import condition_environment

        try:
            self.conditions = [condition_environment().compile(expression) for expression in expressions]
        except (ValueError, CompileError) as error:
            self.problem = str(error)


class Configurations:
    """The webhooks of one kind of configuration, compiled anew when one of them changed."""

    def __init__(self, store: Store, bucket: str) -> None:
        self._store = store
        self._bucket = bucket
        self._seen: Sequence[Stored] = ()
        self._webhooks: list[Webhook] = []
        self.answers: dict[tuple[str, Resource, str, bool], list[tuple[Webhook, Resource]]] = {}
        """Whose rules match, by operation, resource, subresource, and whether there is a namespace."""

    def webhooks(self) -> list[Webhook]:
        """In the order in which they are called: configurations by name, as the store lists them, and the webhooks of
        one configuration as they are written there."""
        stored = self._store.list(self._bucket)
        # The store hands out the same list until something in it changes.
        if stored is not self._seen:
            self._webhooks = [webhook for one in stored for webhook in _compiled(one)]
            self._seen = stored
            self.answers = {}
        return self._webhooks


def _compiled(stored: Stored) -> list[Webhook]:
    entries = stored.decode().get("webhooks") or ()
    return [Webhook(stored.name, position, entry) for position, entry in enumerate(entries)]


class Webhooks:
    """All admission webhooks of a server.

    `kinds_of` gives the served versions of a resource, `authorize` answers questions of match conditions.
    """

    def __init__(
        self,
        store: Store,
        client: WebhookClient,
        kinds_of: KindsOf,
        authorize: "Authorize",
    ) -> None:
        self._store = store
        self.client = client
        self._kinds_of = kinds_of
        self._authorize = authorize
        self._mutating = Configurations(store, MUTATING_WEBHOOKS.qualified)
        self._validating = Configurations(store, VALIDATING_WEBHOOKS.qualified)
        self._log = Log(part="admission")

    async def close(self) -> None:
        await self.client.close()

    # -- mutating

    async def mutate(self, attributes: Attributes, round: Reinvocation | None = None) -> None:
        """Let the mutating webhooks change `attributes.object`, in place."""
        round = round or Reinvocation()
        matching = self._matching(self._mutating, attributes)
        if not matching:
            return
        if round.second_round and round.last_output != _snapshot(attributes):
            round.changed()
        for webhook, matched in matching:
            wanted = self._wants(webhook, attributes, matched)
            if not wanted or (round.second_round and webhook.key not in round.to_call):
                continue
            if await self._mutate_with(webhook, attributes, matched):
                round.changed()
                round.wanted = True
            if webhook.reinvoke:
                round.called.add(webhook.key)
        if round.wanted:
            round.last_output = _snapshot(attributes)

    async def _mutate_with(self, webhook: Webhook, attributes: Attributes, matched: Resource) -> bool:
        """Whether the webhook changed the object."""
        verdict = await self._asked(webhook, attributes, matched, mutating=True)
        if verdict is None or not verdict.patch:
            return False
        obj = attributes.object
        if obj is None:
            raise errors.internal(
                f'admission webhook "{webhook.name}" attempted to modify the object, '
                "which is not supported for this operation"
            )
        before = converted(obj, attributes, matched, self._kinds_of)
        try:
            after = _patched(before, verdict.patch)
            reshaped(after, attributes, matched, self._kinds_of)
        except DecodingFailed as error:
            raise errors.internal(error.detail) from None
        except errors.InternalError:
            raise
        except errors.ApiError as error:
            raise errors.internal(error.message) from None
        if after == before:
            return False
        replace_content(obj, after, attributes, matched, self._kinds_of)
        return True

    # -- validating

    async def validate(self, attributes: Attributes) -> None:
        """Ask all validating webhooks at once; the first in their order that refuses decides the answer."""
        calls = []
        for webhook, matched in self._matching(self._validating, attributes):
            if self._wants(webhook, attributes, matched):
                calls.append(self._asked(webhook, attributes, matched, mutating=False))
        if len(calls) == 1:
            await calls[0]
        elif calls:
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, BaseException):
                    raise outcome

    # -- one webhook

    def _wants(self, webhook: Webhook, attributes: Attributes, matched: Resource) -> bool:
        """Whether a webhook whose rules match wants to see the object."""
        if webhook.problem:
            raise errors.internal(f'webhook "{webhook.name}" cannot be used: {webhook.problem}')
        if not webhook.selectors.match(attributes, self._store):
            return False
        return self._conditions_hold(webhook, attributes, matched)

    def _matching(self, configured: Configurations, attributes: Attributes) -> list[tuple[Webhook, Resource]]:
        """The webhooks whose rules match, each with the resource in the version that it wants to see. Of built-in kinds
        rules say the same again and again."""
        webhooks = configured.webhooks()
        if not webhooks:
            return []
        resource = attributes.resource
        question = (attributes.operation, resource, attributes.subresource, bool(attributes.namespace))
        known = configured.answers.get(question)
        if known is None:
            others = partial(self._equivalents, resource, attributes.subresource)
            answers = [first_match(one.rules, attributes, others if one.equivalent else None) for one in webhooks]
            known = [(one, matched) for one, matched in zip(webhooks, answers, strict=True) if matched is not None]
            kinds = self._kinds_of(resource)
            by_name = any(rule.names for webhook in webhooks for rule in webhook.rules)
            if kinds and not by_name and not any(kind.custom for kind in kinds):
                configured.answers[question] = known
        return known

    def _equivalents(self, resource: Resource, subresource: str) -> list[Resource]:
        return equivalents(self._kinds_of(resource), subresource)

    def _conditions_hold(self, webhook: Webhook, attributes: Attributes, matched: Resource) -> bool:
        if not webhook.conditions:
            return True
        from kohort.cluster.apiserver.admission.expressions import arguments, variable_values
        from kohort.cluster.apiserver.cel import BudgetExceeded, CelError
        from kohort.cluster.apiserver.cel.admission_environments import condition_environment

        values = variable_values(attributes, matched, self._authorize)
        if matched != attributes.resource:
            for name in ("object", "oldObject"):
                if values[name] is not None:
                    values[name] = converted(values[name], attributes, matched, self._kinds_of)
        given = arguments(condition_environment(), values)
        problems = []
        for condition in webhook.conditions:
            try:
                if condition(*given) is False:
                    return False
            except (CelError, BudgetExceeded) as error:
                problems.append(f"expression '{condition.source}' resulted in error: {error}")
        if problems and not webhook.ignore_failure:
            text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            name = attributes.shown_name
            raise errors.forbidden(attributes.resource.plural, name, text, attributes.resource.group)
        return not problems

    async def _asked(
        self, webhook: Webhook, attributes: Attributes, matched: Resource, *, mutating: bool
    ) -> ReviewDecision | None:
        """What the webhook says; None when it could not be asked and that is no reason to fail."""
        if attributes.dry_run and webhook.side_effects not in ("None", "NoneOnDryRun"):
            raise errors.bad_request(f'admission webhook "{webhook.name}" does not support dry run')
        try:
            verdict = await self._call(webhook, attributes, matched, mutating=mutating)
        except (CallFailed, BadReview) as error:
            reason = str(error)
            if webhook.ignore_failure:
                self._log.warning("webhook failed, going on without it", webhook=webhook.name, reason=reason)
                return None
            raise errors.internal(f'failed calling webhook "{webhook.name}": {reason}') from None
        attributes.warnings.extend(verdict.warnings)
        if not verdict.allowed:
            raise denial(webhook.name, verdict.result)
        return verdict

    async def _call(
        self, webhook: Webhook, attributes: Attributes, matched: Resource, *, mutating: bool
    ) -> ReviewDecision:
        version = review_version(webhook.review)
        uid = str(uuid4())
        shown = [
            converted(one, attributes, matched, self._kinds_of) if one is not None else None
            for one in (attributes.object if attributes.operation != "DELETE" else None, attributes.old_object)
        ]
        request = request_for(attributes, matched, shown[0], shown[1], uid)
        answer = await self.client.post(webhook.client_config, review_bytes(version, request), webhook.timeout)
        return verdict_of(answer, version, uid, mutating=mutating)


def _patched(document: JsonObject, patch: list[Json]) -> JsonObject:
    """The patched document; of a patch that does not apply, the operation that does not is named."""
    for operation in patch:
        try:
            document = jsonpatch.apply(document, [operation])
        except errors.Invalid:
            raise errors.internal(jsonpatch.misfit(document, operation)) from None
    # A patched document shares what it did not change, and it is going to be fitted to its schema in place.
    copy: JsonObject = msgspec.json.decode(msgspec.json.encode(document))
    return copy


def _snapshot(attributes: Attributes) -> bytes:
    return msgspec.json.encode(attributes.object)
