"""The admission step: what does not fit is refused, what fits is charged.

It runs last, so nothing is charged that another step refuses, and charges by writing the new sums into the status of
the quotas. Requests in one namespace take turns, and a request that finds a quota changed meanwhile checks it
again, so two can never pass on the same remainder. A later failure of the request, and every deletion, is settled by
the quota controller.

Only quotas whose status says what they bound take part: a quota that the quota controller has not counted yet bounds
nothing.
"""

import asyncio
from collections.abc import Mapping
from typing import Final
from weakref import WeakValueDictionary

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.quota.usage import (
    IGNORED,
    concerned,
    in_scope,
    unset_values,
    usage_of,
)
from kohort.cluster.apiserver.admission.plugins.step import WRITES, AdmissionStep, refusal, written
from kohort.cluster.apiserver.apply.managed import own_status
from kohort.cluster.apiserver.kinds import feature_gates as gate
from kohort.cluster.apiserver.schema import builtin
from kohort.cluster.apiserver.storage.model import StaleRevision, Store
from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity
from kohort.resources.amounts import Amounts, added, amounts_of, reduced, written_of
from kohort.resources.effective import Options

QUOTAS: Final = "resourcequotas"


class ResourceQuota(AdmissionStep):
    name = "ResourceQuota"

    def __init__(self, store: Store, gates: Mapping[str, bool]) -> None:
        self._store = store
        self._options = Options(
            use_status=gate.enabled(gates, gate.IN_PLACE_RESIZE),
            pod_level=gate.enabled(gates, gate.POD_LEVEL_RESOURCES),
        )
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def handles(self, attributes: Attributes) -> bool:
        if not attributes.namespace or attributes.operation not in WRITES or attributes.object is None:
            return False
        resource = attributes.resource
        return resource.namespaced and resource.qualified not in IGNORED and _may_cost_more(attributes)

    async def validate(self, attributes: Attributes) -> None:
        if not self._store.list(QUOTAS, attributes.namespace):
            return
        turn = self._turns.setdefault(attributes.namespace, asyncio.Lock())
        async with turn:
            settled: set[str] = set()
            while not await self._settle(attributes, settled):
                pass

    async def _settle(self, attributes: Attributes, settled: set[str]) -> bool:
        """Check, then charge quota by quota. False when one of them changed since it was checked."""
        quotas = [one for one in self._store.list(QUOTAS, attributes.namespace) if one.name not in settled]
        charged = [(one, after) for one in quotas if (after := self._charged(attributes, one.decode())) is not None]
        if attributes.dry_run:
            return True
        for stored, document in charged:
            try:
                await self._store.write(
                    QUOTAS,
                    stored.namespace,
                    stored.name,
                    document,
                    expected=stored.revision,
                    labels=stored.labels,
                    fields=stored.fields,
                )
            except StaleRevision:
                return False
            settled.add(stored.name)
        return True

    def _charged(self, attributes: Attributes, quota: JsonObject) -> JsonObject | None:
        """The quota after this request; None when the request does not concern it."""
        obj, resource = written(attributes), attributes.resource
        status = quota.get("status") or {}
        hard, used = amounts_of(status.get("hard")), amounts_of(status.get("used"))
        names = concerned(resource, hard)
        if not names or not in_scope(quota, resource, obj):
            return None
        self._check_completeness(attributes, quota, names, used)
        cost = self._cost(attributes, quota)
        asked = {name: cost[name] for name in names if cost.get(name)}
        if not asked:
            return None
        after = added(used, asked)
        if attributes.subresource != "status":
            over = sorted(name for name in asked if after[name] > hard[name])
            if over:
                raise refusal(
                    attributes,
                    f"exceeded quota: {quota['metadata']['name']}, requested: {_listed(asked, over)}, "
                    f"used: {_listed(used, over)}, limited: {_listed(hard, over)}",
                )
        charged = {**quota, "metadata": dict(quota["metadata"]), "status": {**status, "used": written_of(after)}}
        own_status(quota, charged, builtin.kind_node("", "v1", "ResourceQuota"))
        return charged

    def _check_completeness(self, attributes: Attributes, quota: JsonObject, names: list[str], used: Amounts) -> None:
        name = quota["metadata"]["name"]
        if attributes.resource.qualified == "pods":
            problem = unset_values(written(attributes), names)
            if problem:
                raise refusal(attributes, f"failed quota: {name}: {problem}")
        if any(one not in used for one in names):
            raise refusal(attributes, f"status unknown for quota: {name}, resources: {','.join(names)}")

    def _cost(self, attributes: Attributes, quota: JsonObject) -> dict[str, Quantity]:
        """What the request adds; what it gives back is credited by the quota controller."""
        resource, before = attributes.resource, attributes.old_object
        cost = usage_of(resource, written(attributes), self._options)
        negative = sorted(name for name, amount in cost.items() if amount.nano < 0)
        if negative:
            detail = f"quota usage is negative for resource(s): {','.join(negative)}"
            raise refusal(attributes, detail)
        if attributes.operation == "UPDATE" and before is not None and in_scope(quota, resource, before):
            return reduced(cost, usage_of(resource, before, self._options))
        return cost


def _listed(amounts: Amounts, names: list[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names if name in amounts)


def _may_cost_more(attributes: Attributes) -> bool:
    """Whether this operation can change what an object of this kind costs."""
    plural, create = attributes.resource.qualified, attributes.operation == "CREATE"
    if plural == "persistentvolumeclaims":
        return attributes.subresource in ("", "status")
    if plural == "pods" and attributes.subresource == "resize":
        return not create
    if attributes.subresource:
        return False
    if create or plural in ("services", "resourceclaims.resource.k8s.io"):
        return True
    return plural == "pods" and _has_deadline(attributes.object) != _has_deadline(attributes.old_object)


def _has_deadline(pod: JsonObject | None) -> bool:
    return ((pod or {}).get("spec") or {}).get("activeDeadlineSeconds") is not None
