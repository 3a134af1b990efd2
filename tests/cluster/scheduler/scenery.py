"""Nodes and pods in one line each, and a cluster state to put them into."""

import itertools

import msgspec

from kohort.objects.core import Node
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import PodInfo

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"

_numbers = itertools.count(1)


def amounts(text: str) -> JsonObject:
    """`cpu=1,memory=1Gi` as a resource list."""
    return dict(part.split("=") for part in text.split(",")) if text else {}


def node(
    name: str,
    allocatable: str = "cpu=4,memory=8Gi",
    *,
    pods: int = 110,
    labels: JsonObject | None = None,
    taints: str = "",
    unschedulable: bool = False,
    images: JsonObject | None = None,
) -> Node:
    """`taints` as `key=value:Effect`, separated by commas."""
    return msgspec.convert(node_document(name, allocatable, pods, labels, taints, unschedulable, images), Node)


def node_document(
    name: str,
    allocatable: str = "cpu=4,memory=8Gi",
    pods: int = 110,
    labels: JsonObject | None = None,
    taints: str = "",
    unschedulable: bool = False,
    images: JsonObject | None = None,
) -> JsonObject:
    size = amounts(allocatable) | {"pods": str(pods)}
    return {
        "metadata": {"name": name, "labels": {HOST: name} | (labels or {})},
        "spec": {"unschedulable": unschedulable, "taints": [_taint(text) for text in taints.split(",") if text]},
        "status": {
            "allocatable": size,
            "capacity": size,
            "images": [{"names": [image], "sizeBytes": bytes} for image, bytes in (images or {}).items()],
        },
    }


def _taint(text: str) -> JsonObject:
    pair, effect = text.split(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod_document(name: str, requests: str = "", *, labels: JsonObject | None = None, **spec: object) -> JsonObject:
    container: JsonObject = {"name": "c", "image": "image", "resources": {"requests": amounts(requests)}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {"containers": [container], "schedulerName": "default-scheduler", **spec},
    }


def pod(
    name: str = "p",
    requests: str = "",
    *,
    labels: JsonObject | None = None,
    namespace: str = "default",
    node_name: str = "",
    status: JsonObject | None = None,
    deleting: bool = False,
    owner: str = "",
    started: str | None = None,
    generation: int = 1,
    **spec: object,
) -> PodInfo:
    document = pod_document(name, requests, labels=labels, **spec)
    document["metadata"] |= {
        "namespace": namespace,
        "uid": f"{name}-{next(_numbers)}",
        "generation": generation,
        "deletionTimestamp": "2026-01-01T00:00:00Z" if deleting else None,
        "ownerReferences": (
            [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}]
            if owner
            else []
        ),
    }
    document["spec"]["nodeName"] = node_name
    document["status"] = {"startTime": started} | (status or {})
    return PodInfo(msgspec.convert(document, Pod))


def cluster(*nodes: Node, on: dict[str, list[PodInfo]] | None = None) -> ClusterState:
    """A state with these nodes and, by node name, the pods on them."""
    state = ClusterState()
    for entry in nodes:
        state.add_node(entry)
    for name, pods in (on or {}).items():
        for info in pods:
            state.add_pod(info, name)
    return state


def near(labels: JsonObject, key: str = HOST, **more: object) -> JsonObject:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}


def affinity(*terms: JsonObject) -> JsonObject:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}}


def anti_affinity(*terms: JsonObject) -> JsonObject:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}}


def spread(skew: int = 1, key: str = ZONE, when: str = "DoNotSchedule", **more: object) -> JsonObject:
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": "x"}},
        **more,
    }


def required_nodes(*terms: JsonObject) -> JsonObject:
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}},
    }
