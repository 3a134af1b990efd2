"""A small API server to test the runtime against: the list and watch protocol from the specification, and nothing else.

It can be told to misbehave in the ways real servers do: to have no streaming lists, to ignore that they were asked for,
to forget its history, to close or to break its watches. It keeps whole objects of any resource in one dictionary per
path.
"""

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Literal

import msgspec

from kohort.kube import errors
from kohort.kube.http import Request, Response
from kohort.kube.resources import Key
from kohort.kube.watch_frames import INITIAL_EVENTS_END
from kohort.objects.json_types import JsonObject
from kohort.testing.request_matching import is_watch

_END = object()


class ModelServer:
    def __init__(self, streaming_lists: Literal["yes", "refused", "ignored"] = "yes", kind: str = "ConfigMap") -> None:
        self.revision = 100
        self.oldest = 0
        """Watches can start here or later."""
        self.streaming_lists = streaming_lists
        self.kind = kind
        self.requests: list[Request] = []
        self.objects: dict[str, dict[Key, JsonObject]] = {}
        self.log: list[tuple[int, str, str, JsonObject]] = []
        self.last_state = 0
        """Revision of the newest whole state that was handed out."""
        self._watchers: set[asyncio.Queue[object]] = set()

    # Turning knobs

    def forget_history(self) -> None:
        self.oldest = self.revision

    def end_watches(self) -> None:
        self._to_all(_END)

    def break_watches(self) -> None:
        self._to_all(errors.Unreachable("connection reset"))

    def send_bookmarks(self) -> None:
        self._to_all(self._bookmark(self.revision))

    def _to_all(self, item: object) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(item)

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    # Writing without a request

    def put(self, collection: str, namespace: str, name: str, **fields: object) -> JsonObject:
        store = self.objects.setdefault(collection, {})
        key = Key(namespace, name)
        known = store.get(key)
        obj: JsonObject = {"apiVersion": "v1", "kind": self.kind, "metadata": {"name": name, "namespace": namespace}}
        if known is not None:
            obj["metadata"]["uid"] = known["metadata"]["uid"]
        obj |= fields
        return self._commit(collection, "MODIFIED" if known else "ADDED", obj)

    def remove(self, collection: str, namespace: str, name: str) -> None:
        self._commit(collection, "DELETED", self.objects[collection][Key(namespace, name)])

    def _commit(self, collection: str, change: str, obj: JsonObject) -> JsonObject:
        self.revision += 1
        obj = copy.deepcopy(obj)
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(self.revision)
        metadata.setdefault("uid", f"uid-{self.revision}")
        key = Key(metadata.get("namespace", ""), metadata["name"])
        if change == "DELETED":
            del self.objects[collection][key]
        else:
            self.objects.setdefault(collection, {})[key] = obj
        self.log.append((self.revision, collection, change, obj))
        self._to_all((self.revision, collection, change, obj))
        return obj

    # Serving

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        try:
            return self._answer(request)
        except errors.ApiError as problem:
            return Response(problem.code, {}, msgspec.json.encode(problem.to_json()))

    def _answer(self, request: Request) -> Response:
        collection, namespace, name = _place(request.path)
        if is_watch(request):
            return self._watch(request, collection, namespace)
        if request.method == "GET" and not name:
            return self._list(request, collection, namespace)
        store = self.objects.setdefault(collection, {})
        key = Key(namespace, name)
        if request.method == "POST":
            obj = msgspec.json.decode(request.body)
            key = Key(namespace, obj["metadata"]["name"])
            if key in store:
                raise errors.already_exists(collection, key.name)
            obj["metadata"]["namespace"] = namespace
            return _json(201, self._commit(collection, "ADDED", obj))
        if key not in store:
            raise errors.not_found(collection, name)
        return _json(200, self._on_existing(request, collection, key))

    def _on_existing(self, request: Request, collection: str, key: Key) -> JsonObject:
        live = self.objects[collection][key]
        if request.method == "GET":
            return live
        if request.method == "DELETE":
            return self._commit(collection, "DELETED", live)
        body = msgspec.json.decode(request.body)
        if request.method == "PATCH":
            return self._commit(collection, "MODIFIED", live | body | {"metadata": live["metadata"]})
        if body["metadata"].get("resourceVersion") not in (None, live["metadata"]["resourceVersion"]):
            raise errors.conflict(collection, key.name, errors.STALE)
        body["metadata"]["uid"] = live["metadata"]["uid"]
        return self._commit(collection, "MODIFIED", body)

    def _selected(self, collection: str, namespace: str) -> list[JsonObject]:
        self.last_state = self.revision
        store = self.objects.get(collection, {})
        return [store[key] for key in sorted(store) if namespace in ("", key.namespace)]

    def _list(self, request: Request, collection: str, namespace: str) -> Response:
        objects, revision, start = self._selected(collection, namespace), self.revision, 0
        if token := request.param("continue"):
            start, revision = map(int, token.split("@"))
            if revision < self.oldest:
                raise errors.expired("the continue token is too old")
        size = int(request.param("limit") or 0) or len(objects)
        metadata = {"resourceVersion": str(revision)}
        if start + size < len(objects):
            metadata["continue"] = f"{start + size}@{revision}"
        items = [{name: value for name, value in obj.items() if name not in ("apiVersion", "kind")} for obj in objects]
        document = {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items[start : start + size]}
        return _json(200, document)

    def _watch(self, request: Request, collection: str, namespace: str) -> Response:
        initial = request.param("sendInitialEvents") == "true"
        if initial and self.streaming_lists == "refused":
            raise errors.invalid("ListOptions", "", [])
        queue: asyncio.Queue[object] = asyncio.Queue()
        frames: list[bytes] = []
        since = int(request.param("resourceVersion") or 0)
        if not since:
            frames += [_frame("ADDED", obj) for obj in self._selected(collection, namespace)]
            if initial and self.streaming_lists == "yes":
                frames.append(self._bookmark(self.revision, end=True))
        elif since < self.oldest:
            status = errors.expired(f"too old resource version: {since} ({self.oldest})").to_json()
            frames.append(_frame("ERROR", status))
            queue.put_nowait(_END)
        else:
            for entry in self.log:
                if entry[0] > since:
                    queue.put_nowait(entry)
        self._watchers.add(queue)
        return Response(200, {}, self._frames(queue, frames, collection, namespace))

    async def _frames(
        self, queue: "asyncio.Queue[object]", first: list[bytes], collection: str, namespace: str
    ) -> AsyncIterator[bytes]:
        try:
            for frame in first:
                yield frame
            while (item := await queue.get()) is not _END:
                if isinstance(item, Exception):
                    raise item
                if isinstance(item, bytes):
                    yield item
                elif isinstance(item, tuple) and item[1] == collection and _within(namespace, item[3]):
                    yield _frame(item[2], item[3])
        finally:
            self._watchers.discard(queue)

    def _bookmark(self, revision: int, *, end: bool = False) -> bytes:
        metadata: JsonObject = {"resourceVersion": str(revision)}
        if end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return _frame("BOOKMARK", {"apiVersion": "v1", "kind": self.kind, "metadata": metadata})


def _within(namespace: str, obj: JsonObject) -> bool:
    return namespace in ("", obj["metadata"].get("namespace", ""))


def _frame(change: str, obj: JsonObject) -> bytes:
    return msgspec.json.encode({"type": change, "object": obj}) + b"\n"


def _json(code: int, document: JsonObject) -> Response:
    return Response(code, {"content-type": "application/json"}, msgspec.json.encode(document))


def _place(path: str) -> tuple[str, str, str]:
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return rest[0], namespace, rest[1] if len(rest) > 1 else ""
