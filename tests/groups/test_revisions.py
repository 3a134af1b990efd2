"""Revisions hash and compare as other implementations do."""

import json

import msgspec
import pytest
from tests.builders import lws
from tests.groups.bare import bare
from tests.groups.test_features import new_image
from tests.groups.test_lifecycle import create, groups_cluster, images, patch, settled

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.revisions import Revision, build, by_key, content, same, surplus
from kohort.kube.resources import CONTROLLER_REVISIONS
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rules import group_labels
from kohort.rules.canonical_form import encode
from kohort.rules.group_template import content_hash
from kohort.rules.safe_text import fnv1

CANONICAL = (
    '{"spec":{"leaderWorkerTemplate":{"$patch":"replace","leaderTemplate":{"metadata":{},"spec":{"containers":[{"image":'
    '"docker.io/nginxinc/nginx-unprivileged:1.27","name":"leader","resources":{}}]}},"restartPolicy":'
    '"RecreateGroupOnPodRestart","size":2,"workerTemplate":{"metadata":{},"spec":{"containers":[{"image":'
    '"docker.io/nginxinc/nginx-unprivileged:1.27","name":"worker","ports":[{"containerPort":8080,"protocol":"TCP"}],'
    '"resources":{}}]}}},"networkConfig":{"$patch":"replace","subdomainPolicy":"Shared"}}}'
)


def group_set(**changes: Json) -> LeaderWorkerSet:
    template: JsonObject = {
        "size": 2,
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": {
            "spec": {"containers": [{"name": "leader", "image": "docker.io/nginxinc/nginx-unprivileged:1.27"}]}
        },
        "workerTemplate": {
            "spec": {
                "containers": [
                    {
                        "name": "worker",
                        "image": "docker.io/nginxinc/nginx-unprivileged:1.27",
                        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                        "resources": {},
                    }
                ]
            }
        },
    }
    spec: JsonObject = {"replicas": 2, "leaderWorkerTemplate": {**template, **changes}}
    return LeaderWorkerSet(metadata=ObjectMeta(name="llm", namespace="default", uid="u"), spec=spec)


def worker(**fields: Json) -> JsonObject:
    return {"spec": {"containers": [{"name": "worker", "image": "x", **fields}]}}


def stored(subject: LeaderWorkerSet, number: int = 1) -> Revision:
    body = {**build(subject, []), "revision": number}
    return msgspec.convert(body, Revision)


def test_the_canonical_text_and_its_key() -> None:
    data = content(group_set())
    assert encode(data).decode() == CANONICAL
    assert fnv1(CANONICAL.encode()) == 3687927682
    assert content_hash(data) == "7bdcf6cbd6"


def container_of(**fields: Json) -> JsonObject:
    found: JsonObject = content(group_set(workerTemplate=worker(**fields)))["spec"]["leaderWorkerTemplate"]
    result: JsonObject = found["workerTemplate"]["spec"]["containers"][0]
    return {key: value for key, value in result.items() if key not in ("name", "image", "resources")}


def test_zero_values_go_or_stay_as_go_would_have_it() -> None:
    assert container_of(stdin=False, tty=False, env=[], command=None) == {}
    assert container_of(securityContext={"runAsUser": 0, "privileged": False}) == {
        "securityContext": {"runAsUser": 0, "privileged": False}
    }
    probe = {"httpGet": {"port": 80}, "initialDelaySeconds": 0, "terminationGracePeriodSeconds": 0}
    assert container_of(livenessProbe=probe) == {
        "livenessProbe": {"httpGet": {"port": 80}, "terminationGracePeriodSeconds": 0}
    }
    assert container_of(envFrom=[{"secretRef": {"name": "", "optional": False}}]) == {
        "envFrom": [{"secretRef": {"optional": False}}]
    }
    mount = {"name": "v", "mountPath": "/v", "readOnly": False}
    assert container_of(volumeMounts=[mount]) == {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}


