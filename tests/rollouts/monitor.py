"""A monitor on the watch stream: the invariants of releases, checked at every change and not only at the end.

| | what must hold |
|---|---|
| I1 | no pod of the stable workload comes at another revision while it is held, but in place or by a partition |
| I2 | the canary gets requests only while it has a ready leader |
| I3 | the canary goes only when no route has named it for the grace period |
| I4 | the stable Service keeps a ready endpoint, once it had one |
| I5 | no pin on the stable Service while nothing is released |
| I6 | one canary per Rollout, those that are going not counted |
| I7 | never more replicas than the stable workload and the steps so far want |
| I9 | no worker among the endpoints of the canary Service |

I8 (every pass may be repeated) is what the crash sweeps show. `test_monitor.py` breaks each of them on purpose.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from tests.rollouts.routes import Share, share_of

from kohort.kube.resources import (
    BATCH_RELEASES,
    DEPLOYMENTS,
    INGRESSES,
    LEADER_WORKER_SETS,
    PODS,
    REPLICA_SETS,
    ROLLOUTS,
    SERVICES,
    Resource,
)
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import JsonObject
from kohort.rollouts import step_arithmetic
from kohort.rules import group_labels, rollout_labels
from kohort.testing import Cluster

GRACE = 3.0
WORKLOADS = (LEADER_WORKER_SETS, DEPLOYMENTS)
WATCHED = (ROLLOUTS, BATCH_RELEASES, *WORKLOADS, REPLICA_SETS, PODS, SERVICES, INGRESSES)
CANARY_OF = {LEADER_WORKER_SETS: rollout_labels.CANARY_SET, DEPLOYMENTS: rollout_labels.CANARY_DEPLOYMENT}
REVISIONS = (group_labels.REVISION, rollout_labels.TEMPLATE_HASH)
NOBODY: JsonObject = {"metadata": {}, "spec": {}, "status": {}}


class Monitor:
    """Keeps its own picture of the cluster from what it is shown, and judges it after each change."""

    def __init__(
        self,
        *,
        name: str = "llm",
        service: str = "llm-leader",
        routes: Iterable[Resource] = (),
        grace: float = GRACE,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`routes` are kinds of routes besides Ingresses."""
        self._name, self._service, self._grace = name, service, grace
        self._routes = (INGRESSES, *routes)
        self._watched = (*WATCHED, *routes)
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._seen: dict[Resource, dict[str, JsonObject]] = {resource: {} for resource in self._watched}
        self._routed_until = float("-inf")
        self._share = Share.none()
        self._share_since = float("-inf")
        self._had_endpoint = False
        self._allowed = 0
        self.excused: set[str] = set()
        """Invariants that the user of a story breaks on purpose."""
        self.broken: list[str] = []
        self.events = 0

    @asynccontextmanager
    async def watching(self, cluster: Cluster) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._watch(cluster, resource)) for resource in self._watched]
        try:
            yield
        finally:
            await cancel_all(*tasks)

    async def _watch(self, cluster: Cluster, resource: Resource) -> None:
        async for event in cluster.client.watch(resource, "default"):
            if event.type in ("ADDED", "MODIFIED", "DELETED"):
                self.see(resource, event.object, gone=event.type == "DELETED")

    def check(self) -> None:
        assert self.events > 0, "the monitor has seen nothing"
        assert not self.broken, "\n".join(self.broken[:10])

    def weight_age(self) -> float:
        """For how long routes have been as they are."""
        return self._clock() - self._share_since

    def see(self, resource: Resource, obj: JsonObject, *, gone: bool = False) -> None:
        name = obj["metadata"]["name"]
        before = self._seen[resource].get(name)
        if gone:
            self._seen[resource].pop(name, None)
        else:
            self._seen[resource][name] = obj
        self.events += 1
        self._judge(resource, obj, before, gone=gone)

    # What is the case

    @property
    def _stable(self) -> JsonObject | None:
        return next((self._seen[kind][self._name] for kind in WORKLOADS if self._name in self._seen[kind]), None)

    @property
    def _held(self) -> bool:
        return self._stable is not None and rollout_labels.IN_PROGRESSING in _annotations(self._stable)

    @property
    def _canaries(self) -> list[JsonObject]:
        return [
            one
            for kind in WORKLOADS
            for one in self._seen[kind].values()
            if CANARY_OF[kind] in _labels(one) and not _is_going(one)
        ]

    def _endpoints(self, service: str) -> list[JsonObject]:
        wanted = self._seen[SERVICES].get(service, NOBODY)["spec"].get("selector") or {}
        return [pod for pod in self._seen[PODS].values() if wanted and wanted.items() <= _labels(pod).items()]

    def _routed(self) -> Share:
        canary = f"{self._service}-canary"
        found = [
            share_of(resource, one, self._service, canary)
            for resource in self._routes
            for one in self._seen[resource].values()
            if not _is_going(one)
        ]
        return Share.of(found)

    # Judging

    def _judge(self, resource: Resource, obj: JsonObject, before: JsonObject | None, *, gone: bool) -> None:
        now, share = self._clock(), self._routed()
        if share.some:
            self._routed_until = now
        if share != self._share:
            self._share, self._share_since = share, now
        if resource is PODS and before is None and not gone:
            self._judge_new_pod(obj)
        if resource in WORKLOADS:
            self._judge_canaries(resource, obj, before, now, gone=gone)
        if resource in (ROLLOUTS, BATCH_RELEASES, *WORKLOADS):
            self._judge_size()
        self._judge_traffic(f"{resource.plural}/{obj['metadata']['name']}")
        if resource is ROLLOUTS:
            self._judge_pin(gone=gone)

    def _judge_new_pod(self, pod: JsonObject) -> None:
        if not self._held or self._workload_of(pod) != self._name:
            return
        assert self._stable is not None
        if rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY in _annotations(self._stable):
            return  # blue-green inside one Deployment: the new version lives there too
        if rollout_labels.PARTITION_CONTROLLED in _labels(self._stable):
            return  # partition style: steps replace pods of the stable workload
        released = _annotations(self._stable).get(rollout_labels.STEP_PARTITION)
        if released is not None and int(_labels(pod)[group_labels.GROUP_INDEX]) >= int(released):
            return  # a lost pod of a group that was resized in place
        stable = _labels(self._stable).get(rollout_labels.STABLE_REVISION)
        revision = next((_labels(pod)[key] for key in REVISIONS if key in _labels(pod)), "")
        if stable and revision != stable:
            self._say("I1", f"{pod['metadata']['name']} came at {revision}, held at {stable}")

    def _workload_of(self, pod: JsonObject) -> str:
        if group_labels.NAME in _labels(pod):
            return str(_labels(pod)[group_labels.NAME])
        owner = _owner(pod)
        return _owner(self._seen[REPLICA_SETS].get(owner, NOBODY))

    def _judge_canaries(
        self, resource: Resource, obj: JsonObject, before: JsonObject | None, now: float, *, gone: bool
    ) -> None:
        if len(self._canaries) > 1:
            self._say("I6", f"canaries {[one['metadata']['name'] for one in self._canaries]}")
        if CANARY_OF[resource] not in _labels(obj):
            return
        was_live = before is not None and not _is_going(before)
        if was_live and (gone or _is_going(obj)) and now - self._routed_until < self._grace:
            self._say("I3", f"{obj['metadata']['name']} goes {now - self._routed_until:g} s after it was routed to")

    def _judge_size(self) -> None:
        if self._stable is None or not self._held:
            self._allowed = 0
            return
        replicas = self._stable["spec"].get("replicas", 1)
        planned = (
            step_arithmetic.planned(one, replicas, LEADER_WORKER_SETS.group_kind, rollout_labels.CANARY)
            for one in self._wanted()
        )
        self._allowed = max(self._allowed, *planned)
        for canary in self._canaries:
            if canary["spec"].get("replicas", 1) > self._allowed:
                name, found = canary["metadata"]["name"], canary["spec"]["replicas"]
                self._say("I7", f"{found} replicas in {name}, and {self._allowed} of {replicas} are planned")

    def _wanted(self) -> list[int | str]:
        """What the steps so far ask for."""
        found: list[int | str] = [0]
        release = self._seen[BATCH_RELEASES].get(self._name)
        if release is not None:
            plan = release["spec"]["releasePlan"]
            place = plan.get("batchPartition")
            found += [one["canaryReplicas"] for one in plan["batches"][: place + 1]] if place is not None else ["100%"]
            if rollout_labels.FULL_CAPACITY in _annotations(release):
                found.append("100%")
        rollout = self._seen[ROLLOUTS].get(self._name, NOBODY)
        for strategy in (rollout["spec"].get("strategy") or {}).values():
            if isinstance(strategy, dict):
                index = (rollout.get("status") or {}).get("currentStepIndex", 0)
                found += [step["replicas"] for step in strategy["steps"][:index]]
        return found

    def _judge_traffic(self, after: str) -> None:
        ready = [pod for pod in self._endpoints(self._service) if _is_ready(pod)]
        if ready:
            self._had_endpoint = True
        elif self._had_endpoint and self._wants_endpoints() and not self._share.all:
            self._say("I4", f"no endpoint behind {self._service} after {after}")
        canaries = self._endpoints(f"{self._service}-canary")
        if self._share.some and not any(_is_ready(pod) for pod in canaries):
            self._say("I2", f"routed to a canary without a ready leader after {after}")
        for pod in canaries:
            if _labels(pod).get(group_labels.WORKER_INDEX, "0") != "0":
                self._say("I9", f"worker {pod['metadata']['name']} behind {self._service}-canary")

    def _wants_endpoints(self) -> bool:
        return self._stable is not None and self._stable["spec"].get("replicas", 1) > 0

    def _judge_pin(self, *, gone: bool) -> None:
        rollout = self._seen[ROLLOUTS].get(self._name)
        phase = None if rollout is None else (rollout.get("status") or {}).get("phase")
        idle = phase in ("Healthy", "Disabled") or (gone and rollout is None)
        selector = self._seen[SERVICES].get(self._service, NOBODY)["spec"].get("selector") or {}
        if idle and any(key in selector for key in REVISIONS):
            self._say("I5", f"{self._service} is pinned while the Rollout is {phase or 'gone'}")

    def _say(self, invariant: str, text: str) -> None:
        if invariant not in self.excused:
            self.broken.append(f"{invariant}: {text}")


def _labels(obj: JsonObject) -> JsonObject:
    return obj["metadata"].get("labels") or {}


def _annotations(obj: JsonObject) -> JsonObject:
    return obj["metadata"].get("annotations") or {}


def _is_going(obj: JsonObject) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _owner(obj: JsonObject) -> str:
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((one["name"] for one in owners if one.get("controller")), "")


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
