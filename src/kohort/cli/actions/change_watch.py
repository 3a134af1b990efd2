"""Waits until a workload or one of its objects has changed.

Commands always read a workload as a whole, so watches only set a flag. A change during such a read is not lost, because
the watches began before it.
"""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Final

from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, NotFound
from kohort.kube.resources import (
    DEPLOYMENTS,
    LEADER_WORKER_SETS,
    PODS,
    REPLICA_SETS,
    ROLLOUTS,
    STATEFUL_SETS,
    Resource,
)
from kohort.kube.tasks import cancel_all
from kohort.objects.meta import PartialObject
from kohort.rules import group_labels

GATHER: Final = 0.1
"""Seconds for which changes are gathered: a roll makes dozens of them at once."""
RETRY: Final = 1.0


class Changes:
    """Of one workload, or of all sets in a namespace."""

    def __init__(self, client: Client, namespace: str, name: str | None) -> None:
        self._client = client
        self._namespace = namespace
        self._labels = f"{group_labels.NAME}={name}" if name else group_labels.NAME
        self._fields = f"metadata.name={name}" if name else ""
        self._plain = name is None or "/" not in name
        self._flag = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Changes":
        self._flag.set()
        for resource, labels, fields in self._watched:
            try:
                version = await self._version(resource)
            except (NotFound, Forbidden):
                if resource in (ROLLOUTS, REPLICA_SETS):
                    continue
                raise
            self._tasks.append(asyncio.create_task(self._watch(resource, labels, fields, version)))
        return self

    @property
    def _watched(self) -> Sequence[tuple[Resource, str, str]]:
        """Resources, and by which labels and fields. Pods of other workloads than sets carry labels that only their
        selectors know, and a plain name may mean what a Rollout releases: there, everything in the namespace is."""
        if not self._plain:
            return [(one, "", "") for one in (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS, PODS, ROLLOUTS)]
        return [
            (LEADER_WORKER_SETS, "", self._fields),
            (PODS, self._labels, ""),
            (STATEFUL_SETS, self._labels, ""),
            (ROLLOUTS, "", ""),
        ]

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await cancel_all(*self._tasks)

    async def next(self) -> None:
        """Returns at once the first time, then soon after each change."""
        await self._flag.wait()
        if self._tasks:
            await asyncio.sleep(GATHER)
        self._flag.clear()

    async def _version(self, resource: Resource) -> str:
        return (await self._client.list(resource, self._namespace, type=PartialObject, limit=1)).resource_version

    async def _watch(self, resource: Resource, labels: str, fields: str, version: str) -> None:
        while True:
            try:
                async for event in self._client.watch(
                    resource,
                    self._namespace,
                    type=PartialObject,
                    label_selector=labels,
                    field_selector=fields,
                    resource_version=version,
                ):
                    version = event.object.metadata.resource_version or version
                    self._flag.set()
            except ApiError:
                await asyncio.sleep(RETRY)
                version = ""
            self._flag.set()
