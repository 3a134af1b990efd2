"""Asks a cluster whether the pods of a group can be resized. Nothing is written.

Asked are the nodes of the pods, the quotas of the namespace, and the API server about every patch as a dry run, which
includes LimitRanges and webhooks.

The operator asks before it touches a group, and `kohort plan` asks the same for every group.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.resize import patches
from kohort.groups.resize.preflight import GroupCheck, PodCheck, PreflightFailure, Quota, check_group, failure_of_patch
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.request_encoding import PatchType
from kohort.kube.resources import NODES, PODS, RESOURCE_QUOTAS
from kohort.objects.core import Node
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.resources import amounts_of
from kohort.rules import group_labels
from kohort.rules.resize_restart import containers_restarted_by
from kohort.rules.resource_edit import AmountChange, StatedAmounts, with_amounts
from kohort.rules.resource_update_policy import resource_update_policy

_RECREATING_POLICIES: Final = (group_labels.RECREATE_ON_RESTART, group_labels.RECREATE_WHEN_STARTED)

_AT_ONCE: Final = 16
T = TypeVar("T")

Member = tuple[Pod, AmountChange]
"""A pod of a group, and what it goes through."""


async def preflight_group(
    client: Client, group_set: LeaderWorkerSet, members: Sequence[Member]
) -> PreflightFailure | None:
    """The first reason why the group must not be touched."""
    names = sorted({pod.spec.node_name for pod, _ in members})
    found = await asyncio.gather(*(client.get(NODES, name, type=Node) for name in names))
    nodes = {node.metadata.name: node for node in found}
    quotas = await read_quotas(client, group_set.metadata.namespace)
    failure = check_group(group_check(group_set, members, nodes, quotas))
    return failure or await dry_run_failure(client, members)


def group_check(
    group_set: LeaderWorkerSet, members: Sequence[Member], nodes: Mapping[str, Node], quotas: Sequence[Quota]
) -> GroupCheck:
    pods = [
        PodCheck(
            pod,
            with_amounts(pod, change.after),
            nodes.get(pod.spec.node_name),
            containers_restarted_by(pod, change.after),
        )
        for pod, change in members
    ]
    recreates = group_set.template.restart_policy in _RECREATING_POLICIES
    return GroupCheck(pods, quotas, resource_update_policy(group_set.spec), recreates)


async def read_quotas(client: Client, namespace: str) -> list[Quota]:
    page = await client.list(RESOURCE_QUOTAS, namespace)
    found: Sequence[JsonObject] = page.items
    statuses = [(one["metadata"]["name"], one.get("status") or {}) for one in found]
    return [Quota(name, amounts_of(status.get("hard")), amounts_of(status.get("used"))) for name, status in statuses]


async def dry_run_failure(client: Client, members: Sequence[Member]) -> PreflightFailure | None:
    """What the API server says against the first patch that it would refuse."""

    async def ask(pod: Pod, change: AmountChange) -> PreflightFailure | None:
        try:
            await patch_amounts(client, pod, change.after, dry_run=True)
        except ApiError as problem:
            failure = failure_of_patch(pod, change.after, problem)
            if failure is None:
                raise
            return failure
        return None

    for some in in_batches(members):
        failures = await asyncio.gather(*(ask(pod, change) for pod, change in some))
        failure = next((one for one in failures if one is not None), None)
        if failure is not None:
            return failure
    return None


def in_batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Requests that are sent at the same time."""
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


async def patch_amounts(
    client: Client, pod: Pod, amounts: StatedAmounts, *, dry_run: bool = False, locked: bool = False
) -> None:
    """Ask for these amounts. `locked`: only if the pod has not changed since it was read."""
    metadata = pod.metadata
    sidecars = frozenset(one.name for one in pod.spec.init_containers if one.sidecar)
    body = patches.pod_amounts(amounts, sidecars, metadata.resource_version if locked else "")
    await client.patch(PODS, metadata.name, metadata.namespace, body, PatchType.STRATEGIC, "resize", dry_run=dry_run)
