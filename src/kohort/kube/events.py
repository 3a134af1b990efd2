"""Kubernetes Events: what happened to an object, in words, for `kubectl describe`.

An event must never delay or fail the work that it reports. `EventRecorder.event` only puts it into a bounded queue; a
background task writes, and events that cannot be written are dropped with a log line.

Four limits against floods of events, with the values of Kubernetes:

| limit       | rule                                                                                         |
|-------------|----------------------------------------------------------------------------------------------|
| repetition  | the same event again raises `count` of the existing one                                      |
| similarity  | the tenth event in 10 minutes that differs only in its message stands for all that follow    |
| spam        | per object and component: 25 at once, then one every 5 minutes; the rest is dropped. A       |
|             | component that emits many different events per object may be allowed more                    |
| rate        | per component: 100 at once, then 50 a second; the rest waits, so that a thousand pods that   |
|             | start at once do not compete with their own events                                           |

kube-scheduler writes its events in the newer form of `events.k8s.io`, with `action` and `eventTime`; so does a recorder
with an `instance`. There, an event is the same if it is about the same version of the object, whatever its message is;
a repetition raises `series.count`, and similar events are not combined.
"""

import asyncio
import random
from collections import OrderedDict
from typing import Generic, Literal, TypeVar

import msgspec

from kohort.kube import clock, errors
from kohort.kube.backoff import Backoff
from kohort.kube.client import Client
from kohort.kube.log import Log
from kohort.kube.object_identity import View, key_of
from kohort.kube.ratelimit import TokenBucket
from kohort.kube.resources import EVENTS, EVENTS_V1, Resource
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import Json, JsonObject

_log = Log(module="kohort.kube.events")

_REMEMBERED = 4096
_QUEUED = 5000
_SIMILAR = 10
_SIMILAR_SECONDS = 600.0
_RATE, _BURST = 50.0, 100
_ATTEMPTS = 5

EventType = Literal["Normal", "Warning"]


class EventLimit(msgspec.Struct, frozen=True):
    """How many events one object may have before further ones are dropped as spam."""

    burst: int = 25
    per_second: float = 1 / 300


DEFAULT_EVENT_LIMIT = EventLimit()

V = TypeVar("V")


class ObjectReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an event is about."""

    kind: str
    api_version: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


def reference_to(resource: Resource, obj: View | JsonObject) -> ObjectReference:
    key = key_of(obj)
    metadata: Json = obj["metadata"] if isinstance(obj, dict) else obj.metadata
    if isinstance(metadata, dict):
        uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    else:
        uid, version = getattr(metadata, "uid", ""), metadata.resource_version
    return ObjectReference(resource.kind, resource.api_version, key.name, key.namespace, uid, version)


class _PendingEvent(msgspec.Struct, frozen=True):
    about: ObjectReference
    type: EventType
    reason: str
    message: str
    when: str
    action: str = ""
    related: ObjectReference | None = None
    combined: bool = False
    """It stands for many similar events."""

    @property
    def same(self) -> tuple[str, ...]:
        """Equal for events that differ in nothing a reader sees."""
        about = self.about
        return (
            about.kind,
            about.namespace,
            about.name,
            about.uid,
            about.field_path,
            self.type,
            self.reason,
            self.message,
        )

    @property
    def similar(self) -> tuple[str, ...]:
        return self.same[:-1]

    @property
    def series(self) -> tuple[str, ...]:
        related = self.related.uid if self.related is not None else ""
        return (*self.similar, self.about.resource_version, self.action, related)


class _Written(msgspec.Struct):
    """An event that exists in the cluster."""

    name: str
    count: int


class _Similar(msgspec.Struct):
    messages: set[str]
    since: float


class EventRecorder:
    def __init__(
        self,
        client: Client,
        component: str,
        host: str = "",
        allowance: EventLimit = DEFAULT_EVENT_LIMIT,
        instance: str = "",
    ) -> None:
        """With an `instance`, which is the name of this process, events have the newer form."""
        self._client = client
        self._instance = instance
        self._allowance = allowance
        self._component = component
        self._host = host
        self._notes: asyncio.Queue[_PendingEvent] = asyncio.Queue(_QUEUED)
        self._written: _Recent[_Written] = _Recent(_REMEMBERED)
        self._similar: _Recent[_Similar] = _Recent(_REMEMBERED)
        self._buckets: _Recent[TokenBucket] = _Recent(_REMEMBERED)
        self._pace = TokenBucket(_RATE, _BURST)
        self._closing = False
        self._last_stamp = 0
        self._dropped = 0
        """Events that found the queue full since it was last empty."""
        self._writer: asyncio.Task[None] | None = None
        self._log = _log.bind(component=component)

    def normal(
        self,
        resource: Resource,
        obj: View | JsonObject,
        reason: str,
        message: str,
        *,
        action: str = "",
        related: ObjectReference | None = None,
    ) -> None:
        self.event(reference_to(resource, obj), "Normal", reason, message, action=action, related=related)

    def warning(
        self,
        resource: Resource,
        obj: View | JsonObject,
        reason: str,
        message: str,
        *,
        action: str = "",
        related: ObjectReference | None = None,
    ) -> None:
        self.event(reference_to(resource, obj), "Warning", reason, message, action=action, related=related)

    def event(
        self,
        about: ObjectReference,
        type: EventType,
        reason: str,
        message: str,
        *,
        action: str = "",
        related: ObjectReference | None = None,
    ) -> None:
        """Returns at once, whatever happens to the event. `action` is what was done, `related` another object that it
        was done to."""
        when = clock.micro_timestamp() if self._instance else clock.timestamp()
        note = _PendingEvent(about, type, reason, message, when, action, related)
        try:
            self._notes.put_nowait(note)
        except asyncio.QueueFull:
            self._overflow(about.name, reason)
            return
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all(), name=f"events-{self._component}")

    def _overflow(self, name: str, reason: str) -> None:
        """Log only the first dropped event of a flood."""
        if not self._dropped:
            self._log.warning("events dropped, too many waiting", first=name, reason=reason)
        self._dropped += 1

    async def flush(self) -> None:
        """Returns when everything recorded so far has been written or dropped."""
        await self._notes.join()

    async def close(self, timeout: float = 2.0) -> None:
        """Write what waits, without delay and within `timeout` seconds, and end."""
        self._closing = True
        if self._writer is None:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._notes.join()
        except TimeoutError:
            # The writer holds one more.
            self._log.warning("events dropped at the end", count=self._notes.qsize() + 1)
        await cancel_all(self._writer)

    async def _write_all(self) -> None:
        while True:
            note = await self._notes.get()
            try:
                await self._write(note)
            except Exception:
                self._log.exception("event dropped", reason=note.reason, object=note.about.name)
            finally:
                self._notes.task_done()
            if self._dropped and self._notes.empty():
                self._log.warning("events were dropped, too many waited", count=self._dropped)
                self._dropped = 0

    async def _write(self, note: _PendingEvent) -> None:
        if not self._bucket(note).try_take():
            self._log.debug("event dropped as spam", reason=note.reason, object=note.about.name)
            return
        note = note if self._instance else self._merged(note)
        if not self._closing:
            await self._pace.take()
        backoff = Backoff(base=0.5, limit=5.0)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._store(note)
                return
            except errors.ApiError as problem:
                if attempt == _ATTEMPTS or not _worth_retrying(problem):
                    self._log.warning(
                        "event dropped", reason=note.reason, object=note.about.name, problem=problem.message
                    )
                    return
            await asyncio.sleep(backoff.next())

    def _bucket(self, note: _PendingEvent) -> TokenBucket:
        about = note.about
        key = (about.kind, about.namespace, about.name, about.uid)
        allowed = self._allowance
        return self._buckets.get(key) or self._buckets.put(key, TokenBucket(allowed.per_second, allowed.burst))

    def _merged(self, note: _PendingEvent) -> _PendingEvent:
        """The event itself, or the combined one for many similar events."""
        now = asyncio.get_running_loop().time()
        known = self._similar.get(note.similar)
        if known is None or now - known.since > _SIMILAR_SECONDS:
            known = self._similar.put(note.similar, _Similar(set(), now))
        known.since = now
        if len(known.messages) < _SIMILAR - 1 or note.message in known.messages:
            known.messages.add(note.message)
            return note
        message = f"(combined from similar events): {note.message}"
        return msgspec.structs.replace(note, message=message, action="", related=None, combined=True)

    async def _store(self, note: _PendingEvent) -> None:
        identity = note.series if self._instance else note.similar if note.combined else note.same
        known = self._written.get(identity)
        if known is not None and await self._count_up(known, note):
            return
        name = f"{note.about.name}.{self._stamp():x}"
        if self._instance:
            await self._client.create(EVENTS_V1, self._newer_document(name, note), _namespace(note.about))
        else:
            await self._client.create(EVENTS, self._document(name, note), _namespace(note.about))
        self._written.put(identity, _Written(name, 1))

    def _stamp(self) -> int:
        """Nanoseconds for the suffix of event names; randomized, because two recorders may write at the same moment."""
        self._last_stamp = max(self._last_stamp + 1, int(clock.seconds() * 1e9) + random.randrange(1_000_000))
        return self._last_stamp

    async def _count_up(self, known: _Written, note: _PendingEvent) -> bool:
        count = known.count + 1
        patch: JsonObject = {"count": count, "lastTimestamp": note.when, "message": note.message}
        if self._instance:
            patch = {"series": {"count": count, "lastObservedTime": note.when}}
        try:
            resource = EVENTS_V1 if self._instance else EVENTS
            await self._client.patch(resource, known.name, _namespace(note.about), patch)
        except errors.NotFound:
            return False
        known.count += 1
        return True

    def _document(self, name: str, note: _PendingEvent) -> JsonObject:
        source = {"component": self._component} | ({"host": self._host} if self._host else {})
        more: JsonObject = {"action": note.action} if note.action else {}
        if note.related is not None:
            more["related"] = msgspec.to_builtins(note.related)
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": _namespace(note.about)},
            "involvedObject": msgspec.to_builtins(note.about),
            "type": note.type,
            "reason": note.reason,
            "message": note.message,
            "source": source,
            "reportingComponent": "" if note.combined else self._component,
            "reportingInstance": "" if note.combined else self._host,
            "firstTimestamp": note.when,
            "lastTimestamp": note.when,
            "count": 1,
            **more,
        }

    def _newer_document(self, name: str, note: _PendingEvent) -> JsonObject:
        related = {} if note.related is None else {"related": msgspec.to_builtins(note.related)}
        return {
            "apiVersion": EVENTS_V1.api_version,
            "kind": EVENTS_V1.kind,
            "metadata": {"name": name, "namespace": _namespace(note.about)},
            "regarding": msgspec.to_builtins(note.about),
            "type": note.type,
            "reason": note.reason,
            "action": note.action,
            "note": note.message,
            "eventTime": note.when,
            "reportingController": self._component,
            "reportingInstance": self._instance,
            **related,
        }


def _worth_retrying(problem: errors.ApiError) -> bool:
    return isinstance(problem, errors.Unreachable | errors.AlreadyExists) or problem.code == 429 or problem.code >= 500


def _namespace(about: ObjectReference) -> str:
    """Events about cluster-scoped objects live in `default`."""
    return about.namespace or "default"


class _Recent(Generic[V]):
    """A dictionary that drops the least recently used entry."""

    __slots__ = ("_limit", "_values")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[tuple[str, ...], V] = OrderedDict()

    def get(self, key: tuple[str, ...]) -> V | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: tuple[str, ...], value: V) -> V:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._limit:
            self._values.popitem(last=False)
        return value
