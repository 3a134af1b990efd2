"""For every shape of template, we would write the revision that the released LeaderWorkerSet manager writes: the same
key and the same bytes. A difference would roll every group on the way there or back."""

import asyncio
import json
import shutil
from pathlib import Path

import msgspec
import pytest
from tests.kubernetes.controlplane import control_plane
from tests.kubernetes.operators import administrator
from tests.kubernetes.test_groups import PATIENCE
from tests.kubernetes.upstream import upstream
from tools.lws import build

from kohort.groups import revisions
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.kube.client import Client
from kohort.kube.errors import InternalError
from kohort.kube.resources import CONTROLLER_REVISIONS, LEADER_WORKER_SETS
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels

SPACE = "default"


def main(**fields: Json) -> JsonObject:
    return {"containers": [{"name": "c", "image": "i:1", **fields}]}


def pod(spec: JsonObject | None = None, **metadata: Json) -> JsonObject:
    return {"metadata": metadata, "spec": {**main(), **(spec or {})}}


def claims(**fields: Json) -> JsonObject:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    mounted = pod(main(volumeMounts=[{"name": "d", "mountPath": "/d"}]))
    return {
        "workerTemplate": mounted,
        "leaderTemplate": mounted,
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": claim}],
        **fields,
    }


PROBES: JsonObject = {
    "readinessProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 5},
    "livenessProbe": {"tcpSocket": {"port": 80}},
    "startupProbe": {"grpc": {"port": 1}},
}
VOLUMES: JsonObject = {
    "volumes": [
        {"name": "e", "emptyDir": {}},
        {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "h", "hostPath": {"path": "/x"}},
        {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {"name": "c", "configMap": {"name": "a", "defaultMode": 420}},
    ]
}
SHAPES: dict[str, JsonObject] = {
    "plain": {},
    "one-pod": {"size": 1},
    "two-templates": {"leaderTemplate": pod()},
    "labels": {"workerTemplate": pod(labels={"b": "2", "a": "1"}, annotations={"z": "é<>&\u2028", "a": "x\ny"})},
    "no-labels": {"workerTemplate": pod(labels={}, creationTimestamp=None, name="x")},
    "amounts": {
        "workerTemplate": pod(
            main(
                resources={
                    "requests": {"cpu": "1000m", "memory": "1024Mi"},
                    "limits": {"cpu": "1.50", "memory": "3e9", "nvidia.com/gpu": 8, "ephemeral-storage": "128974848"},
                }
            )
        )
    },
    "numbers": {"workerTemplate": pod(main(resources={"requests": {"cpu": 2}}))},
    "ports": {"workerTemplate": pod(main(ports=[{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}]))},
    "variables": {
        "workerTemplate": pod(
            main(
                env=[
                    {"name": "A"},
                    {"name": "B", "value": ""},
                    {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ]
            )
        )
    },
    "probes": {"workerTemplate": pod(main(**PROBES))},
    "empty": {
        "workerTemplate": pod(
            {**main(resources={}, env=[], args=[]), "volumes": [], "securityContext": {}, "tolerations": []}
        )
    },
    "false": {"workerTemplate": pod({"hostNetwork": False, "automountServiceAccountToken": False})},
    "defaults": {"workerTemplate": pod({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst"})},
    "zero": {"workerTemplate": pod({"terminationGracePeriodSeconds": 0, "priorityClassName": ""})},
    "text": {"workerTemplate": pod(main(command=["sh", "-c", 'echo "$X" && true > <file>']))},
    "volumes": {"workerTemplate": pod(VOLUMES)},
    "init": {"workerTemplate": pod({"initContainers": [{"name": "s", "image": "i", "restartPolicy": "Always"}]})},
    "pod-level": {"workerTemplate": pod({"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}}})},
    "subgroups": {"size": 4, "subGroupPolicy": {"subGroupSize": 2}},
    "leader-excluded": {
        "size": 5,
        "subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"},
    },
    "no-restarts": {"restartPolicy": "None"},
    "claims": claims(),
    "claims-deleted": claims(persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"}),
}
SPECS: dict[str, JsonObject] = {
    "unique-names": {"networkConfig": {"subdomainPolicy": group_labels.UNIQUE}},
    "leader-first": {"startupPolicy": "LeaderReady"},
}


def group_set(name: str) -> JsonObject:
    template = {"size": 2, "workerTemplate": pod(), **SHAPES.get(name, {})}
    return {
        "apiVersion": LEADER_WORKER_SETS.api_version,
        "kind": LEADER_WORKER_SETS.kind,
        "metadata": {"name": name},
        "spec": {"replicas": 1, "leaderWorkerTemplate": template, **SPECS.get(name, {})},
    }


async def created(client: Client, body: JsonObject) -> None:
    """The manager is not ready at once; it is when its webhooks answer."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.create(LEADER_WORKER_SETS, body, SPACE)
            except InternalError:
                await asyncio.sleep(0.2)
            else:
                return


async def revision_of(client: Client, name: str) -> JsonObject:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await client.list(CONTROLLER_REVISIONS, SPACE, label_selector=f"{group_labels.NAME}={name}")
            if found.items:
                (revision,) = found.items
                return revision
            await asyncio.sleep(0.2)


async def test_every_shape_of_template_has_the_same_key_and_bytes(binaries: Path, tmp_path: Path) -> None:
    if build.find() is None and shutil.which("go") is None:
        pytest.skip("no LeaderWorkerSet manager to compare with: install Go to build one")
    build.build()
    with control_plane(binaries, tmp_path / "plane") as plane:
        async with administrator(plane) as client, upstream(client, plane.kubeconfig, tmp_path / "upstream"):
            for name in (*SHAPES, *SPECS):
                await created(client, group_set(name))
            for name in (*SHAPES, *SPECS):
                theirs = await revision_of(client, name)
                stored = msgspec.convert(await client.get(LEADER_WORKER_SETS, name, SPACE), LeaderWorkerSet)
                ours = revisions.as_written(revisions.build(stored, []))
                written = json.loads(msgspec.json.encode(ours["data"]))
                assert json.dumps(written) == json.dumps(theirs["data"]), name
                key = group_labels.REVISION
                assert ours["metadata"]["labels"][key] == theirs["metadata"]["labels"][key], name
