"""What a shell may offer behind TAB. A cluster that does not answer at once offers nothing, and no error: the person is
in the middle of a line."""

import asyncio
from typing import Final

from kohort.cli.connection import CommandTarget
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.kubeconfig import KubeconfigError, contexts, load
from kohort.kube.resources import LEADER_WORKER_SETS, NAMESPACES
from kohort.objects.meta import PartialObject

PATIENCE: Final = 2.0
"""Seconds; longer, and the person types it."""


def of(what: str, target: CommandTarget) -> list[str]:
    """Names of the `sets`, the `namespaces` or the `contexts` that there are."""
    try:
        return contexts(target.kubeconfig) if what == "contexts" else asyncio.run(_names(what, target))
    except (ApiError, KubeconfigError, OSError, TimeoutError):
        return []


async def _names(what: str, target: CommandTarget) -> list[str]:
    transport = load(target.kubeconfig, context=target.context)
    client = Client(transport, field_manager="kohort-cli", user_agent="kohort-cli")
    resource, place = NAMESPACES, ""
    if what == "sets":
        resource, place = LEADER_WORKER_SETS, target.namespace or transport.connection.namespace
    try:
        async with asyncio.timeout(PATIENCE):
            found = await client.list(resource, place, type=PartialObject, metadata_only=True)
    finally:
        await client.close()
    return [one.metadata.name for one in found.items]
