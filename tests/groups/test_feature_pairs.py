"""Every two features of a LeaderWorkerSet, and every operation with every feature, on a whole cluster in this process.

The rows are generated (`pairs.py`). Each row creates its set, does one thing to it, and deletes it. A monitor on the
watch stream counts ready groups at every change. With KOHORT_FEATURE_TRIPLES=1 every two features meet every operation,
which takes some minutes.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import pytest
from tests.builders import LeaderWorkerSet
from tests.groups import pairs
from tests.groups.bare import pod_group_definition
from tests.groups.pairs import NAME, NEW, OLD, POOL, RACK, REPLICAS, TEMPLATE, Row
from tests.installed import installed

from kohort.groups.gang import VOLCANO_POD_GROUPS
from kohort.groups.leaderworkerset import LeaderWorkerSet as SetView
from kohort.kube.errors import AlreadyExists, TooManyRequests
from kohort.kube.request_encoding import PatchType
from kohort.kube.resources import (
    BATCH_RELEASES,
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEADER_WORKER_SETS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
)
from kohort.kube.tasks import cancel_all
from kohort.objects.json_types import JsonObject
from kohort.operator import register, wait_established
from kohort.rules import group_labels
from kohort.testing import Cluster

NAMESPACE = "default"
STRENGTH = 3 if os.environ.get("KOHORT_FEATURE_TRIPLES") else 2
RACKS = 16
PATIENCE = 240.0


@asynccontextmanager
async def cluster_for(row: Row) -> AsyncIterator[Cluster]:
    gang = "" if row["gangs"] == "none" else row["gangs"]
    operator = {"operator": lambda manager: register(manager, gang_scheduler=gang)}
    settings: JsonObject = {"topology": {RACK: RACKS}, "start_latency": 2.0}
    async with Cluster(
        parts=("workloads", "scheduler"),
        nodes=RACKS,
        node_settings=settings,
        extra=operator,
        contents=installed("workloads"),
    ) as cluster:
        if gang:
            definition = pod_group_definition("scheduling.volcano.sh", "v1beta1")
            await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            await wait_established(cluster.client, definition["metadata"]["name"])
        yield cluster


async def provide_nodes(cluster: Cluster) -> None:
    """What an autoscaler does for replicas with nodes of their own: a node for each value that a pod asks for."""
    async for event in cluster.client.watch(PODS, NAMESPACE):
        pod = event.object
        value = (pod.get("spec", {}).get("nodeSelector") or {}).get(POOL) if event.type == "ADDED" else None
        if value is None:
            continue
        name = f"pool-{value}"
        labels = {"simulation.kohort.dev/node": "true", "kubernetes.io/hostname": name, POOL: value, RACK: name}
        taint = {"key": POOL, "value": value, "effect": "NoSchedule"}
        with suppress(AlreadyExists):
            body = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [taint]}}
            await cluster.client.create(NODES, body)


class Monitor:
    """Counts ready groups at every change of a pod of the set."""

    def __init__(self, subject: LeaderWorkerSet) -> None:
        self._view = subject.as_view(SetView)
        self._pods: dict[str, JsonObject] = {}
        self.wanted = 0
        """How many groups must be there, less those that may be away; 0 while the set is not expected to serve."""
        self.broken: list[str] = []

    def expect(self, groups: int, *, more_away: int = 0) -> None:
        """From now on, `groups` less what the strategy allows to be away, and less those that the test itself takes."""
        self.wanted = groups - self._view.unavailable - more_away

    async def watch(self, cluster: Cluster) -> None:
        async for event in cluster.client.watch(PODS, NAMESPACE):
            if event.type not in ("ADDED", "MODIFIED", "DELETED"):
                continue
            labels = event.object["metadata"].get("labels") or {}
            if labels.get(group_labels.NAME) != NAME:
                continue
            self._pods.pop(event.object["metadata"]["name"], None)
            if event.type != "DELETED":
                self._pods[event.object["metadata"]["name"]] = event.object
            ready = self.ready_groups()
            if len(ready) < self.wanted:
                now = asyncio.get_running_loop().time()
                self.broken.append(f"at {now:.1f} s only groups {ready} were ready, at least {self.wanted} must be")

    def ready_groups(self) -> list[int]:
        found: dict[int, list[JsonObject]] = {}
        for pod in self._pods.values():
            found.setdefault(int(pod["metadata"]["labels"][group_labels.GROUP_INDEX]), []).append(pod)
        return sorted(index for index, members in found.items() if _is_complete(members))


def _is_complete(members: list[JsonObject]) -> bool:
    sizes = {int(pod["metadata"]["annotations"][group_labels.SIZE]) for pod in members}
    return len(sizes) == 1 and len(members) == sizes.pop() and all(map(_is_ready, members))


def _is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


class Story:
    """One row: a set, and what is done to it."""

    def __init__(self, cluster: Cluster, row: Row, monitor: Monitor) -> None:
        self.cluster, self.row, self.monitor = cluster, row, monitor
        self.client = cluster.client
        self.subject = pairs.subject_of(row)
        self.size: int = self.subject.at(f"{TEMPLATE}.size")
        self.held = 1 if row["strategy"] == "partition" else 0

    # Looking

    def pods(self) -> dict[str, JsonObject]:
        found = self.cluster.objects(PODS, NAMESPACE)
        ours = [one for one in found if one["metadata"]["labels"].get(group_labels.NAME) == NAME]
        return {one["metadata"]["name"]: one for one in ours}

    def identities(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods().items()}

    def status(self) -> JsonObject:
        found: JsonObject = (self.cluster.find(LEADER_WORKER_SETS, NAME, NAMESPACE) or {}).get("status") or {}
        return found

    def settled(self, groups: int = REPLICAS, *, held: int = 0) -> bool:
        """All groups are ready and have all their pods, and those that the partition does not hold are up to date."""
        found, stored = self.status(), self.cluster.find(LEADER_WORKER_SETS, NAME, NAMESPACE)
        counters = [found.get(key, 0) for key in ("replicas", "readyReplicas", "updatedReplicas")]
        if stored is None or found.get("observedGeneration") != stored["metadata"]["generation"]:
            return False
        names = {name for group in range(groups) for name in self._names(group)}
        return counters == [groups, groups, groups - held] and set(self.pods()) == names

    def _names(self, group: int) -> list[str]:
        leader = self.pods().get(f"{NAME}-{group}")
        size = int(leader["metadata"]["annotations"][group_labels.SIZE]) if leader else self.size
        return [f"{NAME}-{group}", *(f"{NAME}-{group}-{worker}" for worker in range(1, size))]

    def images(self) -> dict[int, set[str]]:
        found: dict[int, set[str]] = {}
        for pod in self.pods().values():
            index = int(pod["metadata"]["labels"][group_labels.GROUP_INDEX])
            found.setdefault(index, set()).add(pod["spec"]["containers"][0]["image"])
        return found

    def has(self, image: str, *, held: str = "") -> bool:
        """Every group runs `image`, except those that the partition keeps at another."""
        return all(found == {held if held and index < self.held else image} for index, found in self.images().items())

    def claims(self) -> set[str]:
        return {one["metadata"]["name"] for one in self.cluster.objects(PERSISTENT_VOLUME_CLAIMS, NAMESPACE)}

    # Doing

    async def until(self, condition: Callable[[], bool]) -> None:
        try:
            await self.cluster.until(condition, PATIENCE)
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n{self.status()}\n{self._overview()}") from problem

    def _overview(self) -> str:
        return "\n".join(
            f"{name} {pod['status'].get('phase')} {pod['spec'].get('nodeName')} {_is_ready(pod)}"
            f" {[one for one in pod['status'].get('conditions', []) if one['status'] != 'True']}"
            for name, pod in sorted(self.pods().items())
        )

    async def edit(self, template: JsonObject, **spec: object) -> None:
        body = {"spec": {"leaderWorkerTemplate": template, **spec}}
        await self.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body, dry_run=True)
        await self.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)

    def with_image(self, image: str) -> JsonObject:
        roles = [role for role in ("leaderTemplate", "workerTemplate") if self.subject.at(f"{TEMPLATE}.{role}")]
        found: JsonObject = {}
        for role in roles:
            (container,) = self.subject.at(f"{TEMPLATE}.{role}.spec.containers")
            found[role] = {"spec": {"containers": [{**container, "image": image}]}}
        return found

    async def create(self) -> None:
        await self.client.create(LEADER_WORKER_SETS, self.subject, NAMESPACE, dry_run=True)
        await self.client.create(LEADER_WORKER_SETS, self.subject, NAMESPACE)
        await self.until(self.settled)
        self.monitor.expect(REPLICAS)

    async def roll(self) -> None:
        await self.edit(self.with_image(NEW))
        await self.until(lambda: self.settled(held=self.held) and self.has(NEW, held=OLD))

    async def restart(self) -> None:
        before = self.identities()
        mark = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}
        await self.edit(dict.fromkeys(self.with_image(OLD), mark))
        await self.until(lambda: self.settled(held=self.held))
        kept = {name for name, uid in self.identities().items() if before[name] == uid}
        assert kept == {name for group in range(self.held) for name in self._names(group)}

    @property
    def victim(self) -> str:
        """A worker of group 1, or its leader if it has no workers."""
        return f"{NAME}-1-1" if self.size > 1 else f"{NAME}-1"

    async def lose_a_pod(self) -> None:
        self.monitor.expect(REPLICAS, more_away=1)
        before = self.identities()
        await self.client.delete(PODS, self.victim, NAMESPACE)
        await self._replaced(before)

    async def evict_pods(self) -> None:
        """With a budget of one group, a pod of a second group stays."""
        self.monitor.expect(REPLICAS, more_away=1)
        before = self.identities()
        await self._evict(self.victim)
        if self.row["budgets"] != "none":
            with pytest.raises(TooManyRequests, match="group 1"):
                await self._evict(f"{NAME}-2")
        await self._replaced(before)

    async def _evict(self, name: str) -> None:
        body = {"metadata": {"name": name, "namespace": NAMESPACE}}
        await self.client.create(PODS, body, NAMESPACE, subresource="eviction", name=name)

    async def fail(self) -> None:
        """A container ends once: its group is restarted, unless its engine recovers, and returns to its nodes."""
        self.monitor.expect(REPLICAS, more_away=1)
        before, nodes = self.identities(), self._nodes()
        order = {"metadata": {"annotations": {"simulation.kohort.dev/crash": "1"}}}
        await self.client.patch(PODS, self.victim, NAMESPACE, order)
        recovers = self.row["recovery"] == "engine first" and self.size > 1
        if recovers or self.row["restarts"] == "None":
            await asyncio.sleep(2 * pairs.RECOVERY_SECONDS)
            await self.until(self.settled)
            assert self.identities() == before
            return
        await self.until(lambda: self.identities().get(f"{NAME}-1") not in (None, before[f"{NAME}-1"]))
        await self.until(self.settled)
        assert self._changed(before) == set(self._names(1))
        if self.row["recovery"] == "previous nodes":
            assert self._nodes() == nodes

    def _nodes(self) -> dict[str, str]:
        return {name: pod["spec"]["nodeName"] for name, pod in self.pods().items()}

    def _changed(self, before: Mapping[str, str]) -> set[str]:
        return {name for name, uid in self.identities().items() if before[name] != uid}

    async def _replaced(self, before: Mapping[str, str]) -> None:
        """The victim is another one, and so is its group if losses of pods recreate it."""
        lost = self.victim
        await self.until(lambda: self.identities().get(lost) not in (None, before[lost]))
        await self.until(self.settled)
        assert self._changed(before) == ({lost} if self.row["restarts"] == "None" else set(self._names(1)))

    async def change_size(self) -> None:
        self.size += 2
        await self.edit({"size": self.size})
        await self.until(lambda: self.settled(held=self.held) and len(self._names(REPLICAS - 1)) == self.size)
        self.size -= 2
        await self.edit({"size": self.size})
        await self.until(lambda: self.settled() and len(self.pods()) == REPLICAS * self.size)

    async def scale(self, groups: int) -> None:
        before = self.identities()
        self.monitor.expect(min(groups, REPLICAS))
        await self.edit({}, replicas=groups)
        await self.until(lambda: self.settled(groups))
        kept = {name for name, uid in self.identities().items() if before.get(name) == uid}
        assert kept == {name for group in range(min(groups, REPLICAS)) for name in self._names(group)}

    async def scale_up(self) -> None:
        await self.scale(REPLICAS + 2)

    async def scale_down(self) -> None:
        await self.scale(1)

    async def undo(self) -> None:
        first = self.status()["updateRevision"]
        await self.roll()
        await self.edit(self.with_image(OLD))
        await self.until(lambda: self.settled() and self.has(OLD))
        assert self.status()["updateRevision"] == first

    async def _guard(self, *steps: JsonObject) -> None:
        ref = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": NAME}
        strategy = {"canary": {"enableExtraWorkloadForCanary": True, "steps": list(steps)}}
        rollout = {"metadata": {"name": NAME}, "spec": {"workloadRef": ref, "strategy": strategy}}
        await self.client.create(ROLLOUTS, rollout, NAMESPACE)
        await self.until(lambda: self._release().get("phase") == "Healthy")

    def _release(self) -> JsonObject:
        found: JsonObject = (self.cluster.find(ROLLOUTS, NAME, NAMESPACE) or {}).get("status") or {}
        return found

    def _ended(self) -> bool:
        sets = self.cluster.objects(LEADER_WORKER_SETS, NAMESPACE)
        return self._release().get("phase") == "Healthy" and len(sets) == 1

    async def release(self) -> None:
        await self._guard({"replicas": 1, "pause": {"duration": 5}}, {"replicas": "100%", "pause": {"duration": 5}})
        await self.edit(self.with_image(NEW))
        await self.until(lambda: self._release().get("phase") == "Progressing")
        await self.until(lambda: self._ended() and self.settled() and self.has(NEW))

    async def abort(self) -> None:
        before = self.identities()
        await self._guard({"replicas": 1, "pause": {}}, {"replicas": "100%", "pause": {"duration": 5}})
        await self.edit(self.with_image(NEW))
        await self.until(lambda: (self._release().get("canaryStatus") or {}).get("currentStepState") == "StepPaused")
        await self.edit(self.with_image(OLD))
        await self.until(lambda: self._ended() and self.settled() and self.has(OLD))
        assert self.identities() == before, "nothing of the stable set was touched"

    async def resize(self) -> None:
        before = self.identities()
        for name in before:
            body = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "300m"}}}]}}
            await self.client.patch(PODS, name, NAMESPACE, body, subresource="resize", patch_type=PatchType.STRATEGIC)
        await self.until(lambda: all(_runs_with(pod, "300m") for pod in self.pods().values()))
        await self.until(self.settled)
        assert self.identities() == before

    def with_cpu(self, cpu: str) -> JsonObject:
        found = self.with_image(OLD)
        for role in found.values():
            (container,) = role["spec"]["containers"]
            amounts = {**container["resources"], "requests": {**container["resources"]["requests"], "cpu": cpu}}
            role["spec"]["containers"] = [{**container, "resources": amounts}]
        return found

    def have(self, cpu: str, *, held: str = "") -> bool:
        """The pods of every group have this cpu, except those that the partition keeps at another."""
        found = [(int(pod["metadata"]["labels"][group_labels.GROUP_INDEX]), pod) for pod in self.pods().values()]
        return all(_runs_with(pod, held if held and index < self.held else cpu) for index, pod in found)

    async def resize_in_place(self) -> None:
        """More, and back again: the templates change, no pod does."""
        before = self.identities()
        await self.edit(self.with_cpu("300m"), rolloutStrategy={"resourceUpdatePolicy": "InPlaceOnly"})
        await self.until(lambda: self.settled(held=self.held) and self.have("300m", held="200m"))
        await self.edit(self.with_cpu("200m"))
        await self.until(lambda: self.settled() and self.have("200m"))
        assert self.identities() == before

    async def release_in_place(self) -> None:
        before = self.identities()
        await self._guard({"replicas": 1, "pause": {"duration": 5}}, {"replicas": "100%", "pause": {"duration": 5}})
        await self.edit(self.with_cpu("300m"), rolloutStrategy={"resourceUpdatePolicy": "InPlaceOnly"})
        await self.until(lambda: self._release().get("phase") == "Progressing")
        await self.until(lambda: self._ended() and self.settled() and self.have("300m"))
        assert self.identities() == before

    async def take_over(self) -> None:
        before, writes = self.identities(), self.status()
        await self.cluster.parts["operator"].stop()
        await self.cluster.parts["operator"].restart()
        await self.cluster.settle(quiet=20)
        assert (self.identities(), self.status()) == (before, writes)
        await self.roll()

    async def crash_midway(self) -> None:
        await self.edit(self.with_image(NEW))
        await self.until(lambda: any(NEW in found for found in self.images().values()))
        await self.cluster.parts["operator"].restart()
        await self.until(lambda: self.settled(held=self.held) and self.has(NEW, held=OLD))

    async def delete(self) -> None:
        self.monitor.wanted = 0
        if self._release():
            await self.client.delete(ROLLOUTS, NAME, NAMESPACE)
            await self.until(lambda: not self.cluster.objects(ROLLOUTS, NAMESPACE))
        await self.client.delete(LEADER_WORKER_SETS, NAME, NAMESPACE)
        await self.until(lambda: not self._left())

    def _left(self) -> list[str]:
        kinds = [LEADER_WORKER_SETS, STATEFUL_SETS, PODS, CONTROLLER_REVISIONS, BATCH_RELEASES, VOLCANO_POD_GROUPS]
        if self.row["claims"] == "deleted always":
            kinds.append(PERSISTENT_VOLUME_CLAIMS)
        found = [(kind, one) for kind in kinds for one in self.cluster.objects(kind, NAMESPACE)]
        found += [(SERVICES, one) for one in self.cluster.objects(SERVICES, NAMESPACE) if _is_ours(one)]
        return [f"{kind.plural}/{one['metadata']['name']}" for kind, one in found]


def _is_ours(one: JsonObject) -> bool:
    return group_labels.NAME in (one["metadata"].get("labels") or {})


def _runs_with(pod: JsonObject, cpu: str) -> bool:
    (status,) = pod["status"]["containerStatuses"]
    return ((status.get("resources") or {}).get("requests") or {}).get("cpu") == cpu


DOING: Mapping[str, Callable[[Story], Awaitable[None]]] = {
    "create": lambda story: story.cluster.settle(quiet=20),
    "roll": Story.roll,
    "restart": Story.restart,
    "lose a pod": Story.lose_a_pod,
    "fail": Story.fail,
    "evict": Story.evict_pods,
    "change size": Story.change_size,
    "scale up": Story.scale_up,
    "scale down": Story.scale_down,
    "undo": Story.undo,
    "release": Story.release,
    "abort": Story.abort,
    "resize": Story.resize,
    "resize in place": Story.resize_in_place,
    "release in place": Story.release_in_place,
    "take over": Story.take_over,
    "crash midway": Story.crash_midway,
}


@pytest.mark.parametrize("row", [pytest.param(row, id=pairs.title(row)) for row in pairs.rows(STRENGTH)])
async def test_features_work_together(row: Row) -> None:
    async with cluster_for(row) as cluster:
        monitor = Monitor(pairs.subject_of(row))
        tasks = [asyncio.create_task(monitor.watch(cluster)), asyncio.create_task(provide_nodes(cluster))]
        try:
            story = Story(cluster, row, monitor)
            await story.create()
            await DOING[row["operation"]](story)
            assert not monitor.broken, "\n".join(monitor.broken[:5])
            if row["claims"].startswith("deleted"):
                await story.until(lambda: story.claims() == {f"cache-{name}" for name in story.pods()})
            elif row["claims"] == "retained":
                assert story.claims() >= {f"cache-{name}" for name in story.pods()}
            await story.delete()
        finally:
            await cancel_all(*tasks)


@pytest.mark.parametrize("strength", [2, 3])
def test_every_combination_occurs_in_some_row(strength: int) -> None:
    rows = pairs.rows(strength)
    missing = [found for found in pairs.wanted(strength) if not any(found <= set(row.items()) for row in rows)]
    assert missing == []
    assert set(DOING) == set(pairs.OPERATIONS)


async def test_the_monitor_notices_groups_that_are_away() -> None:
    row = {factor: choices[0] for factor, choices in pairs.factors().items()}
    async with cluster_for(row) as cluster:
        monitor = Monitor(pairs.subject_of(row))
        watching = asyncio.create_task(monitor.watch(cluster))
        story = Story(cluster, row, monitor)
        await story.create()
        for leader in (f"{NAME}-0", f"{NAME}-2"):
            assert monitor.broken == []
            await cluster.client.delete(PODS, leader, NAMESPACE)
            await asyncio.sleep(1.0)
        assert monitor.broken != []
        await cancel_all(watching)
