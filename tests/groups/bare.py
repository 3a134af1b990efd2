"""The API server and the operator, and nothing else: no StatefulSet controller, no nodes, no garbage collector.

A test plays those parts itself, one step at a time, so every intermediate state of a roll can be looked at. The set is
the one of the behaviour's checklist unless a test says otherwise: `test-sample`, two groups of two.

    async with bare(sample().replicas(4)) as world:
        await world.ready(0, 1, 2, 3)
        await world.edit(new_image("new:2"))
        assert (world.partition, world.replicas, world.pair) == (3, 4, (4, 0))
        await world.done(3)
"""

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.builders import LeaderWorkerSet, container, lws
from tests.installed import installed

from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    LEADER_WORKER_SETS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.operator import register
from kohort.rules import group_labels
from kohort.testing import Cluster

NAMESPACE = "default"
NAME = "test-sample"
QUIET = 2.0
NO_HISTORY = {group_labels.REVISION_LIMIT: "0"}
"""Keep no revisions beyond those in use, as the checklist's counts of them assume."""
HPA_SELECTOR = "leaderworkerset.sigs.k8s.io/name=test-sample,leaderworkerset.sigs.k8s.io/worker-index=0"


def sample() -> LeaderWorkerSet:
    """Two groups of two, with a leader template of its own."""
    leader = {"metadata": {}, "spec": {"containers": [container("leader")]}}
    worker = {"metadata": {}, "spec": {"containers": [container("worker")]}}
    return lws(NAME).replicas(2).size(2).leader(leader).workers(worker)


def leader_image(image: str) -> JsonObject:
    containers = [container("leader") | {"image": image}]
    return {"spec": {"leaderWorkerTemplate": {"leaderTemplate": {"spec": {"containers": containers}}}}}


def worker_image(image: str) -> JsonObject:
    containers = [container("worker") | {"image": image}]
    return {"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": containers}}}}}


def replicas(count: int) -> JsonObject:
    return {"spec": {"replicas": count}}


def size(count: int) -> JsonObject:
    return {"spec": {"leaderWorkerTemplate": {"size": count, "resizePolicy": "Recreate"}}}


def rolling(**values: int) -> JsonObject:
    return {"spec": {"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": values}}}


