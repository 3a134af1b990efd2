"""Random operations on sets and releases, on virtual time, with a monitor that looks at every change of a pod.

One run is one seed: it makes four sets, does random things to them for a while (containers crash, pods are evicted and
deleted, revisions and StatefulSets of workers are deleted, nodes are lost and drained, sets roll, scale and are
resized, releases begin and are taken back, the operator is killed), lets everything settle, and deletes it. What must
hold at every moment:

| | |
|---|---|
| budget | no roll and no eviction takes a ready group beyond what the set allows |
| revisions | the pods of a group that is ready as a whole have one revision |

and at the end: every set is ready at its last template, and after its deletion nothing is left.
"""

import asyncio
import random
from collections.abc import Awaitable
from contextlib import suppress

import msgspec
from tests.builders import LeaderWorkerSet, lws, pod
from tests.groups.drains import PAUSE

from kohort.groups.leaderworkerset import LeaderWorkerSet as SetView
from kohort.kube.errors import ApiError, NotFound
from kohort.kube.resources import (
    BATCH_RELEASES,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    LEADER_WORKER_SETS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.testing import Cluster, virtual_time

NAMESPACE = "default"
ORDER = "simulation.kohort.dev/"
NODES_OF_RUN = 6
EXCUSED = 2.0
"""Seconds after a loss that no one decided, for which decisions may not have seen it yet."""
SETTLES_WITHIN = 4 * 3600.0


def template(image: str, cpu: str) -> JsonObject:
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    return pod().containers({"name": "main", "image": image, "resources": resources})


def _set(name: str) -> LeaderWorkerSet:
    budget = {"backoffSeconds": 1, "maxBackoffSeconds": 5, "nodeLossSeconds": 30}
    subject = lws(name).replicas(3).size(2).workers(template("model:1", "100m"))
    return subject.but("spec.leaderWorkerTemplate.restartBudget", budget).but(
        "spec.disruptionBudget", {"maxUnavailable": 1}
    )


def subjects() -> dict[str, LeaderWorkerSet]:
    in_place = {"type": "RollingUpdate", "resourceUpdatePolicy": "InPlaceOrRecreate"}
    return {
        "plain": _set("plain").but("spec.leaderWorkerTemplate.restartBudget.forceDeleteOnNodeLoss", True),
        "surge": _set("surge").replicas(2).max_surge(1).max_unavailable(0),
        "inplace": _set("inplace").replicas(2).but("spec.rolloutStrategy", in_place),
        "released": _set("released").replicas(2),
    }


def rollout() -> JsonObject:
    steps = [{"replicas": 1, "pause": {"duration": 3}}, {"replicas": "100%", "pause": {"duration": 3}}]
    ref = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "released"}
    strategy = {"canary": {"steps": steps, "enableExtraWorkloadForCanary": True}}
    return {"metadata": {"name": "released"}, "spec": {"workloadRef": ref, "strategy": strategy}}


