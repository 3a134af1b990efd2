"""A cluster in this process, on virtual time, and a person at a terminal."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from _pytest.capture import CaptureResult
from tests.installed import installed

from kohort.cli.actions import show
from kohort.cli.connection import guarded
from kohort.kube.resources import LEADER_WORKER_SETS, PODS
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

NAMESPACE = "default"
ORDER = "simulation.kohort.dev/"

Command = Callable[..., Awaitable[int]]


class Story:
    """A cluster, and what a person at a terminal sees of it."""

    def __init__(self, cluster: Cluster, capture: pytest.CaptureFixture[str]) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self._capture = capture
        self.complaint = ""

    async def create(self, subject: JsonObject, *, ready: bool = True) -> None:
        await self.cluster.client.create(LEADER_WORKER_SETS, subject, NAMESPACE)
        if ready:
            _, code = await self.run(show.status, "llm", "text", True, 600.0)
            assert code == 0

    async def run(self, command: Command, *arguments: Json) -> tuple[str, int]:
        """What it prints, and its exit code."""
        self._capture.readouterr()
        code = await guarded(lambda client, namespace: command(client, namespace, *arguments), self.client, NAMESPACE)
        printed = self._capture.readouterr()
        self.complaint = printed.err
        return printed.out, code

    def printed(self) -> CaptureResult[str]:
        return self._capture.readouterr()

    async def change(self, body: JsonObject) -> None:
        await self.cluster.client.patch(LEADER_WORKER_SETS, "llm", NAMESPACE, body)

    def uids(self) -> dict[str, str]:
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in self.cluster.objects(PODS, NAMESPACE)}

    def live(self) -> JsonObject:
        found = self.cluster.find(LEADER_WORKER_SETS, "llm", NAMESPACE)
        assert found is not None
        return found

    def image(self) -> str:
        template = self.live()["spec"]["leaderWorkerTemplate"]["workerTemplate"]
        image: str = template["spec"]["containers"][0]["image"]
        return image


@pytest.fixture
def story(capsys: pytest.CaptureFixture[str]) -> Callable[..., Json]:
    @asynccontextmanager
    async def begin(nodes: int = 6, **settings: Json) -> AsyncIterator[Story]:
        parts = ("workloads", "scheduler", "operator")
        async with Cluster(
            parts=parts, nodes=nodes, node_settings=settings, contents=installed("workloads")
        ) as cluster:
            yield Story(cluster, capsys)

    return begin
