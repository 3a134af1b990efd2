"""Model servers behind the addresses of pods: they answer requests, count them as vLLM does, and show the counts."""

import asyncio
import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec
from tests.installed import installed
from tests.rollouts.analysis.analyses import analysis_spec
from tests.rollouts.analysis.simulated_releases import VLLM_BUCKETS
from tests.rollouts.monitor import Monitor
from tests.rollouts.releases import NAME, NAMESPACE, Story, rollout

from kohort import operator
from kohort.kube.manager import Manager
from kohort.kube.resources import ANALYSIS_RUNS, PODS, RELEASE_ANALYSES
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.analysis.http_fetch import FetchError, FetchRequest
from kohort.rollouts.feature_gates import Features
from kohort.rules import rollout_labels
from kohort.testing import Cluster

ANALYSIS = "llm-slo"
TTFT: JsonObject = {"name": "ttft", "quantile": 0.95, "maxRatio": 1.15}
ERRORS: JsonObject = {"name": "errorRate", "max": "5%", "critical": True}


class _Counts:
    def __init__(self) -> None:
        self.buckets = [0] * (len(VLLM_BUCKETS) + 1)
        self.codes: dict[str, int] = defaultdict(int)
        self.since = asyncio.get_running_loop().time()


class ModelServers:
    """Every pod answers so many requests per second, by how fast and how sound its version is."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.cluster: Cluster | None = None
        self.rate = 2.0
        self.slower: dict[str, float] = defaultdict(lambda: 1.0)
        self.errors: dict[str, float] = defaultdict(float)
        """By image, or by `cpu 100m`."""
        self.broken: Callable[[str], bool] = lambda _: False
        self.posted: list[JsonObject] = []
        self.posts: list[FetchRequest] = []
        self.refused_posts = 0
        """So many more posts are answered with an error."""
        self.reads = 0
        self._counts: dict[str, _Counts] = {}

    async def __call__(self, request: FetchRequest) -> bytes:
        if request.body and self.refused_posts:
            self.refused_posts -= 1
            raise FetchError(f"{request.url}: HTTP 503")
        if request.body:
            self.posted.append(msgspec.json.decode(request.body))
            self.posts.append(request)
            return b""
        assert request.pod, "only addresses of pods are read"
        self.reads += 1
        pod = self._pod(urlsplit(request.url).hostname or "")
        if pod is None or self.broken(pod["metadata"]["name"]):
            raise FetchError(f"{request.url}: HTTP 500")
        return self._text(pod).encode()

    def _pod(self, address: str) -> JsonObject | None:
        assert self.cluster is not None
        found = self.cluster.objects(PODS, NAMESPACE)
        return next((one for one in found if (one.get("status") or {}).get("podIP") == address), None)

    def restart(self, name: str) -> None:
        """The process of a pod begins to count anew."""
        for known in [key for key in self._counts if key.startswith(f"{name}/")]:
            del self._counts[known]

    def _text(self, pod: JsonObject) -> str:
        name, image = f"{pod['metadata']['name']}/{pod['metadata']['uid']}", pod["spec"]["containers"][0]["image"]
        counts = self._counts.setdefault(name, _Counts())
        now = asyncio.get_running_loop().time()
        for _ in range(int(self.rate * (now - counts.since))):
            latency = self.slower[image] * self.slower[_cpu(pod)] * 0.2 * self.rng.lognormvariate(0, 0.5)
            counts.buckets[bisect_left(VLLM_BUCKETS, latency)] += 1
            counts.codes["5xx" if self.rng.random() < self.errors[image] else "2xx"] += 1
        counts.since = now
        lines, seen = [], 0
        for bound, count in zip((*VLLM_BUCKETS, "+Inf"), counts.buckets, strict=True):
            seen += count
            lines.append(f'vllm:time_to_first_token_seconds_bucket{{le="{bound}"}} {seen}')
        lines += [f'http_requests_total{{status="{code}"}} {count}' for code, count in counts.codes.items()]
        return "\n".join([*lines, "http_requests_total 0", "vllm:num_requests_waiting 1", ""])


def _cpu(pod: JsonObject) -> str:
    resources = pod["spec"]["containers"][0].get("resources") or {}
    return f"cpu {(resources.get('requests') or {}).get('cpu', '')}"


class JudgedStory(Story):
    def __init__(self, cluster: Cluster, servers: ModelServers) -> None:
        super().__init__(cluster)
        self.servers = servers

    async def analysis(self, *metrics: JsonObject, **changes: Json) -> None:
        spec = analysis_spec(metrics=list(metrics) or [TTFT, ERRORS], **changes)
        body = {"metadata": {"name": ANALYSIS, "namespace": NAMESPACE}, "spec": spec}
        await self.client.apply(RELEASE_ANALYSES, _named(body), field_manager="test", force=True)

    @property
    def runs(self) -> list[JsonObject]:
        found = self.cluster.objects(ANALYSIS_RUNS, NAMESPACE)
        return sorted(found, key=lambda one: (int(one["spec"]["step"]), int(one["spec"]["attempt"])))

    def run(self, step: int) -> JsonObject:
        found = [one for one in self.runs if one["spec"]["step"] == step]
        status: JsonObject = (found[-1].get("status") or {}) if found else {}
        return status

    @property
    def message(self) -> str:
        return str((self.rollout.get("status") or {}).get("message", ""))


def _named(body: JsonObject) -> JsonObject:
    return {"apiVersion": RELEASE_ANALYSES.api_version, "kind": RELEASE_ANALYSES.kind, **body}


def judged_rollout(**more: Json) -> JsonObject:
    steps: list[JsonObject] = [
        {"replicas": 1, "traffic": "20%", "pause": {"duration": 5}},
        {"replicas": "100%", "traffic": "100%"},
    ]
    plan = rollout(steps=more.pop("steps", None) or steps, **more)
    plan["metadata"]["annotations"] = {rollout_labels.ANALYSIS_NAME: ANALYSIS}
    return plan


def cluster_with(servers: ModelServers) -> Cluster:
    def plug(manager: Manager) -> None:
        operator.register(manager, features=Features(), fetch=servers)

    servers.cluster = Cluster(
        parts=("workloads", "scheduler"),
        nodes=12,
        node_settings={"start_latency": 2.0},
        extra={"operator": plug},
        contents=installed("workloads"),
    )
    return servers.cluster


@asynccontextmanager
async def judged_cluster(seed: str = "judged") -> AsyncIterator[JudgedStory]:
    servers = ModelServers(seed)
    async with cluster_with(servers) as cluster:
        await asyncio.sleep(1.0)
        monitor = Monitor(routes=[], grace=2.9)
        async with monitor.watching(cluster):
            yield JudgedStory(cluster, servers)
        monitor.check()


__all__ = ["ERRORS", "NAME", "TTFT", "JudgedStory", "ModelServers", "judged_cluster", "judged_rollout"]