def test_quantities_are_canonical() -> None:
    requests = {"cpu": "1000m", "memory": "1024Mi", "x": "0.5", "y": "100000"}
    template = content(group_set(workerTemplate=worker(resources={"requests": requests})))
    found = template["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["resources"]
    assert found == {"requests": {"cpu": "1", "memory": "1Gi", "x": "500m", "y": "100k"}}


def test_html_characters_are_escaped() -> None:
    assert encode({"a": "<b>&\u2028"}) == b'{"a":"\\u003cb\\u003e\\u0026\\u2028"}'


def test_content_counts_and_not_its_spelling() -> None:
    revision = stored(group_set())
    assert same(group_set(), revision)
    old = msgspec.structs.replace(revision)
    old.data["spec"]["leaderWorkerTemplate"]["workerTemplate"]["metadata"] = {"creationTimestamp": None}
    assert same(group_set(), old)
    without_network = msgspec.structs.replace(revision)
    del without_network.data["spec"]["networkConfig"]
    assert same(group_set(), without_network)
    assert not same(group_set(workerTemplate=worker()), revision)
    assert not same(group_set(size=3), revision)


def test_the_resize_policy_is_no_part_of_a_revision() -> None:
    assert content(group_set(resizePolicy="Recreate")) == content(group_set())


def test_names_and_labels_of_a_revision() -> None:
    first = build(group_set(), [])
    assert first["metadata"]["name"] == "llm-7bdcf6cbd6-1"
    assert first["metadata"]["labels"] == {group_labels.NAME: "llm", group_labels.REVISION: "7bdcf6cbd6"}
    adopted = build(group_set(), [stored(group_set(), 4)], key="foreign")
    assert adopted["metadata"]["name"] == "llm-7bdcf6cbd6-5"
    assert adopted["metadata"]["labels"][group_labels.REVISION] == "foreign"


def test_lookups() -> None:
    one, two = stored(group_set(), 1), stored(group_set(), 2)
    assert by_key([two, one], "7bdcf6cbd6") is two
    assert by_key([one], "") is None
    old = stored(group_set(size=3), 3)
    assert surplus([one, old], used={"7bdcf6cbd6"}, limit=0) == [old]
    assert surplus([one, old], used={"7bdcf6cbd6"}, limit=10) == []


async def test_the_cluster_stores_the_bytes_that_upstream_writes() -> None:
    """Keys are sorted on every level: LeaderWorkerSet 0.8 and earlier compare the bytes."""
    async with bare(lws("llm").replicas(1).size(2)) as world:
        await world.cluster.settle()
        made = [one for one in world.objects(CONTROLLER_REVISIONS) if "leaderWorkerTemplate" in one["data"]["spec"]]
        assert len(made) == 1
        assert json.dumps(made[0]["data"], separators=(",", ":")).encode() == encode(made[0]["data"])


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"spec": None},
        {"spec": []},
        {"spec": {"leaderWorkerTemplate": None}},
        {"spec": {"leaderWorkerTemplate": {"workerTemplate": "text"}}},
        {"spec": {"leaderWorkerTemplate": {"workerTemplate": worker(resources={"requests": {"cpu": "1e9999"}})}}},
        {"spec": {"leaderWorkerTemplate": {}, "networkConfig": "text"}},
    ],
)
async def test_a_revision_without_a_template_stops_no_set(data: JsonObject) -> None:
    async with groups_cluster() as cluster:
        await create(cluster, lws("llm").replicas(1).size(2))
        await cluster.until(lambda: settled(cluster, 1))
        metadata = {
            "name": "llm-forged",
            "namespace": "default",
            "labels": {group_labels.NAME: "llm", group_labels.REVISION: "forged"},
        }
        await cluster.client.create(CONTROLLER_REVISIONS, {"metadata": metadata, "revision": 9, "data": data})
        await patch(cluster, "llm", new_image("new:2"))
        await cluster.until(lambda: settled(cluster, 1) and images(cluster) == {"new:2"})


def test_what_the_operator_writes_is_readable() -> None:
    assert stored(group_set()).is_readable
