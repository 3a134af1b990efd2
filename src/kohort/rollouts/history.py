"""RolloutHistory: what was released, when it is over.

A record is begun with a release and filled while it runs, since the pods of a canary are gone at its end. The workload
is recorded as it was at the beginning, and only after a success as it is at the end: after any other end its template
is not the one that was released. A record goes with its Rollout; of each Rollout only the newest are kept. Its name
follows from the release: it is never made twice. A version that is released again gets another record.

| the Rollout is | the newest open record ends as | older open records end as |
|---|---|---|
| Progressing, and it is another release's | superseded | superseded |
| Healthy, Succeeded is True | succeeded | superseded |
| Healthy or Disabled, Succeeded is False because it was disabled | disabled | superseded |
| Healthy, otherwise | rolled_back | superseded |
| Initial: its workload is gone | deleted | superseded |
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence, Set
from itertools import count

import msgspec

from kohort.kube.client import Client
from kohort.kube.controller import Requeue
from kohort.kube.errors import AlreadyExists, NotFound
from kohort.kube.manager import Manager
from kohort.kube.request_encoding import PatchType
from kohort.kube.resources import (
    INGRESSES,
    PODS,
    ROLLOUT_HISTORIES,
    ROLLOUTS,
    SERVICES,
    Key,
    Resource,
)
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.history_records import COMPLETED, RELEASED_BY, History
from kohort.rollouts.messages import ReleaseOutcome
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.traffic.lookup import find_http_route
from kohort.rules import group_labels, rollout_labels
from kohort.rules.group_identity import is_worker
from kohort.rules.safe_text import safe_text


class HistoryController:
    def __init__(self, manager: Manager, cache: RolloutCache, limit: int) -> None:
        self.client: Client = manager.client
        self.limit = limit
        self.cache = cache
        self.records = manager.informer(ROLLOUT_HISTORIES, History)
        self.controller = manager.controller("rollouthistory-controller", self.reconcile, workers=3, max_delay=30)
        self.controller.watches(cache.rollouts)
        self.controller.watches(self.records, _rollout_of)

    async def reconcile(self, key: Key) -> Requeue | None:
        rollout = self.cache.rollouts.get(key)
        if rollout is None:
            await self._forget_all(key)
            return None
        progress = rollout.status.progress
        records = self._records(key, progress.observed_rollout_id if progress is not None else "")
        if rollout.status.phase == rollout_labels.PROGRESSING:
            await self._follow(rollout, records)
        if rollout.status.phase == rollout_labels.HEALTHY:
            too_many = max(0, len(records) - self.limit)
            for record in records[:too_many]:
                await self._forget(record)
            records = records[too_many:]
        # One at a time: its own event brings the next, and no record is gathered twice from a cache that lags.
        ended = next(iter(endings(rollout, records)), None)
        if ended is not None:
            await self._complete(rollout, *ended)
        return None

    async def _forget_all(self, key: Key) -> None:
        """Delete the records of a Rollout that is gone, also those that it does not own. The API server is asked first:
        a cache may be behind."""
        left = self._records(key, "")
        if left and await self.client.find(ROLLOUTS, key.name, key.namespace) is None:
            for record in left:
                await self._forget(record)

    def _records(self, key: Key, release: str) -> list[History]:
        """Oldest first. The present release is the newest, also where several were recorded in the same second."""

        def age(one: History) -> tuple[bool, str, str]:
            metadata = one.metadata
            return (
                metadata.labels.get(rollout_labels.ROLLOUT_ID) == release,
                metadata.creation_timestamp or "",
                metadata.name,
            )

        found = [
            one
            for one in self.records.list(key.namespace)
            if one.metadata.labels.get(rollout_labels.ROLLOUT_NAME) == key.name
        ]
        return sorted(found, key=age)

    async def _follow(self, rollout: Rollout, records: list[History]) -> None:
        progress = rollout.status.progress
        if progress is None or not progress.observed_rollout_id or progress.finalising_step:
            return
        if progress.current_step_state == rollout_labels.COMPLETED:
            # The progress of the release before, until this one is looked at for the first time.
            return
        release = progress.observed_rollout_id
        of_release = [one for one in records if one.metadata.labels.get(rollout_labels.ROLLOUT_ID) == release]
        record = next((one for one in of_release if one.status.phase != COMPLETED), None)
        if record is None:
            await self._begin(rollout, release, {one.metadata.name for one in of_release})
            return
        steps = await self._steps(rollout, release, record)
        if steps != list(record.status.canary_steps):
            await self._write(record, {"canarySteps": steps})
        judged = self._judged(rollout, record)
        known = record.spec.rollout.data.get("analysis")
        if judged and judged != known:
            await self._patch(record, {"spec": {"rollout": {"data": {"analysis": judged}}}})

    def _judged(self, rollout: Rollout, record: History) -> list[JsonObject]:
        """What the analyses of a release found, step by step. Those from before are of another release of the same
        version."""
        metadata, release = rollout.metadata, record.metadata.labels.get(rollout_labels.ROLLOUT_ID, "")
        since = record.metadata.creation_timestamp or ""
        runs = [
            one
            for one in self.cache.runs.list(metadata.namespace)
            if (one.spec.rollout, one.spec.release) == (metadata.name, release)
            and one.status.decided
            and (one.metadata.creation_timestamp or "") >= since
        ]
        return [
            {
                "step": one.spec.step,
                "run": one.metadata.name,
                "phase": one.status.phase.value,
                "message": one.status.message,
                **({"overriddenBy": one.status.overridden_by} if one.status.overridden_by else {}),
            }
            for one in sorted(runs, key=lambda one: (one.spec.step, one.spec.attempt, one.metadata.name))
        ]

    async def _begin(self, rollout: Rollout, release: str, taken: Set[str]) -> None:
        """`taken` are the names of earlier records of the same version."""
        name, namespace = rollout.metadata.name, rollout.metadata.namespace
        names = (_record_name(rollout, release, again) for again in count())
        ref = rollout.spec.workload_ref
        resource = ref.resource
        workload: JsonObject | None = await self.client.find(resource, ref.name, namespace)
        writer = last_writer(workload or {})
        body = {
            "apiVersion": ROLLOUT_HISTORIES.api_version,
            "kind": ROLLOUT_HISTORIES.kind,
            "metadata": {
                "name": next(one for one in names if one not in taken),
                "namespace": namespace,
                "labels": {rollout_labels.ROLLOUT_ID: release, rollout_labels.ROLLOUT_NAME: name},
                "ownerReferences": [_owner(rollout)],
                **({"annotations": {RELEASED_BY: writer}} if writer else {}),
            },
            "spec": {"rollout": {"rolloutID": release, "name": name}, "workload": _workload_of(rollout, workload)},
        }
        try:
            await self.client.create(ROLLOUT_HISTORIES, body)
        except AlreadyExists:
            return

    async def _steps(self, rollout: Rollout, release: str, record: History) -> list[JsonObject]:
        """By batch: pods, or for groups their leaders and how many workers each has. What was seen is kept."""
        selector = f"{rollout_labels.ROLLOUT_ID}={release},{rollout_labels.BATCH_ID}"
        listed = await self.client.list(PODS, rollout.metadata.namespace, type=Pod, label_selector=selector)
        found: dict[int, list[JsonObject]] = defaultdict(list)
        workers: dict[str, int] = defaultdict(int)
        for pod in listed.items:
            labels = pod.metadata.labels
            if is_worker(labels):
                workers[f"{labels.get(group_labels.NAME)}-{labels.get(group_labels.GROUP_INDEX)}"] += 1
        for pod in sorted(listed.items, key=lambda one: one.metadata.name):
            labels, batch = pod.metadata.labels, pod.metadata.labels.get(rollout_labels.BATCH_ID, "")
            if is_worker(labels) or not batch.isdigit():
                continue
            entry: JsonObject = {"name": pod.metadata.name, "ip": pod.status.pod_ip, "nodeName": pod.spec.node_name}
            if group_labels.NAME in labels:
                entry["workers"] = workers[pod.metadata.name]
            found[int(batch)].append(entry)
        known = {one["canaryStepIndex"]: one for one in record.status.canary_steps}
        known |= {batch: {"canaryStepIndex": batch, "pods": pods} for batch, pods in found.items()}
        return [known[batch] for batch in sorted(known)]

    async def _complete(self, rollout: Rollout, record: History, outcome: ReleaseOutcome) -> None:
        refs = rollout.strategy.traffic_routings
        plan: JsonObject = msgspec.to_builtins(rollout.spec)
        about: JsonObject = {
            "rolloutID": record.metadata.labels.get(rollout_labels.ROLLOUT_ID, ""),
            "name": rollout.metadata.name,
            "data": {**plan, "outcome": outcome},
        }
        if judged := self._judged(rollout, record):
            about["data"]["analysis"] = judged
        spec: JsonObject = {"rollout": about}
        if outcome is ReleaseOutcome.SUCCEEDED or not record.spec.workload.data:
            spec["workload"] = await self._workload(rollout)
        for route in refs[:1]:
            spec["service"] = await self._data(rollout, SERVICES, route.service)
            spec["trafficRouting"] = routing = {}
            if route.ingress is not None:
                routing["ingress"] = await self._data(rollout, INGRESSES, route.ingress.name)
            if route.gateway is not None and route.gateway.http_route_name:
                name, namespace = route.gateway.http_route_name, rollout.metadata.namespace
                routing["httpRoute"] = _data_of(name, await find_http_route(self.client, name, namespace))
        if await self._replace(record, spec):
            await self._write(record, {"phase": COMPLETED})

    async def _replace(self, record: History, spec: JsonObject) -> bool:
        """Fields of the spec as a whole: what a workload had at the beginning only must not stay in it."""
        patch: list[JsonObject] = [
            {"op": "add", "path": f"/spec/{name}", "value": value} for name, value in spec.items()
        ]
        return await self._patch(record, patch, PatchType.JSON)

    async def _patch(
        self, record: History, patch: JsonObject | list[JsonObject], kind: PatchType = PatchType.MERGE
    ) -> bool:
        """False when it is gone."""
        metadata = record.metadata
        try:
            await self.client.patch(ROLLOUT_HISTORIES, metadata.name, metadata.namespace, patch, kind)
        except NotFound:
            return False
        return True

    async def _workload(self, rollout: Rollout) -> JsonObject:
        ref = rollout.spec.workload_ref
        return _workload_of(rollout, await self.client.find(ref.resource, ref.name, rollout.metadata.namespace))

    async def _data(self, rollout: Rollout, resource: Resource, name: str) -> JsonObject:
        return _data_of(name, await self.client.find(resource, name, rollout.metadata.namespace))

    async def _write(self, record: History, status: JsonObject) -> None:
        await self.client.patch_status(ROLLOUT_HISTORIES, record, status)

    async def _forget(self, record: History) -> None:
        try:
            await self.client.delete(ROLLOUT_HISTORIES, record.metadata.name, record.metadata.namespace)
        except NotFound:
            return


def _record_name(rollout: Rollout, release: str, again: int) -> str:
    """`again` counts the releases of the same version before this one."""
    metadata = rollout.metadata
    identity = f"{metadata.uid}/{release}/{again}" if again else f"{metadata.uid}/{release}"
    return f"{metadata.name}-{safe_text(hashlib.sha256(identity.encode()).hexdigest())[:6]}"


def _data_of(name: str, found: JsonObject | None) -> JsonObject:
    return {"name": name, **({"data": found["spec"]} if found is not None else {})}


def _workload_of(rollout: Rollout, found: JsonObject | None) -> JsonObject:
    ref = rollout.spec.workload_ref
    return {"apiVersion": ref.api_version, "kind": ref.kind, **_data_of(ref.name, found)}


def endings(rollout: Rollout, records: Sequence[History]) -> list[tuple[History, ReleaseOutcome]]:
    """Open records whose release is over, and how it ended. `records` are of this Rollout, oldest first."""
    status, progress = rollout.status, rollout.status.progress
    unfinished = [one for one in records if one.status.phase != COMPLETED]
    if not unfinished:
        return []
    older: list[tuple[History, ReleaseOutcome]] = [(one, ReleaseOutcome.SUPERSEDED) for one in unfinished[:-1]]
    newest = unfinished[-1]
    if status.phase == rollout_labels.PROGRESSING:
        release = progress.observed_rollout_id if progress is not None else ""
        others = (
            progress is not None
            and progress.current_step_state != rollout_labels.COMPLETED
            and not progress.finalising_step
        )
        replaced = others and newest.metadata.labels.get(rollout_labels.ROLLOUT_ID) != release
        return [*older, (newest, ReleaseOutcome.SUPERSEDED)] if replaced else older
    if status.phase == rollout_labels.INITIAL:
        return [*older, (newest, ReleaseOutcome.DELETED)]
    if status.phase not in (rollout_labels.HEALTHY, rollout_labels.DISABLED):
        return older
    succeeded = status.condition(rollout_labels.SUCCEEDED)
    if succeeded is not None and succeeded.status == "True":
        return [*older, (newest, ReleaseOutcome.SUCCEEDED)]
    disabled = status.phase == rollout_labels.DISABLED or (
        succeeded is not None and succeeded.reason == rollout_labels.DISABLED
    )
    return [*older, (newest, ReleaseOutcome.DISABLED if disabled else ReleaseOutcome.ROLLED_BACK)]


def _owner(rollout: Rollout) -> JsonObject:
    """Not its controller, and nothing waits for a record: deleting a Rollout does not wait for it."""
    reference = rollout.owner_reference()
    return {name: reference[name] for name in ("apiVersion", "kind", "name", "uid")}


def _rollout_of(record: History) -> list[Key]:
    name = record.metadata.labels.get(rollout_labels.ROLLOUT_NAME, "")
    return [Key(record.metadata.namespace, name)] if name else []


def last_writer(workload: JsonObject) -> str:
    """The client that wrote the template of a workload last, as the server has recorded it; empty if it has not.

    >>> fields = {"f:spec": {"f:template": {}}}
    >>> last_writer({"metadata": {"managedFields": [{"manager": "kubectl-edit", "time": "1", "fieldsV1": fields}]}})
    'kubectl-edit'
    """
    writers = [
        (str(one.get("time", "")), str(one.get("manager", "")))
        for one in (workload.get("metadata") or {}).get("managedFields") or ()
        if {"f:template", "f:leaderWorkerTemplate"} & set((one.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    return max(writers)[1] if writers else ""
