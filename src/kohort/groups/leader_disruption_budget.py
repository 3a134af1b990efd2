"""The PodDisruptionBudget of a set's leaders, which exists while the set has a `disruptionBudget`.

Autoscalers and deschedulers read it, and it holds while the webhook for evictions does not answer. It counts leaders
only, so it is less strict than the webhook: a group whose workers are broken still has its leader. Leaders that are not
ready may always be evicted, because their group is away already.

| PodDisruptionBudget of the set's name | action |
|---|---|
| does not exist | it is created |
| belongs to the set | it is corrected if it differs |
| belongs to something else | none, and an event warns; it is tried again, because its deletion is not watched |
"""

from typing import Final

import msgspec

from kohort.groups import messages
from kohort.groups.caches import LeaderBudget, owned_by
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.resources import LEADER_WORKER_SETS, POD_DISRUPTION_BUDGETS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_identity import leader_labels

_NAME_TAKEN: Final = 30.0
"""Seconds after which a name that was taken is tried again."""


def wanted_spec(group_set: LeaderWorkerSet) -> JsonObject | None:
    """The spec that the PodDisruptionBudget must have; None if there must be none."""
    budget = group_set.disruption_budget
    if budget is None:
        return None
    return {
        "minAvailable": max(0, group_set.replicas - budget.groups(group_set.replicas)),
        "selector": {"matchLabels": leader_labels(group_set.metadata.name)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }


def is_as_wanted(existing: LeaderBudget, group_set: LeaderWorkerSet) -> bool:
    """A server that does not know the policy for unhealthy pods leaves it out."""
    spec = wanted_spec(group_set)
    if spec is None:
        return False
    found: JsonObject = msgspec.to_builtins(existing.spec)
    found.setdefault("unhealthyPodEvictionPolicy", spec["unhealthyPodEvictionPolicy"])
    return found == spec


class LeaderBudgets:
    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder

    async def write(self, group_set: LeaderWorkerSet, existing: LeaderBudget | None) -> float:
        """Returns in how many seconds to try again, 0 for never."""
        metadata, spec = group_set.metadata, wanted_spec(group_set)
        if existing is not None and not owned_by(existing.metadata, group_set):
            self._warn(group_set)
            return _NAME_TAKEN
        if existing is not None:
            body: JsonObject = {"spec": {"maxUnavailable": None, **(spec or {})}}
            await self._client.patch(POD_DISRUPTION_BUDGETS, metadata.name, metadata.namespace, body)
            return 0.0
        body = {
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "labels": {group_labels.NAME: metadata.name},
                "ownerReferences": [group_set.owner_reference()],
            },
            "spec": spec,
        }
        try:
            await self._client.create(POD_DISRUPTION_BUDGETS, body)
        except AlreadyExists:
            # Ours, which the cache does not show yet; or one of a user, without our label.
            live = await self._client.find(POD_DISRUPTION_BUDGETS, metadata.name, metadata.namespace, type=LeaderBudget)
            if live is not None and not owned_by(live.metadata, group_set):
                self._warn(group_set)
                return _NAME_TAKEN
        return 0.0

    async def delete(self, group_set: LeaderWorkerSet, existing: LeaderBudget) -> None:
        metadata = existing.metadata
        if not owned_by(metadata, group_set):
            return
        try:
            await self._client.delete(POD_DISRUPTION_BUDGETS, metadata.name, metadata.namespace, uid=metadata.uid)
        except NotFound:
            return

    def _warn(self, group_set: LeaderWorkerSet) -> None:
        text = messages.name_taken("PodDisruptionBudget", group_set.metadata.name)
        self._recorder.warning(LEADER_WORKER_SETS, group_set, "FailedCreate", text, action="Create")
