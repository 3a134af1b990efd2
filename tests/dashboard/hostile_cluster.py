"""A cluster whose objects are hostile: a transport that adds an attack to every text of every answer.

Admission refuses many of these texts: a node or a container cannot be named like this. A page must not rely on that, so
the answers of a real API server are changed on their way to the dashboard. Only what pages are computed with stays as
it is: `KEPT` keys, names other than those of nodes, times, amounts, and the labels that say what belongs to what.

Behind the attack stands the key of the field, as in `@image;`, so that a test can see which fields have reached a page.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from kohort.kube.http import Request, Response, Stream, Transport
from kohort.objects.json_types import Json, JsonObject

ATTACK: Final = (
    "\"'><img src=x onerror=alert(1)><script>alert(1)</script></textarea></title></pre><svg onload=alert(1)>"
)
KEPT: Final = frozenset(
    (
        *("apiVersion", "kind", "uid", "resourceVersion", "continue", "namespace", "selector", "serviceName"),
        *("ownerReferences", "workloadRef", "trafficRoutings", "involvedObject", "managedFields", "finalizers"),
        *("type", "status", "phase", "protocol", "operator", "effect", "encoding", "currentStepState", "traffic"),
        *("updateRevision", "currentRevision", "stableRevision", "podTemplateHash", "observedRolloutID", "release"),
        *("canaryRevision", "resize", "rolloutStrategy", "podManagementPolicy", "updateStrategy", "rollout"),
        *("restartPolicy", "dnsPolicy", "terminationMessagePolicy", "imagePullPolicy", "startupPolicy", "code"),
        *("limit", "verdict", "claimName", "persistentVolumeClaim", "networkConfig", "whenDeleted", "whenScaled"),
    )
)
AMOUNTS: Final = frozenset(("requests", "limits", "capacity", "allocatable", "allocatedResources"))
_SINCE: Final = re.compile(r"\d{4}-\d\d-\d\dT|^[\d.]+$|^[\d.]+%$")
_OWN_LABELS: Final = ("leaderworkerset.sigs.k8s.io/", "rollouts.kruise.io/", "kohort.dev/", "controller-revision-hash")
_MARKS: Final = (*_OWN_LABELS, "pod-template-hash", "apps.kubernetes.io/", "batchrelease", "deployment.kubernetes.io/")


def planted(text: str, key: str) -> str:
    return f"{text}{ATTACK}@{key};"


def hostile(value: Json, key: str = "") -> Json:
    """The same object with an attack in each text; `key` is that of the field it stands in."""
    if isinstance(value, dict):
        return {one: _field(one, inner, value) for one, inner in value.items()}
    if isinstance(value, list):
        return [hostile(one, key) for one in value]
    if isinstance(value, str) and value and not _SINCE.search(value):
        return planted(value, key)
    return value


def _field(name: str, value: Json, whole: JsonObject) -> Json:
    if name in KEPT and not isinstance(value, dict | list):
        return value
    if name in KEPT - {"status"} or name in AMOUNTS:
        return value
    if name == "metadata":
        return {one: _metadata(one, inner) for one, inner in value.items()}
    if name == "nodeName":
        return planted(value, "node") if value else value
    if name == "reason" and "lastTransitionTime" in whole:
        return value  # Of a condition: rules look at it.
    return hostile(value, name)


def _metadata(name: str, value: Json) -> Json:
    if name not in ("labels", "annotations"):
        return value
    return {one: inner if one.startswith(_MARKS) else hostile(inner, name) for one, inner in value.items()}


def _object(found: JsonObject) -> JsonObject:
    if "items" in found:
        return {
            **found,
            "items": [_object({"kind": found["kind"].removesuffix("List"), **one}) for one in found["items"]],
        }
    if found.get("kind") == "ConfigMap":
        return found  # A document of the operator: what is in it is attacked where it is written.
    changed: JsonObject = hostile(found)
    if found.get("kind") == "Node":
        changed["metadata"] = {**changed["metadata"], "name": planted(found["metadata"]["name"], "node")}
    return changed


def _line(line: bytes) -> bytes:
    event = msgspec.json.decode(line)
    if event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
        event["object"] = _object(event["object"])
    return msgspec.json.encode(event) + b"\n"


class _HostileStream:
    def __init__(self, inner: Stream) -> None:
        self.status, self.headers, self._inner = inner.status, inner.headers, inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in self._inner:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield _line(line)


class _PretendedLog:
    """Simulated pods have no logs."""

    def __init__(self) -> None:
        self.status, self.headers = 200, dict[str, str]()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield planted("a line", "log").encode() + b"\n"


class HostileTransport:
    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        response = await self._inner.send(request)
        if isinstance(response.body, bytes) and response.body.startswith(b"{") and "/openapi" not in request.path:
            response.body = msgspec.json.encode(_object(msgspec.json.decode(response.body)))
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        if request.path.endswith("/log"):
            yield _PretendedLog()
            return
        async with self._inner.stream(request) as inner:
            yield _HostileStream(inner)

    async def close(self) -> None:
        await self._inner.close()
