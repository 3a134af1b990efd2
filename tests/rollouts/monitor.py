"""A monitor on the watch stream: the invariants of releases, checked at every change and not only at the end.

| | what must hold |
|---|---|
| I1 | no group of the stable set leaves its revision while the set is held |
| I2 | the canary gets requests only while it has a ready leader |
| I3 | the canary goes only when no route has named it for the grace period |
| I4 | the stable Service keeps a ready endpoint, once it had one |
| I5 | no pin on the stable Service while nothing is released |
| I6 | one canary per Rollout, those that are going not counted |
| I7 | never more groups than the stable set and the step together want |
| I9 | no worker among the endpoints of the canary Service |

I8 (every pass may be repeated) is what the crash sweeps show.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kohort.kube.resources import (
    INGRESSES,
    LEADER_WORKER_SETS,
    PODS,
    ROLLOUTS,
    SERVICES,
    Resource,
)
from kohort.kube.tasks import cancel_all
from kohort.objects.jsontypes import JsonObject
from kohort.rollouts import wire
from kohort.testing import Cluster

GRACE = 3.0
WATCHED = (ROLLOUTS, LEADER_WORKER_SETS, PODS, SERVICES, INGRESSES)
Found = dict[str, JsonObject]


class Monitor:
    """Keeps its own picture of the cluster from watch events and judges it after each."""

    def __init__(self, cluster: Cluster, *, stable: str = "llm", service: str = "llm-leader") -> None:
        self._cluster = cluster
        self._stable, self._service = stable, service
        self._seen: dict[Resource, Found] = {resource: {} for resource in WATCHED}
        self._routed_until = float("-inf")
        self._had_endpoint = False
        self.excused: set[str] = set()
        """Invariants that the user of a story breaks on purpose."""
        self.broken: list[str] = []
        self.events = 0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._watch(resource)) for resource in WATCHED]
        try:
            yield
        finally:
            await cancel_all(*tasks)

    def check(self) -> None:
        assert self.events > 0, "the monitor has seen nothing"
        assert not self.broken, "\n".join(self.broken[:10])

    async def _watch(self, resource: Resource) -> None:
        async for event in self._cluster.client.watch(resource, "default"):
            if event.type not in ("ADDED", "MODIFIED", "DELETED"):
                continue
            name = event.object["metadata"]["name"]
            before = self._seen[resource].get(name)
            if event.type == "DELETED":
                self._seen[resource].pop(name, None)
            else:
                self._seen[resource][name] = event.object
            self.events += 1
            self._judge(resource, name, before, None if event.type == "DELETED" else event.object)

    # What is the case

    @property
    def _set(self) -> JsonObject | None:
        return self._seen[LEADER_WORKER_SETS].get(self._stable)

    @property
    def _held(self) -> bool:
        return self._set is not None and wire.IN_PROGRESSING in self._set["metadata"].get("annotations", {})

    def _endpoints(self, service: str) -> list[JsonObject]:
        found = self._seen[SERVICES].get(service)
        if found is None:
            return []
        wanted = found["spec"].get("selector") or {}
        return [
            pod
            for pod in self._seen[PODS].values()
            if wanted.items() <= pod["metadata"].get("labels", {}).items() and wanted
        ]

    def _routes(self) -> bool:
        """Whether some request would reach the canary now."""
        route = self._seen[INGRESSES].get("llm-canary")
        if route is None or "deletionTimestamp" in route["metadata"]:
            return False
        notes = route["metadata"]["annotations"]
        prefix = "nginx.ingress.kubernetes.io/canary-"
        return notes.get(f"{prefix}weight", "0") not in ("0", "-1") or any(
            f"{prefix}{name}" in notes for name in ("by-header", "by-cookie")
        )

    # Judging

    def _judge(self, resource: Resource, name: str, before: JsonObject | None, now: JsonObject | None) -> None:
        time = asyncio.get_running_loop().time()
        if self._routes():
            self._routed_until = time
        if resource is PODS:
            self._judge_pod(before, now)
        if resource is LEADER_WORKER_SETS:
            self._judge_set(name, before, now, time)
        self._judge_traffic(resource, name)

    def _judge_pod(self, before: JsonObject | None, now: JsonObject | None) -> None:
        pod = now or before
        assert pod is not None
        labels = pod["metadata"].get("labels", {})
        if labels.get(wire.GROUP_SET) != self._stable or now is None or not self._held:
            return
        assert self._set is not None
        stable = self._set["metadata"]["labels"].get(wire.STABLE_REVISION)
        if before is None and labels.get(wire.GROUP_REVISION) != stable:
            self._say("I1", f"{pod['metadata']['name']} came at {labels.get(wire.GROUP_REVISION)}, held at {stable}")

    def _judge_set(self, name: str, before: JsonObject | None, now: JsonObject | None, time: float) -> None:
        canaries = [
            one
            for one in self._seen[LEADER_WORKER_SETS].values()
            if wire.CANARY_SET in one["metadata"].get("labels", {}) and "deletionTimestamp" not in one["metadata"]
        ]
        if len(canaries) > 1:
            self._say("I6", f"canaries {[one['metadata']['name'] for one in canaries]}")
        subject = now or before
        assert subject is not None
        if wire.CANARY_SET in subject["metadata"].get("labels", {}):
            was_live = before is not None and "deletionTimestamp" not in before["metadata"]
            going = now is None or "deletionTimestamp" in now["metadata"]
            if was_live and going and time - self._routed_until < GRACE:
                self._say("I3", f"{name} goes {time - self._routed_until:g} s after it was routed to")
            self._judge_size(subject)

    def _judge_size(self, canary: JsonObject) -> None:
        rollout = self._seen[ROLLOUTS].get("llm")
        if rollout is None or self._set is None or not self._held:
            return
        total = self._set["spec"]["replicas"]
        if canary["spec"]["replicas"] > total:
            self._say("I7", f"{canary['spec']['replicas']} groups in the canary of {total}")

    def _judge_traffic(self, resource: Resource, name: str) -> None:
        ready = [pod for pod in self._endpoints(self._service) if _is_ready(pod)]
        if ready:
            self._had_endpoint = True
        elif self._had_endpoint and self._set is not None and self._set["spec"]["replicas"] > 0 and not self._all_new():
            self._say("I4", f"no endpoint behind {self._service} after {resource.plural}/{name}")
        canaries = self._endpoints(f"{self._service}-canary")
        if self._routes() and not any(_is_ready(pod) for pod in canaries):
            self._say("I2", f"routed to a canary without a ready leader after {resource.plural}/{name}")
        for pod in canaries:
            if pod["metadata"]["labels"].get(wire.WORKER_INDEX, "0") != "0":
                self._say("I9", f"worker {pod['metadata']['name']} behind {self._service}-canary")
        phase = (self._seen[ROLLOUTS].get("llm") or {"status": {}}).get("status", {}).get("phase")
        selector = (self._seen[SERVICES].get(self._service) or {"spec": {}})["spec"].get("selector", {})
        if wire.GROUP_REVISION in selector and phase in (None, "Healthy", "Disabled") and resource is ROLLOUTS:
            self._say("I5", f"{self._service} is pinned while the Rollout is {phase}")

    def _all_new(self) -> bool:
        """All traffic is on the canary: the stable Service may be empty while the stable set is replaced."""
        route = self._seen[INGRESSES].get("llm-canary")
        if route is None:
            return False
        return bool(route["metadata"]["annotations"].get("nginx.ingress.kubernetes.io/canary-weight") == "100")

    def _say(self, invariant: str, text: str) -> None:
        if invariant not in self.excused:
            self.broken.append(f"{invariant}: {text}")


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
