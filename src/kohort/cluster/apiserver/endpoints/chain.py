"""The admission chain: built-in steps in their order, policies, webhooks, and quota at the very end.

Mutating: built-ins, then webhooks; when a webhook changed something, built-ins run once more on what it left.
Validating: built-ins except quota, policies, webhooks, then quota, so that nothing is counted that is refused anyway.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from kohort.cluster.apiserver.admission.model import Attributes, Plugin

QUOTA: Final = "ResourceQuota"

_EXEMPT: Final = frozenset(
    {
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    }
)
"""What could lock everybody out is never shown to the things it configures."""


class Dynamic(Protocol):
    """Steps that users configure at run time: webhooks, policies."""

    async def mutate(self, attributes: Attributes) -> None: ...

    async def validate(self, attributes: Attributes) -> None: ...


class Chain:
    def __init__(self, plugins: Sequence[Plugin] = (), dynamic: Sequence[Dynamic] = ()) -> None:
        self._plugins = tuple(plugin for plugin in plugins if plugin.name != QUOTA)
        self._quota = tuple(plugin for plugin in plugins if plugin.name == QUOTA)
        self._dynamic = tuple(dynamic)

    async def mutate(self, attributes: Attributes) -> None:
        for plugin in self._plugins:
            if plugin.handles(attributes):
                await plugin.mutate(attributes)
        if self._exempt(attributes):
            return
        for step in self._dynamic:
            await step.mutate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._plugins:
            if plugin.handles(attributes):
                await plugin.validate(attributes)
        if not self._exempt(attributes):
            for step in self._dynamic:
                await step.validate(attributes)
        for plugin in self._quota:
            if plugin.handles(attributes):
                await plugin.validate(attributes)

    def _exempt(self, attributes: Attributes) -> bool:
        resource = attributes.resource
        return resource.group == "admissionregistration.k8s.io" and resource.plural in _EXEMPT
