"""The whole way: groups, their Rollout, an Ingress, the data plane, and a client that never stops asking.

Every pod has a server of its own that says which version and which member of the group it is, so a request that reaches
a worker, or a version that it should not, is seen.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web
from tests.machine_load import within
from tests.rollouts.monitor import Monitor
from tests.rollouts.releases import NAMESPACE, V1, V2, V3, Story, group_set, rollout

from kohort.cluster.gateway.data_plane import DataPlane
from kohort.cluster.gateway.registration import register
from kohort.kube.manager import Manager
from kohort.kube.resources import PODS
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster

REQUESTS = 2000
POINTS = 3.0
HOST = "llm.example"
STEPS: list[JsonObject] = [
    {"replicas": 1, "matches": [{"headers": [{"name": "x-tester", "value": "1"}]}], "pause": {}},
    {"replicas": "50%", "traffic": "20%", "pause": {}},
    {"replicas": "100%", "traffic": "50%", "pause": {}},
    {"replicas": "100%", "traffic": "100%", "pause": {}},
]


class Pods:
    """A server per address of a pod, made when it is first called."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._ports: dict[str, int] = {}
        self._runners: dict[str, tuple[str, web.ServerRunner]] = {}
        """By address: uid of the pod, and its server."""
        self.finish_streams = asyncio.Event()
        self._starting: list[asyncio.Task[None]] = []

    def dial(self, address: str, _: int) -> tuple[str, int]:
        if address not in self._ports:
            listening = socket.create_server(("127.0.0.1", 0))
            self._ports[address] = listening.getsockname()[1]
            # Until the server accepts, the kernel keeps the connection.
            self._starting.append(asyncio.ensure_future(self._serve(listening, address)))
        return "127.0.0.1", self._ports[address]

    def _who(self, address: str) -> tuple[str, str]:
        """The uid of a pod, and what it says."""
        for pod in self.cluster.objects(PODS, NAMESPACE):
            if (pod.get("status") or {}).get("podIP") == address:
                member = pod["metadata"]["labels"].get(group_labels.WORKER_INDEX)
                return pod["metadata"]["uid"], f"{pod['spec']['containers'][0]['image']} member {member}"
        return "", "nobody"

    async def _serve(self, listening: socket.socket, address: str) -> None:
        uid, who = self._who(address)

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            return await self._stream(request, who) if request.path == "/stream" else web.Response(text=who)

        runner = web.ServerRunner(web.Server(answer, access_log=None), handle_signals=False, shutdown_timeout=0.01)
        await runner.setup()
        self._runners[address] = uid, runner
        await web.SockSite(runner, listening).start()

    async def _stream(self, request: web.BaseRequest, who: str) -> web.StreamResponse:
        """Who answers, and the end when the test says so."""
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(who.encode())
        await self.finish_streams.wait()
        await response.write(b" end")
        return response

    async def end_with_their_pods(self) -> None:
        """A server is closed, with all its connections, when its pod is gone."""
        while True:
            await asyncio.sleep(0.02)
            present = {pod["metadata"]["uid"] for pod in self.cluster.objects(PODS, NAMESPACE)}
            for address, (uid, runner) in [*self._runners.items()]:
                if uid not in present:
                    # Another pod may have the address by now; it gets a server of its own.
                    del self._runners[address], self._ports[address]
                    await runner.cleanup()

    async def close(self) -> None:
        await asyncio.gather(*self._starting)
        for _, runner in self._runners.values():
            await runner.cleanup()


