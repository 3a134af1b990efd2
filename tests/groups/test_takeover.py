"""U1: objects as another implementation of LeaderWorkerSets has left them are adopted as they are.

The objects are written out here field by field, as the behaviour describes them, and not built by our own functions.
The same is done with the released manager itself in tests/kubernetes/test_takeover.py.
"""

import copy

import pytest
from tests.groups.bare import NAMESPACE, World, bare

from kohort.admission.webhook_configurations import MUTATING, VALIDATING
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    LEADER_WORKER_SETS,
    MUTATING_WEBHOOKS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.rules.group_identity import group_key

PREFIX = "leaderworkerset.sigs.k8s.io"
IMAGE = "docker.io/nginxinc/nginx-unprivileged:1.27"
LEADER = {"spec": {"containers": [{"name": "leader", "image": IMAGE, "resources": {}}]}}
WORKER_CONTAINER = {"name": "worker", "image": IMAGE, "ports": [{"containerPort": 8080, "protocol": "TCP"}]}
WORKER = {"spec": {"containers": [{**WORKER_CONTAINER, "resources": {}}]}}
ROLLING = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
SET: JsonObject = {
    "metadata": {"name": "test-sample", "labels": {"team": "a"}, "annotations": {"note": "b"}},
    "spec": {
        "replicas": 2,
        "startupPolicy": "LeaderCreated",
        "networkConfig": {"subdomainPolicy": "Shared"},
        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": ROLLING},
        "leaderWorkerTemplate": {
            "size": 2,
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": LEADER,
            "workerTemplate": WORKER,
        },
    },
}
PATCHED_TEMPLATE = {"$patch": "replace", **SET["spec"]["leaderWorkerTemplate"]}
NETWORK = {"$patch": "replace", "subdomainPolicy": "Shared"}
KEY = "7bdcf6cbd6"
"""The key that the behaviour gives for this very template."""


