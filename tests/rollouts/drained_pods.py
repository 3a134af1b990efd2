"""Model servers that say how many requests they have in flight, and a watch on how their pods go."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from tests.installed import installed
from tests.rollouts.deployments import Story
from tests.rollouts.releases import NAMESPACE, V1, rollout

from kohort import operator
from kohort.kube.manager import Manager
from kohort.kube.resources import DEPLOYMENTS, PODS, SERVICES, Resource
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import JsonObject
from kohort.objects.well_known_names import DELETION_COST
from kohort.rollouts.analysis.http_fetch import FetchError, FetchRequest
from kohort.rollouts.feature_gates import Features
from kohort.rules import rollout_labels
from kohort.testing import Cluster

GRACE = 3.0
_SERVERS: WeakKeyDictionary[Cluster, "BusyServers"] = WeakKeyDictionary()


class BusyServers:
    """`in_flight` says how many requests a pod answers now; by its name, as long as the cluster lives."""

    def __init__(self) -> None:
        self.cluster: Cluster | None = None
        self.in_flight: Callable[[JsonObject], int] = lambda _: 0

    async def __call__(self, request: FetchRequest) -> bytes:
        address = urlsplit(request.url).hostname or ""
        assert self.cluster is not None
        for pod in self.cluster.objects(PODS, NAMESPACE):
            if (pod.get("status") or {}).get("podIP") == address:
                return f"vllm:num_requests_running {self.in_flight(pod)}\n".encode()
        raise FetchError(f"{request.url}: HTTP 503")


class Departures:
    """Pods that were deleted, with what the Service had to do with them then."""

    def __init__(self, servers: BusyServers) -> None:
        self._servers = servers
        self._gone: set[str] = set()
        self._left_at: dict[str, float] = {}
        """When the Service last selected a pod."""
        self.undrained: list[str] = []
        self.images: list[str] = []
        self.most_pods = 0
        self.fewest_serving = 99

    @asynccontextmanager
    async def watching(self, cluster: Cluster) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._watch(cluster, resource)) for resource in (PODS, SERVICES)]
        try:
            yield
        finally:
            await cancel_all(*tasks)

    async def _watch(self, cluster: Cluster, resource: object) -> None:
        async for event in cluster.client.watch(PODS if resource is PODS else SERVICES, NAMESPACE):
            if resource is PODS and (event.type == "DELETED" or "deletionTimestamp" in event.object["metadata"]):
                self._goes(event.object)
            self._look(cluster)

    def _look(self, cluster: Cluster) -> None:
        now = asyncio.get_running_loop().time()
        service = cluster.find(SERVICES, "llm-leader", NAMESPACE) or {"spec": {}}
        selector = service["spec"].get("selector") or {}
        living = [pod for pod in cluster.objects(PODS, NAMESPACE) if "deletionTimestamp" not in pod["metadata"]]
        for pod in living:
            if selector.items() <= (pod["metadata"].get("labels") or {}).items():
                self._left_at[pod["metadata"]["uid"]] = now
        self.most_pods = max(self.most_pods, len(living))
        serving = [pod for pod in living if self._left_at.get(pod["metadata"]["uid"]) == now and _is_ready(pod)]
        self.fewest_serving = min(self.fewest_serving, len(serving))

    def _goes(self, pod: JsonObject) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if uid in self._gone:
            return
        self._gone.add(uid)
        self.images.append(pod["spec"]["containers"][0]["image"])
        since = asyncio.get_running_loop().time() - self._left_at.get(uid, -GRACE)
        if _is_ready(pod) and since < GRACE - 0.1:
            self.undrained.append(f"{name} got requests until {since:.1f} s before it was deleted")
        if uid in self._left_at and self._servers.in_flight(pod):
            self.undrained.append(f"{name} had {self._servers.in_flight(pod)} requests in flight")


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def drained(steps: list[JsonObject], seconds: int = 60) -> JsonObject:
    document = rollout(steps=steps)
    document["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = False
    for routing in document["spec"]["strategy"]["canary"]["trafficRoutings"]:
        routing["drainTimeoutSeconds"] = seconds
    return document


def cluster_with(servers: BusyServers) -> Cluster:
    def plug(manager: Manager) -> None:
        operator.register(manager, features=Features(), fetch=servers)

    servers.cluster = Cluster(
        parts=("workloads", "scheduler"),
        nodes=6,
        node_settings={"start_latency": 2.0},
        extra={"operator": plug},
        contents=installed("workloads"),
    )
    _SERVERS[servers.cluster] = servers
    return servers.cluster


def busy_for(seconds: float) -> Callable[[JsonObject], int]:
    """Every pod that is asked has requests for so long, and none afterwards."""
    ends: dict[str, float] = {}

    def in_flight(pod: JsonObject) -> int:
        now = asyncio.get_running_loop().time()
        return int(now < ends.setdefault(pod["metadata"]["uid"], now + seconds))

    return in_flight


class DrainingStory(Story):
    def __init__(
        self, cluster: Cluster, servers: BusyServers, departures: Departures, resource: Resource = DEPLOYMENTS
    ) -> None:
        super().__init__(cluster, resource)
        self.servers = servers
        self.departures = departures

    @property
    def leaving(self) -> list[str]:
        """Pods that the Service does not select any more."""
        service = self.cluster.find(SERVICES, "llm-leader", NAMESPACE) or {"spec": {"selector": {}}}
        if rollout_labels.SERVES not in service["spec"]["selector"]:
            return []
        labels = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in self.cluster.objects(PODS, NAMESPACE)}
        mine = {name for name, found in labels.items() if rollout_labels.SERVES not in found}
        return sorted(name for name in mine if self.image(name) == V1)

    def image(self, name: str) -> str:
        pod = self.cluster.find(PODS, name, NAMESPACE)
        assert pod is not None
        return str(pod["spec"]["containers"][0]["image"])

    def as_before(self) -> bool:
        """Nothing on Services, pods and the Deployment is left of draining."""
        service = self.cluster.find(SERVICES, "llm-leader", NAMESPACE) or {"metadata": {}, "spec": {"selector": {}}}
        pods = [one["metadata"] for one in self.cluster.objects(PODS, NAMESPACE)]
        return not (
            rollout_labels.SERVES in service["spec"]["selector"]
            or rollout_labels.WITHDRAWN_PODS in (service["metadata"].get("annotations") or {})
            or any(rollout_labels.SERVES in (one.get("labels") or {}) for one in pods)
            or any(DELETION_COST in (one.get("annotations") or {}) for one in pods)
            or any(rollout_labels.FORMER_DELETION_COST in (one.get("annotations") or {}) for one in pods)
            or rollout_labels.DRAINING_PODS in (self.stable["metadata"].get("annotations") or {})
        )


@asynccontextmanager
async def in_cluster(cluster: Cluster) -> AsyncIterator[DrainingStory]:
    """On a cluster that `cluster_with` has made. At the end no pod was deleted that was not drained."""
    servers = _SERVERS[cluster]
    departures = Departures(servers)
    async with departures.watching(cluster):
        yield DrainingStory(cluster, servers, departures)
    assert not departures.undrained, "; ".join(departures.undrained)


@asynccontextmanager
async def draining_story(document: JsonObject, resource: Resource = DEPLOYMENTS) -> AsyncIterator[DrainingStory]:
    servers = BusyServers()
    departures = Departures(servers)
    async with cluster_with(servers) as cluster:
        await asyncio.sleep(1.0)
        async with departures.watching(cluster):
            story = DrainingStory(cluster, servers, departures, resource)
            await story.begin(document)
            departures.most_pods, departures.fewest_serving = 0, 99
            yield story
