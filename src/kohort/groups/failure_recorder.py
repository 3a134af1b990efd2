"""Reads what explains the failure of a group, and keeps it in the ConfigMap `<set>-failures` (`failure_evidence`).

It never delays a restart by more than two seconds. What cannot be read in that time, or may not be read, is missing
from the record, and the record says so.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kohort.groups import failure_evidence, messages
from kohort.groups.caches import owned_by
from kohort.groups.failure_evidence import ContainerFailure, GroupFailure, PodFailure
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.restart_counts import expected_restarts
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists, ApiError, Conflict
from kohort.kube.events import EventRecorder
from kohort.kube.log import Log
from kohort.kube.resources import CONFIG_MAPS, EVENTS, LEADER_WORKER_SETS, PODS
from kohort.objects.core import ConfigMap, Event, Pod
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.rollout_labels import CANARY_SET

_log = Log(logger="kohort.groups")
SECONDS: Final = 2.0
_READING_SECONDS: Final = 1.4
"""For all logs and events; the rest is for the ConfigMap."""
_MOST_LOG_BYTES: Final = 1024 * 1024
"""That a node may send. The limit of the API cuts the end of a log off, which is what matters, so it is generous."""
_MOST_READS: Final = 16
"""At the same time."""


def config_map_name(name: str) -> str:
    return f"{name}-failures"


class FailureRecorder:
    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder

    async def record(
        self, group_set: LeaderWorkerSet, failure: GroupFailure, pods: Sequence[Pod], notes: Mapping[str, str]
    ) -> None:
        """Keep a failure with what the pods of the group show, and with `notes` about pods, by their name. Never raises
        because of the cluster."""
        try:
            async with asyncio.timeout(SECONDS):
                found = [_with_note(one, notes.get(one.pod, "")) for one in await self._read(pods)]
                whole = msgspec.structs.replace(failure, pods=tuple(found))
                await self._keep(group_set, whole)
                await self._keep_for_stable_set(group_set, whole)
        except TimeoutError:
            _log.warning("failure not recorded in time", set=group_set.metadata.name, group=failure.group)
        except ApiError as problem:
            _log.warning("failure not recorded", set=group_set.metadata.name, group=failure.group, error=str(problem))

    # Reading

    async def _read(self, pods: Sequence[Pod]) -> tuple[PodFailure, ...]:
        turns = asyncio.Semaphore(_MOST_READS)
        end = asyncio.get_running_loop().time() + _READING_SECONDS
        return tuple(await asyncio.gather(*(self._read_pod(pod, turns, end) for pod in pods)))

    async def _read_pod(self, pod: Pod, turns: asyncio.Semaphore, end: float) -> PodFailure:
        failed = failure_evidence.failed_containers(pod, expected_restarts(pod))
        note = ""
        document: JsonObject | None = None
        events: tuple[str, ...] = ()
        try:
            async with asyncio.timeout_at(end), turns:
                metadata = pod.metadata
                document = await self._client.find(PODS, metadata.name, metadata.namespace) if failed else None
                events = await self._events(pod)
        except TimeoutError:
            note = "the API server did not answer in time"
        except ApiError as problem:
            note = f"the events could not be read: {problem}"
        containers = await asyncio.gather(*(self._with_log(pod, document, one, turns, end) for one in failed))
        return PodFailure(pod.metadata.name, pod.spec.node_name, tuple(containers), events, note)

    async def _events(self, pod: Pod) -> tuple[str, ...]:
        selector = f"involvedObject.uid={pod.metadata.uid}"
        page = await self._client.list(EVENTS, pod.metadata.namespace, field_selector=selector, type=Event)
        ordered = sorted(page.items, key=_time_of)
        texts = [f"{_time_of(one)} {one.type} {one.reason}: {one.message}" for one in ordered]
        return tuple(failure_evidence.without_secrets(text)[:1024] for text in texts[-failure_evidence.MOST_EVENTS :])

    async def _with_log(
        self, pod: Pod, document: JsonObject | None, failed: ContainerFailure, turns: asyncio.Semaphore, end: float
    ) -> ContainerFailure:
        statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
        status = next(one for one in statuses if one.name == failed.container)
        query = [
            ("container", failed.container),
            ("tailLines", str(failure_evidence.READ_LINES)),
            ("limitBytes", str(_MOST_LOG_BYTES)),
        ]
        if failure_evidence.log_is_of_previous(status):
            query.append(("previous", "true"))
        path = PODS.path(pod.metadata.namespace, pod.metadata.name, "log")
        log, note = "", ""
        try:
            async with asyncio.timeout_at(end), turns:
                answer = await self._client.raw("GET", path, query, accept="*/*")
            secrets = failure_evidence.secret_values(document or {}, failed.container)
            log = failure_evidence.end_of_log(
                failure_evidence.without_secrets(answer.decode(errors="replace"), secrets)
            )
        except TimeoutError:
            note = f"node {pod.spec.node_name} did not send the log in time"
        except (ApiError, OSError) as problem:
            note = f"the log could not be read: {problem}"
        return msgspec.structs.replace(failed, log=log, log_note=note)

    # Keeping

    async def _keep_for_stable_set(self, group_set: LeaderWorkerSet, failure: GroupFailure) -> None:
        """The extra set of a release is deleted when the release is taken back, which its failures may be the reason
        for."""
        metadata = group_set.metadata
        name = metadata.labels.get(CANARY_SET, "")
        stable = (
            await self._client.find(LEADER_WORKER_SETS, name, metadata.namespace, type=LeaderWorkerSet)
            if name
            else None
        )
        if stable is not None:
            await self._keep(stable, msgspec.structs.replace(failure, set=metadata.name))

    async def _keep(self, group_set: LeaderWorkerSet, failure: GroupFailure) -> None:
        metadata = group_set.metadata
        name = config_map_name(metadata.name)
        while True:  # until the time is over: another group of the set may write at the same moment
            existing = await self._client.find(CONFIG_MAPS, name, metadata.namespace, type=ConfigMap)
            if existing is not None and not owned_by(existing.metadata, group_set):
                text = messages.failures_not_kept(name)
                self._recorder.warning(LEADER_WORKER_SETS, group_set, "FailedCreate", text, action="Create")
                return
            known = failure_evidence.decoded(existing.data.get(failure_evidence.KEY, "")) if existing else []
            text = failure_evidence.encoded(failure_evidence.with_failure(known, failure))
            body: JsonObject = {
                "metadata": {
                    "name": name,
                    "namespace": metadata.namespace,
                    "labels": {group_labels.NAME: metadata.name},
                    "ownerReferences": [group_set.owner_reference()],
                },
                "data": {failure_evidence.KEY: text},
            }
            try:
                if existing is None:
                    await self._client.create(CONFIG_MAPS, body)
                else:
                    body["metadata"]["resourceVersion"] = existing.metadata.resource_version
                    await self._client.patch(CONFIG_MAPS, name, metadata.namespace, body)
            except (AlreadyExists, Conflict):
                continue
            return


def _with_note(found: PodFailure, note: str) -> PodFailure:
    return msgspec.structs.replace(found, note="; ".join(text for text in (note, found.note) if text))


def _time_of(event: Event) -> str:
    return event.last_timestamp or event.event_time or event.metadata.creation_timestamp or ""
