"""The admission chain: what a write passes through, in order.

| | mutating | validating |
|---|---|---|
| 1 | built-in steps in their fixed order | built-in steps, quota excepted |
| 2 | mutating policies | validating policies |
| 3 | mutating webhooks, one after the other | validating webhooks, all at once |
| 4 | once more 1 to 3, if a webhook or policy changed the object | quota, so that nothing is counted that is refused |

Configurations of webhooks and policies are shown to none of them: a mistake there must always be repairable.
"""

from collections.abc import Sequence
from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes, Plugin
from kohort.cluster.apiserver.admission.policies import Policies
from kohort.cluster.apiserver.admission.webhooks import Reinvocation, Webhooks

QUOTA: Final = "ResourceQuota"
_GROUP: Final = "admissionregistration.k8s.io"


class Chain:
    def __init__(
        self, plugins: Sequence[Plugin] = (), policies: Policies | None = None, webhooks: Webhooks | None = None
    ) -> None:
        self._plugins = tuple(plugin for plugin in plugins if plugin.name != QUOTA)
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
        for plugin in self._plugins:
            if plugin.handles(attributes):
                await plugin.mutate(attributes)
        if attributes.resource.group == _GROUP:
            return
        if self._policies is not None:
            await self._policies.mutate(attributes, round)
        if self._webhooks is not None:
            await self._webhooks.mutate(attributes, round)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._plugins:
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
