"""U1 with recordings: what a released LeaderWorkerSet manager has made on real Kubernetes, put into our store byte for
byte, is adopted as it is. `tests/kubernetes/recording.py` has recorded it.

One thing is written besides the status of the set: its labels and annotations go to the leader StatefulSet, which that
release did not do yet. Not one template changes, and no pod, worker StatefulSet, Service or revision is touched.
"""

import copy
import json
from pathlib import Path

import msgspec
import pytest
from tests.groups.bare import NAMESPACE, World, bare

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.revisions import Revision, as_written, build, content
from kohort.kube.resources import (
    CONTROLLER_REVISIONS,
    LEADER_WORKER_SETS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.canonical_form import encode
from kohort.rules.group_template import content_hash

RECORDINGS = sorted((Path(__file__).parent / "recorded").glob("*.json"))
KINDS = {"revisions": CONTROLLER_REVISIONS, "statefulSets": STATEFUL_SETS, "pods": PODS, "services": SERVICES}


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.stem)
def recording(request: pytest.FixtureRequest) -> JsonObject:
    found: JsonObject = json.loads(request.param.read_text())
    return found


def test_there_are_recordings() -> None:
    assert {"plain", "rich", "subgroups", "exclusive", "held-resize", "resized", "claims"} <= {
        path.stem for path in RECORDINGS
    }


def own_revisions(recording: JsonObject) -> list[JsonObject]:
    """Oldest first, without those that the StatefulSets have of themselves."""
    found = [
        one for one in recording["revisions"] if one["metadata"]["ownerReferences"][0]["kind"] == "LeaderWorkerSet"
    ]
    return sorted(found, key=lambda one: one["revision"])


def test_we_give_every_revision_the_key_that_the_release_gave_it(recording: JsonObject) -> None:
    group_set = msgspec.convert(recording["set"], LeaderWorkerSet)
    for one in own_revisions(recording):
        revision = msgspec.convert(one, Revision)
        assert content(revision.applied_to(group_set)) == revision.data
        assert content_hash(revision.data) == revision.key
    assert content(group_set) == own_revisions(recording)[-1]["data"]


def test_we_write_every_revision_in_the_bytes_that_the_release_wrote(recording: JsonObject) -> None:
    """A release up to 0.8 compares them. The recordings keep the order in which the API server gave the members."""
    group_set = msgspec.convert(recording["set"], LeaderWorkerSet)
    for one in own_revisions(recording):
        made = build(msgspec.convert(one, Revision).applied_to(group_set), [])
        assert msgspec.json.encode(as_written(made)["data"]) == encode(one["data"])
        assert json.dumps(msgspec.json.decode(msgspec.json.encode(as_written(made)["data"]))) == json.dumps(one["data"])


async def test_it_is_adopted_as_it_is(recording: JsonObject) -> None:
    async with bare(None) as world:
        await world.cluster.parts["operator"].crash()
        await _put(world, LEADER_WORKER_SETS, recording["set"])
        for kind, resource in KINDS.items():
            for one in recording[kind]:
                await _put(world, resource, one)
        before = {kind: _stored(world, resource) for kind, resource in KINDS.items()}
        await world.cluster.parts["operator"].restart()
        await world.cluster.settle(quiet=30)
        after = {kind: _stored(world, resource) for kind, resource in KINDS.items()}
        leaders, leaders_before = (one["statefulSets"].pop("llm") for one in (after, before))
        assert after == before
        assert leaders["spec"] == leaders_before["spec"]
        assert leaders["metadata"]["generation"] == leaders_before["metadata"]["generation"]
        _assert_status(world.find(LEADER_WORKER_SETS, "llm") or {}, recording)


def _assert_status(group_set: JsonObject, recording: JsonObject) -> None:
    assert group_set["spec"] == recording["set"]["spec"]
    status, told = group_set["status"], recording["set"]["status"]
    for counter in ("replicas", "readyReplicas", "updatedReplicas", "observedGeneration", "hpaPodSelector"):
        assert status.get(counter) == told.get(counter), counter
    assert _true(status) == _true(told) == {"Available"}
    assert status["updateRevision"] == own_revisions(recording)[-1]["metadata"]["labels"][group_labels.REVISION]


async def _put(world: World, resource: Resource, obj: JsonObject) -> None:
    """Into the store, past everything that would judge or change it."""
    metadata = obj["metadata"]
    bucket = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
    await world.cluster.server.store.write(
        bucket, NAMESPACE, metadata["name"], copy.deepcopy(obj), expected=0, labels=metadata.get("labels") or {}
    )


def _stored(world: World, resource: Resource) -> dict[str, JsonObject]:
    """Every object with its resource version: a write that changes nothing else would show."""
    found = [one for one in world.objects(resource) if one["metadata"]["name"].startswith("llm")]
    return {one["metadata"]["name"]: one for one in found}


def _true(status: JsonObject) -> set[str]:
    return {one["type"] for one in status["conditions"] if one["status"] == "True"}
