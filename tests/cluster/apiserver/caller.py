"""A server in memory, and a caller who needs one line per request."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from kohort.cluster.apiserver.auth.model import ADMIN, AccessDecision, AccessRequest, User
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.server import ApiServer
from kohort.kube.http import Request, Response
from kohort.objects.json_types import Json, JsonObject

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"


class AllowAll:
    """An authorizer that allows everything except for the users in `refused`."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def authorize(self, request: AccessRequest) -> AccessDecision:
        return AccessDecision(request.user.name not in self.refused)


class Answer:
    def __init__(self, response: Response) -> None:
        assert isinstance(response.body, bytes)
        self.code = response.status
        self.headers = response.headers
        self.raw = response.body
        self.json: Json = None
        if response.body[:1] == b"{":
            self.json = msgspec.json.decode(response.body)

    @property
    def meta(self) -> JsonObject:
        metadata: JsonObject = self.json["metadata"]
        return metadata

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.json["items"]]

    @property
    def reason(self) -> str:
        reason: str = self.json.get("reason", "")
        return reason

    @property
    def message(self) -> str:
        message: str = self.json.get("message", "")
        return message

    @property
    def warnings(self) -> list[str]:
        return self.headers.get("warning", "").splitlines()


class Api:
    def __init__(self, server: ApiServer, authorizer: AllowAll) -> None:
        self.server = server
        self.authorizer = authorizer

    async def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        headers: Mapping[str, str] | None = None,
        user: User = ADMIN,
        **query: str,
    ) -> Response:
        sent = body if isinstance(body, bytes) else (b"" if body is None else msgspec.json.encode(body))
        default = {"content-type": JSON, "user-agent": "tests/1"} | dict(headers or {})
        params = tuple((key.removesuffix("_"), value) for key, value in query.items())
        return await self.server.handle(Request(method, path, params, default, sent), user)

    async def get(self, path: str, headers: Mapping[str, str] | None = None, **query: str) -> Answer:
        return Answer(await self.send("GET", path, None, headers, ADMIN, **query))

    async def post(self, path: str, body: Json, **query: str) -> Answer:
        return Answer(await self.send("POST", path, body, None, ADMIN, **query))

    async def put(self, path: str, body: Json, **query: str) -> Answer:
        return Answer(await self.send("PUT", path, body, None, ADMIN, **query))

    async def patch(self, path: str, body: Json, media: str = MERGE, **query: str) -> Answer:
        return Answer(await self.send("PATCH", path, body, {"content-type": media}, ADMIN, **query))

    async def delete(self, path: str, body: Json = None, **query: str) -> Answer:
        return Answer(await self.send("DELETE", path, body, None, ADMIN, **query))

    async def config_map(self, name: str, namespace: str = "default", **metadata: Json) -> Answer:
        body = {"metadata": {"name": name, **metadata}, "data": {"k": "v"}}
        answer = await self.post(f"/api/v1/namespaces/{namespace}/configmaps", body)
        assert answer.code == 201, answer.raw
        return answer

    async def pod(self, name: str, **spec: Json) -> Answer:
        body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}
        answer = await self.post("/api/v1/namespaces/default/pods", body)
        assert answer.code == 201, answer.raw
        return answer

    async def settle(self) -> None:
        """Let what runs in the background come to rest; no time passes."""
        for _ in range(50):
            await asyncio.sleep(0)

    def restarted(self) -> "Api":
        """Another server on the same store."""
        return Api(ApiServer(self.server.store, Catalog(builtin_kinds()), self.authorizer), self.authorizer)

    async def watch(self, path: str, headers: Mapping[str, str] | None = None, **query: str) -> "Events":
        response = await self.send("GET", path, None, headers, ADMIN, watch="true", **query)
        assert response.status == 200, response.body
        assert not isinstance(response.body, bytes)
        return Events(response.body)


class Events:
    """A running watch, read event by event."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._waiting: list[JsonObject] = []

    async def next(self) -> JsonObject:
        while not self._waiting:
            chunk = await anext(self._chunks)
            self._waiting += [msgspec.json.decode(line) for line in chunk.splitlines()]
        return self._waiting.pop(0)

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def rest(self) -> list[JsonObject]:
        """Everything until the stream ends."""
        events = self._waiting
        async for chunk in self._chunks:
            events += [msgspec.json.decode(line) for line in chunk.splitlines()]
        return events