def is_ready(one: JsonObject) -> bool:
    conditions = (one.get("status") or {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in one["metadata"]


def is_evicted(one: JsonObject) -> bool:
    conditions = (one.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "DisruptionTarget" and each["status"] == "True" for each in conditions)


def has_failed(one: JsonObject) -> bool:
    return any(each.get("restartCount") for each in (one.get("status") or {}).get("containerStatuses") or ())


class Monitor:
    """Watches pods, and notes every group that was taken although the set does not allow it."""

    def __init__(self, cluster: Cluster, names: set[str]) -> None:
        self._cluster = cluster
        self._names = names
        self._pods: dict[str, JsonObject] = {}
        self._ready: dict[tuple[str, int], bool] = {}
        self.harmed: set[str] = set()
        """Uids of pods that the run itself deleted, or evicted while no webhook answered."""
        self.excused_until = 0.0
        self.broken: list[str] = []

    def excuse(self) -> None:
        self.excused_until = asyncio.get_running_loop().time() + EXCUSED

    async def watch(self) -> None:
        while True:
            with suppress(ApiError):
                async for event in self._cluster.client.watch(PODS, NAMESPACE):
                    if event.type in ("ADDED", "MODIFIED", "DELETED"):
                        self._saw(event.type, event.object)

    def _saw(self, kind: str, one: JsonObject) -> None:
        metadata = one["metadata"]
        labels = metadata.get("labels") or {}
        name, index = labels.get(group_labels.NAME, ""), labels.get(group_labels.GROUP_INDEX, "")
        if name not in self._names or not index:
            return
        self._pods[metadata["name"]] = one
        if kind == "DELETED":
            del self._pods[metadata["name"]]
        group = (name, int(index))
        before, members = self._ready.get(group, False), self._members(*group)
        now = self._is_whole(members)
        self._ready[group] = now
        if before and not now:
            self._lost(group, one, members)
        if now:
            revisions = {each["metadata"]["labels"].get(group_labels.REVISION) for each in members}
            resizing = any(group_labels.GROUP_RESIZE in (each["metadata"].get("annotations") or {}) for each in members)
            if len(revisions) > 1 and not resizing:
                self._note(f"group {index} of {name} is ready with revisions {sorted(map(str, revisions))}")

    def _members(self, name: str, index: int) -> list[JsonObject]:
        wanted = {group_labels.NAME: name, group_labels.GROUP_INDEX: str(index)}
        return [one for one in self._pods.values() if wanted.items() <= one["metadata"]["labels"].items()]

    def _is_whole(self, members: list[JsonObject]) -> bool:
        sizes = {int(one["metadata"]["annotations"].get(group_labels.SIZE, 0)) for one in members}
        return len(sizes) == 1 and len(members) == sizes.pop() and all(map(is_ready, members))

    def _lost(self, group: tuple[str, int], one: JsonObject, members: list[JsonObject]) -> None:
        """A ready group is away. Did something of ours take it, and was that allowed?"""
        name, index = group
        stored = self._cluster.find(LEADER_WORKER_SETS, name, NAMESPACE)
        if stored is None or "deletionTimestamp" in stored["metadata"]:
            return
        group_set = msgspec.convert(stored, SetView)
        if index >= group_set.replicas:
            return
        everyone = [one, *members]
        harmed = any(each["metadata"]["uid"] in self.harmed or has_failed(each) for each in everyone)
        if harmed or ("deletionTimestamp" not in one["metadata"] and not is_evicted(one)):
            self.excuse()
            return
        if asyncio.get_running_loop().time() < self.excused_until:
            return
        away = [other for other in range(group_set.replicas) if not self._ready.get((name, other), False)]
        if is_evicted(one):
            limit = group_set.disruption_budget.groups(group_set.replicas) if group_set.disruption_budget else 0
            if len(away) > limit:
                self._note(f"an eviction took group {index} of {name}: {away} are away, {limit} may be")
            return
        ready = sum(state for (other, _), state in self._ready.items() if other == name)
        if ready < group_set.replicas - group_set.unavailable:
            self._note(
                f"group {index} of {name} was taken: {ready} groups are ready of {group_set.replicas}, "
                f"{group_set.unavailable} may be away"
            )

    def _note(self, text: str) -> None:
        self.broken.append(f"at {asyncio.get_running_loop().time():.1f} s: {text}")


class Chaos:
    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster, self.client = cluster, cluster.client
        self.chance = random.Random(seed)
        self.names = sorted(subjects())
        self.monitor = Monitor(cluster, set(self.names))
        self.log: list[str] = []
        self._background: set[asyncio.Task[None]] = set()
        self._version = 1
        self._killed_at = -1000.0
        self._dies = False
        """The operator is being killed: its webhooks do not answer any more."""

    # Operations

    async def crash_container(self) -> None:
        if one := self._any_pod():
            self.monitor.excuse()
            orders = {f"{ORDER}crash": str(self.chance.random()), f"{ORDER}exit-code": "3"}
            await self._patch_pod(one, {"metadata": {"annotations": orders}})

    async def delete_pod(self) -> None:
        if one := self._any_pod():
            self._harm(one)
            await self.client.delete(PODS, one["metadata"]["name"], NAMESPACE)

    async def delete_revision(self) -> None:
        """Of a set: what its groups were made from, while some may still have it."""
        revisions = self._owned_by(CONTROLLER_REVISIONS, "LeaderWorkerSet")
        if revisions:
            await self.client.delete(CONTROLLER_REVISIONS, self.chance.choice(revisions), NAMESPACE)

    async def delete_workers(self) -> None:
        """The StatefulSet of one group's workers, and its pods with it."""
        stateful_sets = self._owned_by(STATEFUL_SETS, "Pod")
        if stateful_sets:
            leader = self.chance.choice(stateful_sets)
            for one in self.cluster.objects(PODS, NAMESPACE):
                if one["metadata"]["name"] == leader or one["metadata"]["name"].startswith(f"{leader}-"):
                    self._harm(one)
            await self.client.delete(STATEFUL_SETS, leader, NAMESPACE)

    async def evict_pod(self) -> None:
        if one := self._any_pod():
            await self._evict(one)

    async def drain_node(self) -> None:
        self._begin(self._drain(self._any_node()))

    async def lose_node(self) -> None:
        nodes = self.cluster.objects(NODES)
        if not any(f"{ORDER}lost" in (one["metadata"].get("annotations") or {}) for one in nodes):
            self._begin(self._lose(self._any_node(), self.chance.uniform(5, 150)))

    async def roll(self) -> None:
        self._version += 1
        containers = [{"name": "main", "image": f"model:{self._version}"}]
        await self._edit({"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": containers}}}})

    async def resize(self) -> None:
        cpu = f"{self.chance.choice((100, 150, 200))}m"
        spec = template(f"model:{self._version}", cpu)["spec"]
        await self._edit({"leaderWorkerTemplate": {"workerTemplate": {"spec": spec}}}, "inplace")

    async def scale(self) -> None:
        self.monitor.excuse()
        await self._edit({"replicas": self.chance.choice((1, 2, 3, 4))})
        self.monitor.excuse()

    async def release(self) -> None:
        """Another version under a Rollout; or back to the first, which takes a release back that is under way."""
        self._version += 1
        image = self.chance.choice((f"model:{self._version}", "model:1"))
        containers = [{"name": "main", "image": image}]
        await self._edit({"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": containers}}}}, "released")

    async def kill_operator(self) -> None:
        operator = self.cluster.parts["operator"]
        if operator.running:
            self._killed_at = asyncio.get_running_loop().time()
            self._dies = True
            await operator.crash()
            self._dies = False
            self._begin(self._restart_operator(self.chance.uniform(0.1, 20)))

    OPERATIONS = (
        (crash_container, 3),
        (delete_pod, 2),
        (delete_revision, 1),
        (delete_workers, 1),
        (evict_pod, 4),
        (drain_node, 2),
        (lose_node, 1),
        (roll, 3),
        (resize, 2),
        (scale, 1),
        (release, 2),
        (kill_operator, 2),
    )

    # Helpers

    def _any_pod(self) -> JsonObject | None:
        pods = [one for one in self.cluster.objects(PODS, NAMESPACE) if "deletionTimestamp" not in one["metadata"]]
        return self.chance.choice(sorted(pods, key=lambda one: str(one["metadata"]["name"]))) if pods else None

    def _owned_by(self, resource: Resource, kind: str) -> list[str]:
        """Names of objects that belong to an object of this kind and are not being deleted."""
        found = (one["metadata"] for one in self.cluster.objects(resource, NAMESPACE))
        return sorted(
            one["name"]
            for one in found
            if "deletionTimestamp" not in one and any(each["kind"] == kind for each in one.get("ownerReferences") or ())
        )

    def _any_node(self) -> str:
        names: list[str] = sorted(one["metadata"]["name"] for one in self.cluster.objects(NODES))
        return self.chance.choice(names)

    def _harm(self, one: JsonObject) -> None:
        self.monitor.harmed.add(one["metadata"]["uid"])
        self.monitor.excuse()

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _patch_pod(self, one: JsonObject, body: JsonObject) -> None:
        await self.client.patch(PODS, one["metadata"]["name"], NAMESPACE, body)

    async def _edit(self, spec: JsonObject, name: str = "") -> None:
        chosen = name or self.chance.choice(self.names)
        await self.client.patch(LEADER_WORKER_SETS, chosen, NAMESPACE, {"spec": spec})

    async def _evict(self, one: JsonObject) -> None:
        """Without an operator only the PodDisruptionBudget of the leaders holds."""
        name, operator = one["metadata"]["name"], self.cluster.parts["operator"]
        begun, answered = asyncio.get_running_loop().time(), operator.running and not self._dies
        if not answered:
            self._harm(one)
        try:
            body = {"metadata": {"name": name, "namespace": NAMESPACE}}
            await self.client.create(PODS, body, NAMESPACE, subresource="eviction", name=name)
        finally:
            if self._killed_at >= begun - 0.5:
                self._harm(one)

    async def _drain(self, node: str) -> None:
        await self.client.patch(NODES, node, "", {"spec": {"unschedulable": True}})
        end = asyncio.get_running_loop().time() + 120
        while asyncio.get_running_loop().time() < end:
            here = [one for one in self.cluster.objects(PODS, NAMESPACE) if one["spec"].get("nodeName") == node]
            if not here:
                break
            for one in here:
                with suppress(ApiError):
                    await self._evict(one)
            await asyncio.sleep(PAUSE)
        await self.client.patch(NODES, node, "", {"spec": {"unschedulable": None}})

    async def _lose(self, node: str, seconds: float) -> None:
        for one in self.cluster.objects(PODS, NAMESPACE):
            if one["spec"].get("nodeName") == node:
                self._harm(one)
        mark: JsonObject = {"metadata": {"annotations": {f"{ORDER}lost": "true"}}}
        await self.client.patch(NODES, node, "", mark)
        try:
            await asyncio.sleep(seconds)
        finally:
            mark["metadata"]["annotations"][f"{ORDER}lost"] = None
            await self.client.patch(NODES, node, "", mark)
        self.monitor.excuse()

    async def _restart_operator(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if not self.cluster.parts["operator"].running:
            await self.cluster.parts["operator"].restart()

    # The run

    async def run(self, operations: int) -> None:
        watching = asyncio.create_task(self.monitor.watch())
        for subject in subjects().values():
            await self.client.create(LEADER_WORKER_SETS, subject, NAMESPACE)
        await self.client.create(ROLLOUTS, rollout(), NAMESPACE)
        await self._until_ready()
        kinds, weights = zip(*self.OPERATIONS, strict=True)
        for _ in range(operations):
            (operation,) = self.chance.choices(kinds, weights)
            self.log.append(f"{asyncio.get_running_loop().time():.1f} {operation.__name__}")
            with suppress(ApiError):
                await operation(self)
            await asyncio.sleep(self.chance.choice((0.0, 0.05, 0.5, 2.0, 10.0, 30.0)))
        while self._background:
            await asyncio.wait(self._background)
        await self._until_ready()
        await cancel_all(watching)
        assert self.monitor.broken == [], "\n".join(self.monitor.broken)
        await self._delete_everything()

    async def _until_ready(self) -> None:
        try:
            await self.cluster.until(self._all_ready, SETTLES_WITHIN)
        except AssertionError as problem:
            raise AssertionError(f"does not settle: {self._overview()}") from problem

    def _all_ready(self) -> bool:
        sets = self.cluster.objects(LEADER_WORKER_SETS, NAMESPACE)
        if {one["metadata"]["name"] for one in sets} != set(self.names):
            return False
        releases = self.cluster.objects(ROLLOUTS, NAMESPACE)
        healthy = all((one.get("status") or {}).get("phase") == "Healthy" for one in releases)
        return healthy and all(map(_is_ready_set, sets))

    def _overview(self) -> str:
        pods = self.cluster.objects(PODS, NAMESPACE)
        unready = [
            f"{one['metadata']['name']} {one.get('status', {}).get('phase')}" for one in pods if not is_ready(one)
        ]
        sets = [
            (one["metadata"]["name"], one["spec"]["replicas"], one.get("status"))
            for one in self.cluster.objects(LEADER_WORKER_SETS, NAMESPACE)
        ]
        phases = [(one.get("status") or {}).get("phase") for one in self.cluster.objects(ROLLOUTS, NAMESPACE)]
        return f"unready pods {unready}, rollouts {phases}, sets {sets}"

    async def _delete_everything(self) -> None:
        for resource in (ROLLOUTS, LEADER_WORKER_SETS):
            for one in self.cluster.objects(resource, NAMESPACE):
                with suppress(NotFound):
                    await self.client.delete(resource, one["metadata"]["name"], NAMESPACE)
        await self.cluster.settle(quiet=30, timeout=SETTLES_WITHIN)  # six nodes report every five minutes
        left = [
            f"{resource.kind} {one['metadata']['name']}"
            for resource in (
                *(LEADER_WORKER_SETS, ROLLOUTS, BATCH_RELEASES, PODS, STATEFUL_SETS, CONTROLLER_REVISIONS),
                *(SERVICES, CONFIG_MAPS, POD_DISRUPTION_BUDGETS),
            )
            for one in self.cluster.objects(resource, NAMESPACE)
            if one["metadata"]["name"] not in ("kubernetes", "kube-root-ca.crt")
        ]
        assert left == [], f"left behind: {left}"


def _is_ready_set(one: JsonObject) -> bool:
    status, replicas = one.get("status") or {}, one["spec"]["replicas"]
    counters = [status.get(name, 0) for name in ("replicas", "readyReplicas", "updatedReplicas")]
    return counters == [replicas] * 3 and status.get("observedGeneration") == one["metadata"]["generation"]


async def _run(seed: int, operations: int) -> None:
    async with Cluster(
        parts=("workloads", "scheduler", "operator"),
        nodes=NODES_OF_RUN,
        node_settings={"start_latency": 2.0},
        threads=False,
    ) as cluster:
        chaos = Chaos(cluster, seed)
        try:
            await chaos.run(operations)
        except BaseException as problem:
            command = f"make chaos CHAOS='--seed {seed} --length {operations}'"
            last = "\n  ".join(chaos.log[-15:])
            raise AssertionError(
                f"chaos with seed {seed}: {problem}\nlast operations:\n  {last}\nagain: {command}"
            ) from problem


def run_chaos(seed: int, operations: int) -> None:
    virtual_time.run(_run(seed, operations), seed=seed)
