"""The admission chain: what a write passes through, in order.

| | mutating | validating |
|---|---|---|
| 1 | built-in steps in their fixed order | built-in steps, quota excepted |
| 2 | mutating policies | validating policies |
| 3 | mutating webhooks, one after the other | validating webhooks, all at once |
| 4 | once more 1 to 3, if a webhook or policy changed the object | quota, so that nothing is counted that is refused |

Configurations of webhooks and policies are shown to none of them: a mistake there must always be repairable.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kohort.cluster.apiserver.admission.model import Attributes, Plugin
from kohort.cluster.apiserver.admission.plugins.step import AdmissionStep
from kohort.cluster.apiserver.admission.reinvocation import Reinvocation
from kohort.cluster.apiserver.storage.model import Store

QUOTA: Final = "ResourceQuota"
_GROUP: Final = "admissionregistration.k8s.io"


class ConfiguredSteps(Protocol):
    """Steps that users configure at run time: policies, webhooks."""

    async def mutate(self, attributes: Attributes, round: Reinvocation) -> None: ...

    async def validate(self, attributes: Attributes) -> None: ...


class LazySteps:
    """Steps that are not even imported before something is configured for them: most servers never need them, and
    the expression language behind them takes longer to import than all the rest of the server."""

    def __init__(self, store: Store, buckets: Sequence[str], make: Callable[[], ConfiguredSteps]) -> None:
        self._store = store
        self._buckets = tuple(buckets)
        self._make = make
        self._steps: ConfiguredSteps | None = None

    async def mutate(self, attributes: Attributes, round: Reinvocation) -> None:
        if steps := self._needed():
            await steps.mutate(attributes, round)

    async def validate(self, attributes: Attributes) -> None:
        if steps := self._needed():
            await steps.validate(attributes)

    def _needed(self) -> ConfiguredSteps | None:
        for bucket in self._buckets:
            if self._store.list(bucket):
                if self._steps is None:
                    self._steps = self._make()
                return self._steps
        return None


def _acts(plugin: Plugin, phase: str) -> bool:
    """Whether a step does anything in a phase: most act in one of the two only."""
    return getattr(type(plugin), phase, None) is not getattr(AdmissionStep, phase)


class _Steps:
    """The steps of one phase; of these, the few that a resource may be a matter of."""

    def __init__(self, plugins: Sequence[Plugin], phase: str) -> None:
        self._all = tuple(plugin for plugin in plugins if _acts(plugin, phase))
        self._about: dict[tuple[str, str], tuple[Plugin, ...]] = {}

    def about(self, attributes: Attributes) -> tuple[Plugin, ...]:
        key = (attributes.resource.plural, attributes.subresource)
        found = self._about.get(key)
        if found is None:
            name = "/".join(filter(None, key))
            wanted: list[Plugin] = []
            for plugin in self._all:
                about: Sequence[str] = getattr(plugin, "about", ())
                if not about or name in about:
                    wanted.append(plugin)
            found = self._about[key] = tuple(wanted)
        return found


class Chain:
    def __init__(
        self,
        plugins: Sequence[Plugin] = (),
        policies: ConfiguredSteps | None = None,
        webhooks: ConfiguredSteps | None = None,
    ) -> None:
        steps = [plugin for plugin in plugins if plugin.name != QUOTA]
        self._mutating = _Steps(steps, "mutate")
        self._validating = _Steps(steps, "validate")
        self._quota = tuple(plugin for plugin in plugins if plugin.name == QUOTA)
        self._policies = policies
        self._webhooks = webhooks

    async def mutate(self, attributes: Attributes) -> None:
        round = Reinvocation()
        await self._mutate_once(attributes, round)
        if round.wanted:
            round.second_round = True
            await self._mutate_once(attributes, round)

    async def _mutate_once(self, attributes: Attributes, round: Reinvocation) -> None:
        for plugin in self._mutating.about(attributes):
            if plugin.handles(attributes):
                await plugin.mutate(attributes)
        if attributes.resource.group == _GROUP:
            return
        if self._policies is not None:
            await self._policies.mutate(attributes, round)
        if self._webhooks is not None:
            await self._webhooks.mutate(attributes, round)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._validating.about(attributes):
            if plugin.handles(attributes):
                await plugin.validate(attributes)
        if attributes.resource.group != _GROUP:
            if self._policies is not None:
                await self._policies.validate(attributes)
            if self._webhooks is not None:
                await self._webhooks.validate(attributes)
        for plugin in self._quota:
            if plugin.handles(attributes):
                await plugin.validate(attributes)
