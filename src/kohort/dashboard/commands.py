"""What the dashboard can have done, and who does it.

Changes and forecasts are made by the code of the command line, which lies above this package: the caller of the
dashboard hands it in as `Commands`. A preview runs the same code on a transport that turns every write into a dry run
of the API server, so it needs the same rights, is refused for the same reasons, and shows the very writes.
"""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.forecast import Forecast
from kohort.inspection.rollout_plan import RolloutForecast
from kohort.inspection.snapshot import Snapshot
from kohort.kube.client import Client
from kohort.kube.http import Request, Response, Stream, Transport
from kohort.objects.json_types import Json, JsonObject


class Verb(StrEnum):
    APPROVE = "approve"
    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"
    RETRY = "retry"
    RESTART = "restart"
    UNDO = "undo"
    RESIZE = "resize"
    SCALE = "scale"


PARAMETERS: Final[Mapping[Verb, tuple[str, ...]]] = {
    Verb.APPROVE: ("step", "full", "override", "reason"),
    Verb.RESTART: ("group",),
    Verb.UNDO: ("to",),
    Verb.RESIZE: ("cpu", "memory", "role", "container", "pod", "policy", "deadline", "recreate"),
    Verb.SCALE: ("replicas",),
}
"""What a verb may be given; each is also an option of its command."""
FLAGS: Final = ("full", "override", "pod", "recreate")
"""Parameters without a value."""
VERBS_WITHOUT_GROUPS: Final = (Verb.APPROVE, Verb.PAUSE, Verb.RESUME, Verb.ABORT, Verb.RETRY, Verb.RESTART, Verb.UNDO)
"""What Deployments and StatefulSets can have done."""
WITH_FORM: Final[Mapping[Verb, tuple[str, ...]]] = {
    Verb.RESIZE: ("cpu", "memory", "policy", "deadline"),
    Verb.SCALE: ("replicas",),
}
"""Verbs that need at least one of these: without any, their page is a form."""
_REVIEWS: Final = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")


class ActionRequest(msgspec.Struct, frozen=True):
    verb: Verb
    namespace: str
    name: str
    """As a person types it: `llm`, `deployment/web`."""
    parameters: Mapping[str, str] = {}
    """As they were given, checked, in the order of `PARAMETERS`; those without a value are "1"."""

    def number(self, name: str) -> int | None:
        text = self.parameters.get(name, "")
        return int(text) if text else None

    @property
    def asks_for_form(self) -> bool:
        needed = WITH_FORM.get(self.verb, ())
        return bool(needed) and not any(one in self.parameters for one in needed)

    @property
    def text(self) -> str:
        """The command that does the same.

        >>> ActionRequest(Verb.APPROVE, "default", "llm", {"step": "2"}).text
        'kohort approve llm -n default --step 2'
        >>> ActionRequest(Verb.SCALE, "default", "llm", {"replicas": "3"}).text
        'kubectl scale leaderworkerset llm -n default --replicas 3'
        """
        program = ("kubectl", "scale", "leaderworkerset") if self.verb is Verb.SCALE else ("kohort", self.verb.value)
        words = [*program, self.name, "-n", self.namespace]
        for name, value in self.parameters.items():
            words += [f"--{name}"] if name in FLAGS else [f"--{name}", value]
        return shlex.join(words)


class Planned(msgspec.Struct, frozen=True):
    """What applying one set would do."""

    forecast: Forecast
    before: Snapshot | None
    after: LeaderWorkerSet


class ActionRefused(Exception):
    """It cannot be done; the message has the reason and what to do."""


class Commands(Protocol):
    async def act(self, client: Client, request: ActionRequest) -> str:
        """Do it, with the rights of the client. What was done, in words. Raises Refused."""
        ...

    async def forecast(self, client: Client, before: Snapshot, after: LeaderWorkerSet) -> Planned:
        """What a set that is stored like this would do."""
        ...

    async def plan(
        self, client: Client, namespace: str, manifest: str
    ) -> tuple[Sequence[Planned], Sequence[RolloutForecast]]:
        """What applying this YAML would do. Raises Refused."""
        ...


class PlannedWrite(msgspec.Struct, frozen=True, rename="camel"):
    method: str
    path: str
    body: Json


class DryRuns:
    """A transport that lets nothing be stored: every write asks for a dry run, and is remembered. Dry runs that the
    action itself asks for, to foresee something, are no writes.

    A deletion has its options in the body, and the API server reads those and no others then: the dry run must be asked
    for there. What cannot be asked for as a dry run is not sent.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.writes: list[PlannedWrite] = []
        self.answers: list[JsonObject] = []
        """What would be stored, one for each write that was not refused."""

    async def send(self, request: Request) -> Response:
        if request.method in ("GET", "HEAD") or ("dryRun", "All") in request.query or _is_review(request):
            return await self._transport.send(request)
        response = await self._transport.send(as_dry_run(request))
        self.writes.append(PlannedWrite(request.method, request.path, _decoded(request.body)))
        if response.status < 300 and isinstance(response.body, bytes):
            answer = _decoded(response.body)
            if isinstance(answer, dict):
                self.answers.append(answer)
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._transport.stream(request)

    async def close(self) -> None:
        """The transport belongs to the client that it was taken from."""


def _is_review(request: Request) -> bool:
    """A question that is asked by POST, such as who the user is; nothing is stored."""
    return request.method == "POST" and request.path.startswith(_REVIEWS)


def as_dry_run(request: Request) -> Request:
    """
    >>> as_dry_run(Request("DELETE", "/api/v1/namespaces/a/pods/b", body=b'{"kind":"DeleteOptions"}')).body
    b'{"kind":"DeleteOptions","dryRun":["All"]}'
    """
    if request.method == "DELETE":
        options = _decoded(request.body) if request.body else {"kind": "DeleteOptions", "apiVersion": "v1"}
        if not isinstance(options, dict):
            raise ActionRefused(f"{request.method} {request.path} cannot be previewed: its options cannot be read")
        return msgspec.structs.replace(request, body=msgspec.json.encode({**options, "dryRun": ["All"]}))
    if request.method not in ("POST", "PUT", "PATCH") or request.path.endswith(("/eviction", "/binding")):
        raise ActionRefused(f"{request.method} {request.path} cannot be previewed")
    query = (*((name, value) for name, value in request.query if name != "dryRun"), ("dryRun", "All"))
    return msgspec.structs.replace(request, query=query)


def _decoded(body: bytes) -> Json:
    try:
        return msgspec.json.decode(body) if body else None
    except msgspec.DecodeError:
        return None