class World:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.by_hand = False
        """Missing leaders come only from `make_leader`."""

    # What a user does

    async def create(self, subject: JsonObject) -> None:
        await self.cluster.client.create(LEADER_WORKER_SETS, subject, NAMESPACE)
        await self.pause()

    async def edit(self, *changes: JsonObject) -> None:
        """All changes in one edit."""
        body: JsonObject = {}
        for change in changes:
            body = _merged(body, change)
        await self.cluster.client.patch(LEADER_WORKER_SETS, NAME, NAMESPACE, body)
        await self.pause()

    async def pause(self) -> None:
        """Let the operator act, and then do what the controller of StatefulSets would: as many leaders as wanted."""
        await self.cluster.settle(quiet=QUIET)
        if await self._count_leaders():
            await self.cluster.settle(quiet=QUIET)

    # What the rest of a cluster does

    async def _count_leaders(self) -> bool:
        leaders = self.find(STATEFUL_SETS, NAME)
        if leaders is None or leaders["metadata"].get("deletionTimestamp"):
            return False
        wanted = leaders["spec"]["replicas"]
        missing = [] if self.by_hand else [index for index in range(wanted) if self.leader(index) is None]
        surplus = [name for name in self.leaders if int(name.rpartition("-")[2]) >= wanted]
        for index in missing:
            await self.make_leader(index)
        for name in surplus:
            await self.remove(name)
        if leaders.get("status", {}).get("replicas", 0) != wanted:
            await self._set_status(STATEFUL_SETS, NAME, {"replicas": wanted})
        return bool(missing or surplus)

    async def make_leader(self, index: int, *, like: JsonObject | None = None) -> None:
        """A leader pod of the leader StatefulSet's template, or of another template."""
        leaders = self.leader_set
        template = copy.deepcopy(like or leaders["spec"]["template"])
        spec = {**template["spec"], "hostname": f"{NAME}-{index}", "subdomain": leaders["spec"]["serviceName"]}
        await self.cluster.client.create(
            PODS,
            {
                "metadata": {
                    **template["metadata"],
                    "name": f"{NAME}-{index}",
                    "ownerReferences": [_owner("apps/v1", "StatefulSet", leaders)],
                },
                "spec": spec,
            },
            NAMESPACE,
        )

    async def make_workers(self, group: int) -> None:
        """The worker pods of a group, on a node, so that their deletion takes its time."""
        workers = self.workers(group)
        assert workers is not None
        for number in range(1, workers["spec"]["replicas"] + 1):
            template = copy.deepcopy(workers["spec"]["template"])
            name = f"{NAME}-{group}-{number}"
            await self.cluster.client.create(
                PODS,
                {
                    "metadata": {
                        **template["metadata"],
                        "name": name,
                        "ownerReferences": [_owner("apps/v1", "StatefulSet", workers)],
                    },
                    "spec": {**template["spec"], "nodeName": "some-node"},
                },
                NAMESPACE,
            )
            await self._set_status(PODS, name, {"phase": "Running"})
        await self.pause()

    async def remove(self, leader: str) -> None:
        """A leader and what it owns are gone."""
        for resource in (PODS, STATEFUL_SETS, SERVICES):
            for one in self.objects(resource):
                owners = one["metadata"].get("ownerReferences") or ()
                if one["metadata"]["name"] == leader and any(own["kind"] != "LeaderWorkerSet" for own in owners):
                    await self._delete(resource, leader)
        for pod in self.objects(PODS):
            if pod["metadata"]["name"].startswith(f"{leader}-"):
                await self._delete(PODS, pod["metadata"]["name"])

    async def _delete(self, resource: Resource, name: str) -> None:
        if self.find(resource, name)["metadata"].get("finalizers"):  # type: ignore[index]
            await self.cluster.client.patch(resource, name, NAMESPACE, {"metadata": {"finalizers": None}})
        if self.find(resource, name) is not None:
            await self.cluster.client.delete(resource, name, NAMESPACE, grace_seconds=0)

    async def update(self, *groups: int, like: JsonObject | None = None) -> None:
        """These groups are replaced by ones of the leader StatefulSet's template (or another), not ready yet."""
        for group in groups:
            await self.remove(f"{NAME}-{group}")
            await self.make_leader(group, like=like)
        await self.pause()

    async def ready(self, *groups: int) -> None:
        for group in groups:
            await self.leader_ready(group, settle=False)
            workers = self.workers(group)
            if workers is not None:
                count = workers["spec"]["replicas"]
                counters = {"replicas": count, "readyReplicas": count, "availableReplicas": count}
                revision = {"currentRevision": "r", "updateRevision": "r"}
                await self._set_status(STATEFUL_SETS, f"{NAME}-{group}", {**counters, **revision})
        await self.pause()

    async def leader_ready(self, group: int, *, settle: bool = True) -> None:
        await self._set_status(PODS, f"{NAME}-{group}", _running("True"))
        if settle:
            await self.pause()

    async def unready(self, *groups: int) -> None:
        for group in groups:
            await self._set_status(PODS, f"{NAME}-{group}", _running("False"))
        await self.pause()

    async def done(self, *groups: int) -> None:
        """These groups come back with the newest template and are ready."""
        await self.update(*groups)
        await self.ready(*groups)

    async def delete_worker(self, group: int, number: int) -> None:
        await self.cluster.client.delete(PODS, f"{NAME}-{group}-{number}", NAMESPACE)
        await self.pause()

    async def set_phase(self, pod: str, phase: str) -> None:
        await self._set_status(PODS, pod, {"phase": phase})

    async def _set_status(self, resource: Resource, name: str, status: JsonObject) -> None:
        await self.cluster.client.patch(resource, name, NAMESPACE, {"status": status}, subresource="status")

    # Looking

    def find(self, resource: Resource, name: str) -> JsonObject | None:
        return self.cluster.find(resource, name, NAMESPACE)

    def objects(self, resource: Resource) -> list[JsonObject]:
        return self.cluster.objects(resource, NAMESPACE)

    @property
    def subject(self) -> JsonObject:
        found = self.find(LEADER_WORKER_SETS, NAME)
        assert found is not None
        return found

    @property
    def leader_set(self) -> JsonObject:
        found = self.find(STATEFUL_SETS, NAME)
        assert found is not None
        return found

    @property
    def partition(self) -> int:
        return int(self.leader_set["spec"]["updateStrategy"]["rollingUpdate"].get("partition", 0))

    @property
    def replicas(self) -> int:
        return int(self.leader_set["spec"]["replicas"])

    @property
    def pair(self) -> tuple[int, int]:
        """readyReplicas, updatedReplicas."""
        status = self.subject.get("status", {})
        return status.get("readyReplicas", 0), status.get("updatedReplicas", 0)

    @property
    def conditions(self) -> dict[str, str]:
        return {one["type"]: one["status"] for one in self.subject.get("status", {}).get("conditions", [])}

    def condition(self, type: str) -> JsonObject:
        found: list[JsonObject] = self.subject["status"]["conditions"]
        return next(one for one in found if one["type"] == type)

    @property
    def true_conditions(self) -> set[str]:
        return {type for type, status in self.conditions.items() if status == "True"}

    @property
    def revisions(self) -> list[JsonObject]:
        return [
            one
            for one in self.objects(CONTROLLER_REVISIONS)
            if one["metadata"]["labels"].get(group_labels.NAME) == NAME
        ]

    @property
    def events(self) -> list[str]:
        return [f"{one['type']} {one['reason']} {one['message']}" for one in self.objects(EVENTS)]

    @property
    def leaders(self) -> list[str]:
        pods = self.objects(PODS)
        return sorted(
            one["metadata"]["name"]
            for one in pods
            if one["metadata"]["labels"].get(group_labels.WORKER_INDEX) == group_labels.LEADER
        )

    def leader(self, group: int) -> JsonObject | None:
        return self.find(PODS, f"{NAME}-{group}")

    def workers(self, group: int) -> JsonObject | None:
        return self.find(STATEFUL_SETS, f"{NAME}-{group}")

    @property
    def worker_sets(self) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.objects(STATEFUL_SETS) if one["metadata"]["name"] != NAME)

    def deleting(self, group: int) -> bool:
        leader = self.leader(group)
        return leader is None or "deletionTimestamp" in leader["metadata"]

    # The checklist's "valid" StatefulSets

    def assert_leader_set(self, count: int) -> None:
        found, subject = self.leader_set, self.subject
        key = found["metadata"]["labels"][group_labels.REVISION]
        spec, template = found["spec"], found["spec"]["template"]
        assert spec["replicas"] == count
        assert spec["podManagementPolicy"] == "Parallel"
        assert spec["serviceName"] == NAME
        assert spec["selector"] == {"matchLabels": {group_labels.NAME: NAME, group_labels.WORKER_INDEX: "0"}}
        labels = {group_labels.NAME: NAME, group_labels.WORKER_INDEX: "0", group_labels.REVISION: key}
        assert template["metadata"]["labels"] == labels
        assert template["metadata"]["annotations"][group_labels.SIZE] == str(
            subject["spec"]["leaderWorkerTemplate"]["size"]
        )
        assert found["metadata"]["annotations"][group_labels.REPLICAS] == str(subject["spec"]["replicas"])
        assert self.subject["status"]["updateRevision"] == key

    def assert_worker_sets(self) -> None:
        """One per leader, none where a group is its leader alone."""
        wanted = self.subject["spec"]["leaderWorkerTemplate"]["size"]
        assert self.worker_sets == (self.leaders if wanted > 1 else [])
        for name in self.worker_sets:
            self._assert_workers(name, wanted)

    def _assert_workers(self, name: str, wanted: int) -> None:
        found, leader = self.find(STATEFUL_SETS, name), self.find(PODS, name)
        assert found is not None
        assert leader is not None
        spec, group = found["spec"], name.rpartition("-")[2]
        identity = {
            group_labels.NAME: NAME,
            group_labels.GROUP_INDEX: group,
            group_labels.GROUP_KEY: leader["metadata"]["labels"][group_labels.GROUP_KEY],
        }
        labels = {**identity, group_labels.REVISION: leader["metadata"]["labels"][group_labels.REVISION]}
        assert found["metadata"]["labels"] == labels
        assert spec["template"]["metadata"]["labels"] == labels
        assert spec["selector"] == {"matchLabels": identity}
        assert spec["template"]["metadata"]["annotations"] == {
            group_labels.SIZE: str(wanted),
            group_labels.LEADER_NAME: name,
        }
        assert (spec["replicas"], spec["ordinals"], spec["podManagementPolicy"]) == (
            wanted - 1,
            {"start": 1},
            "Parallel",
        )
        (owner,) = found["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", leader["metadata"]["uid"])


def _running(ready: str) -> JsonObject:
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}


def _owner(api_version: str, kind: str, owner: JsonObject) -> JsonObject:
    metadata = owner["metadata"]
    reference = {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**reference, "controller": True, "blockOwnerDeletion": True}


def _merged(one: JsonObject, other: JsonObject) -> JsonObject:
    result = dict(one)
    for key, value in other.items():
        known = result.get(key)
        result[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


@asynccontextmanager
async def bare(subject: JsonObject | None, *, gang: str = "") -> AsyncIterator[World]:
    """The set, or nothing yet, and its leaders; no group is ready."""
    async with Cluster(
        extra={"operator": lambda manager: register(manager, gang_scheduler=gang, rollouts=False)},
        contents=installed(rollouts=False),
    ) as cluster:
        world = World(cluster)
        if subject is not None:
            await world.create(subject)
        yield world


def pod_group_definition(group: str, version: str) -> JsonObject:
    """A stand-in for a gang scheduler's own definition: any content."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
            "scope": "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


async def install(cluster: Cluster, definition: JsonObject) -> None:
    await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