class User:
    """Asks all the time, in the background and when told to."""

    def __init__(self, plane: DataPlane, http: ClientSession, pods: Pods) -> None:
        self.plane = plane
        self.pods = pods
        self.http = http
        self.seen: Counter[str] = Counter()
        """Since the last look, by those who ask without a header."""
        self.last: dict[str, float] = {}
        """When each answer was last given."""

    async def ask(self, **headers: str) -> str:
        async with self.http.get(self.plane.address, headers={"host": HOST, **headers}) as answer:
            text = await answer.text()
            return text if answer.status == 200 else f"{answer.status} {text}"

    async def keep_asking(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            text = await self.ask()
            self.seen[text] += 1
            self.last[text] = clock()
            await asyncio.sleep(0.005)

    async def count(self, requests: int = REQUESTS, **headers: str) -> Counter[str]:
        answers: Counter[str] = Counter()

        async def some() -> None:
            for _ in range(requests // 4):
                answers[await self.ask(**headers)] += 1

        await asyncio.gather(*(some() for _ in range(4)))
        return answers

    def look(self) -> Counter[str]:
        """Nobody but leaders has answered, and nothing has failed."""
        seen, self.seen = self.seen, Counter()
        assert seen.keys() <= {leader(image) for image in (V1, V2, V3)}, seen
        return seen


def leader(image: str) -> str:
    return f"{image} member 0"


@asynccontextmanager
async def scene(plan: JsonObject) -> AsyncIterator[tuple[Story, User]]:
    planes: list[DataPlane] = []
    pods: Pods

    def gateway(manager: Manager) -> None:
        planes.append(register(manager, dial=lambda address, port: pods.dial(address, port)))

    cluster = Cluster(parts=("workloads", "scheduler", "operator"), nodes=12, extra={"gateway": gateway})
    pods = Pods(cluster)
    monitor = Monitor(grace=1.0)
    async with cluster, ClientSession() as http, monitor.watching(cluster):
        story = Story(cluster)
        await story.begin(group_set(), plan)
        user = User(planes[0], http, pods)
        await cluster.until(lambda: bool(planes[0].address), 30)
        async with asyncio.timeout(120):
            while await user.ask() != leader(V1):
                pass
        asking = asyncio.ensure_future(user.keep_asking())
        try:
            yield story, user
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
    await pods.close()
    monitor.check()


def hasty(plan: JsonObject) -> JsonObject:
    (strategy,) = plan["spec"]["strategy"].values()
    strategy["trafficRoutings"][0]["gracePeriodSeconds"] = 1
    return plan


def check(seen: Counter[str], new: str, percent: int, *, old: str = V1) -> None:
    """Only leaders of the two versions answered, and the new one by its share."""
    assert seen.total() == REQUESTS
    allowed = {leader(image) for image, share in ((old, 100 - percent), (new, percent)) if share}
    assert seen.keys() <= allowed, seen
    assert abs(100 * seen[leader(new)] / seen.total() - percent) <= POINTS, seen


async def rest(user: User, old: str) -> None:
    """Until the last answer of the old version has arrived."""
    async with asyncio.timeout(120):
        while leader(old) in await user.count(20):
            pass
    user.look()


@pytest.mark.timeout(400)
async def test_l08_a_canary_of_groups_under_load() -> None:
    """Header match, 20%, 50%, 100%, promotion; 2,000 requests at each step, and others all the time."""
    async with scene(hasty(rollout(steps=STEPS))) as (story, user):
        await story.change(V2)
        await story.at(1, timeout=90)
        assert set(user.look()) == {leader(V1)}, "nobody met the new version by accident"
        assert await user.count(REQUESTS, **{"x-tester": "1"}) == {leader(V2): REQUESTS}
        check(await user.count(), V2, 0)
        for step, percent in ((2, 20), (3, 50)):
            await story.approve()
            await story.at(step, timeout=90)
            check(await user.count(), V2, percent)
        user.look()
        await story.approve()
        await story.until(lambda: story.weight() == "100", 60)
        assert set(user.look()) <= {leader(V1), leader(V2)}
        await rest(user, V1)
        check(await user.count(), V2, 100)
        await story.healthy(V2, timeout=120)
        assert set(user.look()) == {leader(V2)}, "v1 was not seen again, and nothing failed, while the set was rolled"


@pytest.mark.timeout(400)
async def test_blue_green_of_groups_under_load_and_back_from_a_bad_version() -> None:
    steps = [
        {"replicas": "100%", "traffic": "0%", "pause": {}},
        {"replicas": "100%", "traffic": "50%", "pause": {}},
        {"replicas": "100%", "traffic": "100%", "pause": {}},
    ]
    async with scene(hasty(rollout(blue_green=True, steps=steps))) as (story, user):
        await story.change(V2)
        for step, percent in ((1, 0), (2, 50), (3, 100)):
            await story.at(step, timeout=90)
            if percent == 100:
                await rest(user, V1)
            check(await user.count(), V2, percent)
            user.look()
            await story.approve()
        await story.healthy(V2, timeout=120)
        assert set(user.look()) == {leader(V2)}, "no request failed while all groups were replaced"
        await back_from_a_bad_version(story, user)


async def back_from_a_bad_version(story: Story, user: User) -> None:
    clock = asyncio.get_running_loop().time
    await story.change(V3)
    await story.at(1, timeout=90)
    await story.approve()
    await story.at(2, timeout=90)
    user.look()
    start = clock()
    await story.change(V2)
    await story.healthy(V2, timeout=120)
    took = user.last[leader(V3)] - start
    assert set(user.look()) <= {leader(V2), leader(V3)}, "nothing failed on the way back"
    assert took < within(1.0), f"the bad version answered for {took:.2f} s more"
    check(await user.count(), V3, 0, old=V2)
