"""The objects of the demo in the cluster, kept up to date by watches, and waiting for their states."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Final

from kohort.cluster.gateway.views import GATEWAYS
from kohort.demo.manifests import NAME, NAMESPACE
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import LEADER_WORKER_SETS, NODES, PODS, ROLLOUTS, Resource
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.node_conditions import RESOURCES_ENFORCED

PATIENCE_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 0.5


class ExpectationFailed(Exception):
    """An expected state was not reached in time, or another one was."""


class DemoClusterState:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._objects: dict[str, dict[str, JsonObject]] = defaultdict(dict)
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "DemoClusterState":
        for resource in (PODS, LEADER_WORKER_SETS, ROLLOUTS, GATEWAYS, NODES):
            self._tasks.append(asyncio.create_task(self._follow(resource)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await cancel_all(*self._tasks)

    async def _follow(self, resource: Resource) -> None:
        namespace = NAMESPACE if resource.namespaced else ""
        while True:
            try:
                async for event in self._client.watch(resource, namespace):
                    await self._store(resource.kind, event.type, event.object)
            except ApiError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _store(self, kind: str, change: str, obj: JsonObject) -> None:
        name = obj["metadata"]["name"]
        if change == "DELETED":
            self._objects[kind].pop(name, None)
        else:
            self._objects[kind][name] = obj
        async with self._changed:
            self._changed.notify_all()

    async def until(self, holds: Callable[[], bool], expected: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Raises ExpectationFailed."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(holds)
        except TimeoutError:
            raise ExpectationFailed(f"not reached after {seconds:g} s: {expected}") from None

    def find(self, kind: str, name: str = NAME) -> JsonObject:
        """Empty while it does not exist."""
        return self._objects[kind].get(name, {})

    @property
    def pods(self) -> list[JsonObject]:
        """In the order of their groups, stable ones first."""
        return sorted(self._objects["Pod"].values(), key=_display_order)

    @property
    def stable_pods(self) -> list[JsonObject]:
        return [pod for pod in self.pods if set_of(pod) == NAME]

    @property
    def canary_pods(self) -> list[JsonObject]:
        return [pod for pod in self.pods if set_of(pod) != NAME]

    @property
    def gateway(self) -> str:
        """The URL of the gateway; empty until it has one."""
        addresses = (self.find("Gateway", "front").get("status") or {}).get("addresses") or ()
        return next((one["value"] for one in addresses if one["value"].startswith("http")), "")

    @property
    def enforced(self) -> bool:
        """Whether the node enforces the limits of processes."""
        conditions = [one for node in self._objects["Node"].values() for one in node["status"].get("conditions") or ()]
        return not any(one["type"] == RESOURCES_ENFORCED and one["status"] == "False" for one in conditions)

    def serves(self, version: str, groups: int) -> bool:
        """All groups are ready at this version, no other pod is left, and no release is under way."""
        group_set, release = self.find("LeaderWorkerSet"), self.find("Rollout")
        status = group_set.get("status") or {}
        settled = status.get("observedGeneration") == group_set.get("metadata", {}).get("generation")
        healthy = (release.get("status") or {}).get("phase") == "Healthy"
        ready = [pod for pod in self.stable_pods if version_of(pod) == version and is_ready(pod)]
        size = group_set["spec"]["leaderWorkerTemplate"]["size"] if group_set else 0
        return bool(settled and healthy and size and len(ready) == len(self.pods) == groups * size)

    def step(self) -> tuple[int, str]:
        """Number and state of the release's step."""
        status = self.find("Rollout").get("status") or {}
        return int(status.get("currentStepIndex") or 0), str(status.get("currentStepState") or "")


def _display_order(pod: JsonObject) -> tuple[bool, str, int, str]:
    name = set_of(pod)
    return name != NAME, name, int(pod["metadata"]["labels"].get(group_labels.GROUP_INDEX, 0)), pod["metadata"]["name"]


def set_of(pod: JsonObject) -> str:
    name: str = (pod["metadata"].get("labels") or {}).get(group_labels.NAME, "")
    return name


def version_of(pod: JsonObject) -> str:
    variables = {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0].get("env") or ()}
    version: str = variables.get("MODEL_VERSION", "")
    return version


def is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def memory_of(pod: JsonObject) -> str:
    """The limit in force, as the node reports it."""
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        limit: str = ((one.get("resources") or {}).get("limits") or {}).get("memory", "")
        return limit
    return ""


def processes(pods: list[JsonObject]) -> dict[str, tuple[str, int]]:
    """Pods to the container that runs in them and how often it was restarted."""
    found: dict[str, tuple[str, int]] = {}
    for pod in pods:
        for one in (pod.get("status") or {}).get("containerStatuses") or ():
            found[pod["metadata"]["name"]] = (one.get("containerID", ""), int(one.get("restartCount", 0)))
    return found