def owner(kind: str, api_version: str, one: JsonObject) -> list[JsonObject]:
    metadata = one["metadata"]
    reference = {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return [{**reference, "controller": True, "blockOwnerDeletion": True}]


def revision_data(*, old_library: bool) -> JsonObject:
    """Libraries before 1.34 wrote `creationTimestamp: null` into every template."""
    template = copy.deepcopy(PATCHED_TEMPLATE)
    for name in ("leaderTemplate", "workerTemplate"):
        template[name]["metadata"] = {"creationTimestamp": None} if old_library else {}
    return {"spec": {"leaderWorkerTemplate": template, "networkConfig": NETWORK}}


class Upstream:
    """Writes what the other implementation would have written."""

    def __init__(self, world: World, key: str = KEY) -> None:
        self.client = world.cluster.client
        self.key = key

    async def write(self, *, old_library: bool, revision: bool = True) -> None:
        group_set = await self.client.create(LEADER_WORKER_SETS, SET, NAMESPACE)
        owned = owner("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", group_set)
        if revision:
            await self._revision(owned, revision_data(old_library=old_library))
        await self._service(owned)
        leaders = await self._leader_set(owned)
        for index in range(2):
            leader = await self._pod(leaders, f"test-sample-{index}", index)
            workers = await self._worker_set(leader, index)
            await self._pod(workers, f"test-sample-{index}-1", index, number=1)

    async def _revision(self, owned: list[JsonObject], data: JsonObject) -> None:
        labels = {f"{PREFIX}/name": "test-sample", f"{PREFIX}/template-revision-hash": self.key}
        metadata = {"name": f"test-sample-{KEY}-1", "labels": labels, "ownerReferences": owned}
        body = {"metadata": metadata, "data": data, "revision": 1}
        await self.client.create(CONTROLLER_REVISIONS, body, NAMESPACE)

    async def _service(self, owned: list[JsonObject]) -> None:
        name = {f"{PREFIX}/name": "test-sample"}
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": name}
        body = {"metadata": {"name": "test-sample", "labels": name, "ownerReferences": owned}, "spec": spec}
        await self.client.create(SERVICES, body, NAMESPACE)

    async def _leader_set(self, owned: list[JsonObject]) -> JsonObject:
        identity = {f"{PREFIX}/name": "test-sample", f"{PREFIX}/worker-index": "0"}
        labels = {f"{PREFIX}/name": "test-sample", f"{PREFIX}/template-revision-hash": self.key}
        template = {
            "metadata": {"labels": {**identity, **labels}, "annotations": {f"{PREFIX}/size": "2"}},
            "spec": {"containers": [{"name": "leader", "image": IMAGE}]},
        }
        body = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {
                "name": "test-sample",
                "namespace": NAMESPACE,
                "labels": {"team": "a", **labels},
                "annotations": {"note": "b", f"{PREFIX}/replicas": "2"},
                "ownerReferences": owned,
            },
            "spec": {
                "serviceName": "test-sample",
                "replicas": 2,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": identity},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}},
                "template": template,
            },
        }
        made: JsonObject = await self.client.apply(STATEFUL_SETS, body, field_manager="lws", force=True)
        await self._set_status(STATEFUL_SETS, "test-sample", {"replicas": 2, "readyReplicas": 2})
        return made

    async def _worker_set(self, leader: JsonObject, index: int) -> JsonObject:
        labels = leader["metadata"]["labels"]
        group = {f"{PREFIX}/{key}": labels[f"{PREFIX}/{key}"] for key in ("name", "group-index", "group-key")}
        every = {**group, f"{PREFIX}/template-revision-hash": self.key}
        notes = {f"{PREFIX}/size": "2", f"{PREFIX}/leader-name": f"test-sample-{index}"}
        body = {
            "metadata": {
                "name": f"test-sample-{index}",
                "labels": {"team": "a", **every},
                "annotations": {"note": "b"},
                "ownerReferences": owner("Pod", "v1", leader),
            },
            "spec": {
                "serviceName": "test-sample",
                "replicas": 1,
                "podManagementPolicy": "Parallel",
                "ordinals": {"start": 1},
                "selector": {"matchLabels": group},
                "template": {
                    "metadata": {"labels": every, "annotations": notes},
                    "spec": {"containers": [WORKER_CONTAINER]},
                },
            },
        }
        made: JsonObject = await self.client.create(STATEFUL_SETS, body, NAMESPACE)
        counters = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        status = {**counters, "currentRevision": "r", "updateRevision": "r"}
        await self._set_status(STATEFUL_SETS, f"test-sample-{index}", status)
        return made

    async def _pod(self, made_by: JsonObject, name: str, index: int, number: int = 0) -> JsonObject:
        template = made_by["spec"]["template"]
        identity = {f"{PREFIX}/worker-index": str(number), f"{PREFIX}/group-index": str(index)}
        key = {f"{PREFIX}/group-key": group_key(NAMESPACE, f"test-sample-{index}")}
        metadata = {
            "name": name,
            "labels": {**template["metadata"]["labels"], **identity, **key},
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": owner("StatefulSet", "apps/v1", made_by),
        }
        made: JsonObject = await self.client.create(PODS, {"metadata": metadata, "spec": template["spec"]}, NAMESPACE)
        await self._set_status(PODS, name, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
        return made

    async def _set_status(self, resource: Resource, name: str, status: JsonObject) -> None:
        await self.client.patch(resource, name, NAMESPACE, {"status": status}, subresource="status")


def picture(world: World) -> JsonObject:
    """Everything that must stay as it is."""
    return {
        "pods": {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.objects(PODS)},
        "sets": {
            one["metadata"]["name"]: (one["metadata"]["generation"], one["spec"])
            for one in world.objects(STATEFUL_SETS)
        },
        "services": {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in world.objects(SERVICES)},
    }


async def without_operator(world: World) -> None:
    await world.cluster.parts["operator"].crash()
    await world.cluster.client.delete(MUTATING_WEBHOOKS, MUTATING)
    await world.cluster.client.delete(VALIDATING_WEBHOOKS, VALIDATING)


@pytest.mark.parametrize("old_library", [False, True], ids=["U1", "U1-revisions-of-an-older-library"])
async def test_everything_is_adopted_as_it_is(old_library: bool) -> None:
    async with bare(None) as world:
        await without_operator(world)
        await Upstream(world).write(old_library=old_library)
        before = picture(world)
        await world.cluster.parts["operator"].restart()
        await world.cluster.settle(quiet=30)
        assert picture(world) == before
        assert [one["metadata"]["name"] for one in world.revisions] == [f"test-sample-{KEY}-1"]
        assert world.subject["status"]["updateRevision"] == KEY
        assert (world.pair, world.true_conditions) == ((2, 2), {"Available"})


async def test_a_set_from_before_there_were_revisions_keeps_its_key() -> None:
    async with bare(None) as world:
        await without_operator(world)
        await Upstream(world, key="from-long-ago").write(old_library=True, revision=False)
        before = picture(world)
        await world.cluster.parts["operator"].restart()
        await world.cluster.settle(quiet=30)
        assert picture(world) == before
        (made,) = world.revisions
        assert made["metadata"]["labels"][f"{PREFIX}/template-revision-hash"] == "from-long-ago"
        assert made["metadata"]["name"] == f"test-sample-{KEY}-1"
        assert (world.pair, world.true_conditions) == ((2, 2), {"Available"})


async def test_work_goes_on_after_the_change_of_hands() -> None:
    async with bare(None) as world:
        await without_operator(world)
        await Upstream(world).write(old_library=True)
        await world.cluster.parts["operator"].restart()
        await world.cluster.settle(quiet=30)
        image = [{"name": "worker", "image": "new:2"}]
        await world.edit({"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": image}}}}})
        assert (world.partition, world.pair) == (1, (2, 0))
        await world.done(1, 0)
        assert (world.pair, world.true_conditions) == ((2, 2), {"Available"})
