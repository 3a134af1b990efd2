"""Snapshots of sets, one line each."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace
from tests.builders import lws, pod

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.revisions import Revision, build
from kohort.groups.status import tally
from kohort.inspection.snapshot import Snapshot
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.rules import group_labels

KEY = "newkey"
OLD = "oldkey"
NOTHING: Mapping[str, str] = {}


def member(
    group: int, worker: int = 0, *, ready: bool = True, revision: str = KEY, size: int = 2, **status: Json
) -> Pod:
    """A pod of a group of set `llm`, running on a node unless told otherwise."""
    name = f"llm-{group}" if worker == 0 else f"llm-{group}-{worker}"
    labels = {
        group_labels.NAME: "llm",
        group_labels.GROUP_INDEX: str(group),
        group_labels.WORKER_INDEX: str(worker),
        group_labels.REVISION: revision,
    }
    built = pod(name).labels(labels).on(f"node-{group}").ready(ready)
    document: JsonObject = dict(
        built.but("metadata.uid", f"uid-{name}").but("metadata.annotations", {group_labels.SIZE: str(size)})
    )
    document["metadata"]["annotations"][group_labels.LEADER_NAME] = f"llm-{group}"
    if worker:
        owner = {"kind": "StatefulSet", "name": f"llm-{group}", "uid": _workers_uid(group), "controller": True}
        document["metadata"]["ownerReferences"] = [owner]
    document["status"] = {**document["status"], **status}
    return msgspec.convert(document, Pod)


def _workers_uid(group: int) -> str:
    return f"uid-workers-{group}"


def without_node(found: Pod, message: str = "") -> Pod:
    condition: JsonObject = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    status: JsonObject = {"phase": "Pending", **({"conditions": [condition]} if message else {})}
    document: JsonObject = msgspec.to_builtins(found)
    document["spec"].pop("nodeName", None)
    return msgspec.convert({**document, "status": status}, Pod)


def waiting(found: Pod, reason: str, message: str = "", phase: str = "Pending", **more: Json) -> Pod:
    state = {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}, **more}
    document: JsonObject = msgspec.to_builtins(found)
    return msgspec.convert({**document, "status": {"phase": phase, "containerStatuses": [state]}}, Pod)


def workers(group: int, *, available: int = 1, replicas: int = 1, revision: str = KEY) -> GroupStatefulSet:
    owner = {"kind": "Pod", "name": f"llm-{group}", "uid": f"uid-llm-{group}", "controller": True}
    labels = {group_labels.REVISION: revision}
    document = {
        "metadata": {
            "name": f"llm-{group}",
            "uid": _workers_uid(group),
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {"replicas": replicas},
        "status": {"availableReplicas": available},
    }
    return msgspec.convert(document, GroupStatefulSet)


def leader_set(replicas: int, partition: int = 0, revision: str = KEY) -> GroupStatefulSet:
    document = {
        "metadata": {"name": "llm", "labels": {group_labels.REVISION: revision}},
        "spec": {"replicas": replicas, "updateStrategy": {"rollingUpdate": {"partition": partition}}},
    }
    return msgspec.convert(document, GroupStatefulSet)


def group_set(built: JsonObject, *, observed: int = 1, annotations: Mapping[str, str] = NOTHING) -> LeaderWorkerSet:
    document = {
        **built,
        "metadata": {**built["metadata"], "generation": 1, "uid": "uid-set", "resourceVersion": "7"},
        "status": {"observedGeneration": observed, "updateRevision": KEY},
    }
    if annotations:
        document["metadata"]["annotations"] = {**annotations}
    return msgspec.convert(document, LeaderWorkerSet)


def scene(
    replicas: int = 2,
    size: int = 2,
    *,
    built: JsonObject | None = None,
    pods: Sequence[Pod] | None = None,
    **more: Json,
) -> Snapshot:
    """A set at rest with all its groups ready, unless told otherwise."""
    subject = group_set(built or lws("llm").replicas(replicas).size(size))
    default = [member(group, worker, size=size) for group in range(replicas) for worker in range(size)]
    sets = [leader_set(replicas), *(workers(group, available=size - 1, replicas=size - 1) for group in range(replicas))]
    found = Snapshot(
        group_set=more.pop("group_set", subject),
        pods=default if pods is None else pods,
        stateful_sets=more.pop("stateful_sets", sets),
        **more,
    )
    return counted(found)


def counted(snapshot: Snapshot) -> Snapshot:
    """With the status that the operator would write about these groups."""
    subject = snapshot.group_set
    counts = tally(subject.replicas, subject.partition, snapshot.states)
    status = replace(
        subject.status,
        ready_replicas=counts.ready,
        updated_replicas=counts.updated,
        updated_ready_replicas=counts.updated_ready,
        conditions=(*({"type": one, "status": "True"} for one in counts.true_conditions), *subject.status.conditions),
    )
    return replace(snapshot, group_set=replace(subject, status=status))


def revision(built: JsonObject, number: int, key: str = KEY) -> Revision:
    document = build(group_set(built), [], key)
    return msgspec.convert({**document, "revision": number}, Revision)
