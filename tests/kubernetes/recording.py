"""Records what a released LeaderWorkerSet manager makes of some sets, for tests/groups/test_recorded.py.

    python -m tests.kubernetes.recording tests/groups/recorded

The manager runs on a real control plane with simulated nodes until every set is at rest; then everything that belongs
to a set is written down as the API server returns it. Who manages which field is kept where it matters for a change of
hands: of StatefulSets.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from tests.builders import LeaderWorkerSet, lws
from tests.kubernetes.controlplane import ControlPlane, control_plane
from tests.kubernetes.operators import administrator
from tests.kubernetes.upstream import upstream
from tools.kubernetes import build as kubernetes
from tools.lws import build as releases

from kohort.cluster.simulation.registration import register as register_nodes
from kohort.kube.client import Client
from kohort.kube.errors import InternalError
from kohort.kube.kubeconfig import load
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    LEADER_WORKER_SETS,
    PERSISTENT_VOLUMES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels

SPACE = "default"
PATIENCE = 300.0
TEMPLATE = "spec.leaderWorkerTemplate"
RACK = "example.com/rack"
_GATE = "--feature-gates=MaxUnavailableStatefulSet=true"
FLAGS = {"kube-apiserver": [_GATE], "kube-controller-manager": [_GATE]}
"""A field of StatefulSets that our own server has, too."""
KINDS: Mapping[str, Resource] = {
    "revisions": CONTROLLER_REVISIONS,
    "statefulSets": STATEFUL_SETS,
    "pods": PODS,
    "services": SERVICES,
}
ROLLING = "spec.rolloutStrategy"
PROBE = {"httpGet": {"path": "/health", "port": 8080}, "initialDelaySeconds": 5, "periodSeconds": 10}
LEADER = {
    "metadata": {"labels": {"role": "leader"}, "annotations": {"note": "a<b>&c"}},
    "spec": {
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": {},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "initContainers": [{"name": "fetch", "image": "fetch:1", "command": ["true"], "restartPolicy": "Always"}],
        "containers": [
            {
                "name": "leader",
                "image": "leader:1",
                "args": ["--group=$(LWS_GROUP_SIZE)"],
                "env": [
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "t", "key": "k", "optional": True}}},
                ],
                "ports": [{"containerPort": 8080}],
                "resources": {"requests": {"cpu": "0.1", "memory": "1024Mi"}, "limits": {"cpu": "1000m"}},
                "livenessProbe": PROBE,
                "readinessProbe": {"grpc": {"port": 8081}},
                "startupProbe": {"tcpSocket": {"port": "http"}, "failureThreshold": 30},
                "securityContext": {"privileged": False, "runAsUser": 0},
                "volumeMounts": [{"name": "cache", "mountPath": "/cache", "readOnly": False}],
                "stdin": False,
            }
        ],
        "volumes": [
            {"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "1000Mi"}},
            {"name": "conf", "configMap": {"name": "c", "defaultMode": 420, "optional": True}},
        ],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": None}
        ],
    },
}


def rolling(**values: int) -> JsonObject:
    return {"type": "RollingUpdate", "rollingUpdateConfiguration": values}


def worker(**container: object) -> JsonObject:
    return {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "worker:1", **container}]}}


def sets() -> Mapping[str, LeaderWorkerSet]:
    """By name of the recording. Each is called the same, so that a test needs no names."""
    base = lws("llm", SPACE).replicas(2).size(2).workers(worker())
    labels = {"team": "a", group_labels.NAME: "loses"}
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "manual",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    mounting = worker(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    return {
        "plain": base,
        "rich": base.leader(LEADER)
        .but("metadata.labels", labels)
        .but("metadata.annotations", {"note": "b"})
        .but(ROLLING, rolling(maxSurge=1, maxUnavailable=1)),
        "subgroups": base.size(5)
        .but(f"{TEMPLATE}.subGroupPolicy", {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"})
        .but("metadata.annotations", {group_labels.SUBGROUP_EXCLUSIVE: "kubernetes.io/hostname"})
        .but(f"{TEMPLATE}.restartPolicy", "RecreateGroupAfterStart"),
        "exclusive": base.but("metadata.annotations", {group_labels.EXCLUSIVE: RACK})
        .but("spec.networkConfig", {"subdomainPolicy": group_labels.UNIQUE})
        .but("spec.startupPolicy", group_labels.LEADER_READY),
        "held-resize": base.but(ROLLING, rolling(partition=1)),
        "resized": base,
        "claims": base.workers(mounting)
        .but(f"{TEMPLATE}.volumeClaimTemplates", [claim])
        .but(f"{TEMPLATE}.persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Delete", "whenScaled": "Retain"}),
    }


RESIZED: Mapping[str, list[int]] = {"held-resize": [2, 3], "resized": [3, 3]}
"""Sets that become groups of three after they have settled, and then how large their groups are."""


class Recorder:
    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder

    async def record(self, name: str, subject: JsonObject) -> None:
        await self._create(subject)
        size = subject["spec"]["leaderWorkerTemplate"]["size"]
        await self._pods_ready([size, size])
        if name in RESIZED:
            body = {"spec": {"leaderWorkerTemplate": {"size": 3}}}
            await self._client.patch(LEADER_WORKER_SETS, "llm", SPACE, body)
            await self._pods_ready(RESIZED[name])
        await self._available()
        found = {kind: [_told(kind, one) for one in await self._owned(KINDS[kind])] for kind in KINDS}
        document = {"release": releases.VERSION, "set": await self._set(), **found}
        (self._folder / f"{name}.json").write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
        await self._client.delete(LEADER_WORKER_SETS, "llm", SPACE, propagation="Foreground")
        await self._until(self._gone)

    async def _create(self, subject: JsonObject) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await self._client.create(LEADER_WORKER_SETS, subject, SPACE)
                except InternalError:
                    await asyncio.sleep(0.5)
                else:
                    return

    async def _set(self) -> JsonObject:
        found: JsonObject = await self._client.get(LEADER_WORKER_SETS, "llm", SPACE)
        found["metadata"].pop("managedFields", None)
        return found

    async def _owned(self, resource: Resource) -> list[JsonObject]:
        return [*(await self._client.list(resource, SPACE, label_selector=f"{group_labels.NAME}=llm")).items]

    async def _pods_ready(self, sizes: list[int]) -> None:
        """All pods of groups of these sizes, and no others."""

        async def ready() -> bool:
            pods = await self._owned(PODS)
            found = [[one for one in pods if _group(one) == index and _is_ready(one)] for index in range(len(sizes))]
            fitting = all(one["metadata"]["annotations"][group_labels.SIZE] == str(sizes[_group(one)]) for one in pods)
            return fitting and [len(members) for members in found] == sizes and len(pods) == sum(sizes)

        await self._until(ready)

    async def _available(self) -> None:
        async def available() -> bool:
            status = (await self._set()).get("status") or {}
            conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
            return conditions.get("Available") == "True" and status.get("readyReplicas") == 2

        await self._until(available)

    async def _gone(self) -> bool:
        return not await self._owned(PODS) and await self._client.find(LEADER_WORKER_SETS, "llm", SPACE) is None

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not await condition():
                await asyncio.sleep(0.2)


def _group(pod: JsonObject) -> int:
    return int(pod["metadata"]["labels"][group_labels.GROUP_INDEX])


def _is_ready(pod: JsonObject) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or ())


def _told(kind: str, obj: JsonObject) -> JsonObject:
    if kind != "statefulSets":
        obj["metadata"].pop("managedFields", None)
    return obj


async def record(plane: ControlPlane, directory: Path, folder: Path) -> None:
    nodes = Client(load(plane.kubeconfig), user_agent="kohort-nodes")
    manager = Manager(nodes, name="nodes")
    register_nodes(manager, nodes=8, topology={RACK: 4})
    async with (
        administrator(plane) as client,
        manager.running(),
        upstream(client, plane.kubeconfig, directory / "upstream"),
    ):
        for number in range(4):
            await client.create(PERSISTENT_VOLUMES, _volume(f"volume-{number}"))
        recorder = Recorder(client, folder)
        for name, subject in sets().items():
            print(name, flush=True)
            await recorder.record(name, subject)
    await nodes.close()


def _volume(name: str) -> JsonObject:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "manual",
        "hostPath": {"path": f"/tmp/{name}"},
    }
    return {"metadata": {"name": name}, "spec": spec}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    releases.build()
    with tempfile.TemporaryDirectory(prefix="kohort-recording-") as name:
        components = ("kube-controller-manager", "kube-scheduler")
        with control_plane(kubernetes.build(), Path(name) / "plane", *components, flags=FLAGS) as plane:
            asyncio.run(record(plane, Path(name), folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
