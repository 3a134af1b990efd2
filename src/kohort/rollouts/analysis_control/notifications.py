"""Posts a CloudEvent when a release that has an analysis fails, is rolled back, is promoted, or waits.

A release never waits for it: events go into a bounded queue, and are tried a few times. The same event is posted once;
a receiver can recognise one that was posted again after a restart of the operator by its id.
"""

import asyncio
import hashlib
from collections import OrderedDict
from typing import Final

import msgspec

from kohort.kube import clock
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.resources import Key
from kohort.objects.json_types import JsonObject
from kohort.rollouts.analysis.analysis_rules import NotifyOn
from kohort.rollouts.analysis.analysis_types import Notify
from kohort.rollouts.analysis.http_fetch import FetchError, FetchRequest
from kohort.rollouts.analysis.sources import SourceError, SourceReader
from kohort.rollouts.analysis_control.judgements import analysis_name
from kohort.rollouts.caches import RolloutCache
from kohort.rollouts.messages import EventReason, ReleaseEvent
from kohort.rollouts.rollout_types import Rollout
from kohort.rules import rollout_labels

_log = Log(module="kohort.rollouts.analysis_control.notifications")

TRIES: Final = 5
MOST_WAITING: Final = 200
_FIRST_DELAY: Final = 1.0
_SECONDS: Final = 5.0
_OCCASIONS: Final = {
    EventReason.ANALYSIS_FAILED: NotifyOn.FAILED,
    EventReason.WITHDRAWN: NotifyOn.ROLLED_BACK,
    EventReason.ROLLED_BACK: NotifyOn.ROLLED_BACK,
    EventReason.STABLE_PROMOTED: NotifyOn.PROMOTED,
    EventReason.STEP_PAUSED_FOR_APPROVAL: NotifyOn.WAITING,
    EventReason.ANALYSIS_HELD: NotifyOn.WAITING,
}


class _Message(msgspec.Struct, frozen=True):
    to: Notify
    namespace: str
    document: JsonObject


class Notifier:
    def __init__(self, manager: Manager, cache: RolloutCache, reader: SourceReader) -> None:
        self.cache = cache
        self.reader = reader
        self._queue: asyncio.Queue[_Message] = asyncio.Queue(MOST_WAITING)
        self._posted: OrderedDict[str, None] = OrderedDict()
        manager.background("release-notifications", self._run)

    def notify(self, rollout: Rollout, event: ReleaseEvent, analysis_text: str) -> None:
        """Returns at once. Without an analysis, or when too many messages wait, nothing is posted."""
        occasion, name = _OCCASIONS.get(event.reason), analysis_name(rollout)
        analysis = self.cache.analyses.get(Key(rollout.metadata.namespace, name)) if occasion and name else None
        if analysis is None or occasion is None:
            return
        document = cloud_event(rollout, occasion, event, analysis_text)
        if document["id"] in self._posted:
            return
        self._posted[document["id"]] = None
        while len(self._posted) > MOST_WAITING:
            self._posted.popitem(last=False)
        for one in analysis.spec.notify:
            if occasion in one.on:
                try:
                    self._queue.put_nowait(_Message(one, rollout.metadata.namespace, document))
                except asyncio.QueueFull:
                    _log.warning("notification dropped: too many wait", url=one.url, id=document["id"])

    async def _run(self) -> None:
        running: set[asyncio.Task[None]] = set()
        try:
            while True:
                message = await self._queue.get()
                task = asyncio.create_task(self._post(message))
                running.add(task)
                task.add_done_callback(running.discard)
                if len(running) >= 8:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in running:
                task.cancel()

    async def _post(self, message: _Message) -> None:
        delay, problem = _FIRST_DELAY, ""
        for attempt in range(TRIES):
            try:
                await self._post_once(message)
                return
            except (FetchError, SourceError) as failed:
                problem = str(failed)
            if attempt + 1 < TRIES:
                await asyncio.sleep(delay)
                delay *= 2
        _log.warning("notification not posted", url=message.to.url, id=message.document["id"], error=problem)

    async def _post_once(self, message: _Message) -> None:
        headers = {"Content-Type": "application/cloudevents+json"}
        if message.to.secret_ref is not None:
            token = await self.reader.secret(message.to.secret_ref, message.namespace)
            headers["Authorization"] = f"Bearer {token.strip()}"
        body = msgspec.json.encode(message.document)
        await self.reader.fetch(FetchRequest(message.to.url, headers, body, seconds=_SECONDS))


def cloud_event(rollout: Rollout, occasion: NotifyOn, event: ReleaseEvent, analysis_text: str) -> JsonObject:
    """One document, as CloudEvents structure it. Its id follows from what happened. `analysis_text` is what is known of
    the analysis when the event happens; the status of the Rollout is from before."""
    metadata, progress = rollout.metadata, rollout.status.progress
    release = progress.observed_rollout_id if progress is not None else ""
    step = progress.current_step_index if progress is not None else 0
    attempt = progress.analysis_attempt if progress is not None else 0
    identity = f"{metadata.uid}/{release}/{step}/{attempt}/{event.reason}"
    return {
        "specversion": "1.0",
        "id": hashlib.sha256(identity.encode()).hexdigest()[:32],
        "source": f"/apis/{rollout_labels.API_VERSION}/namespaces/{metadata.namespace}/rollouts/{metadata.name}",
        "type": f"dev.kohort.release.{occasion}",
        "time": clock.timestamp(),
        "datacontenttype": "application/json",
        "data": {
            "rollout": metadata.name,
            "namespace": metadata.namespace,
            "workload": rollout.spec.workload_ref.name,
            "release": release,
            "step": step,
            "reason": event.reason,
            "message": event.message,
            "analysis": analysis_text,
        },
    }
