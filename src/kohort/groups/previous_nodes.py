"""Recreated pods return to the nodes that their predecessors had: annotation `kohort.dev/prefer-previous-nodes`.

Weights and compiled kernels are cached on nodes. The nodes of every group that is ready are recorded in the ConfigMap
`<set>-nodes`, one line per group, in the order of its pods. The webhook gives a new pod a soft affinity to the node of
its predecessor; a node that does not exist any more, or takes no pods, is not asked for. Every other rule of placement
is stronger.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Final

from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_identity import parse_pod_name, worker_index

WEIGHT: Final = 100


def prefers_previous_nodes(annotations: Mapping[str, str]) -> bool:
    return annotations.get(group_labels.PREFER_PREVIOUS_NODES) == "true"


def config_map_name(name: str) -> str:
    return f"{name}-nodes"


def line_of_nodes(pods: Iterable[Pod]) -> str:
    """The nodes of a group, in the order of its pods; - for a pod without one."""
    by_index = {worker_index(pod.metadata.labels) or 0: pod.spec.node_name for pod in pods}
    return " ".join(by_index.get(index) or "-" for index in range(max(by_index, default=-1) + 1))


def previous_node(lines: Mapping[str, str], pod: str, *, leader: bool) -> str:
    """The node that the predecessor of a pod had; empty if none is known."""
    parsed = parse_pod_name(pod)
    if parsed is None:
        return ""
    group, worker = (parsed.ordinal, 0) if leader else (_group_of_worker(parsed.parent), parsed.ordinal)
    nodes = lines.get(str(group), "").split()
    return nodes[worker] if group is not None and worker < len(nodes) and nodes[worker] != "-" else ""


def _group_of_worker(leader: str) -> int | None:
    parsed = parse_pod_name(leader)
    return parsed.ordinal if parsed is not None else None


def takes_pods(node: Node | None) -> bool:
    return node is not None and not node.spec.unschedulable and node.ready


def with_preferred_node(pod: JsonObject, node: str) -> JsonObject:
    """The pod with a soft affinity to a node; the input is not changed."""
    result = copy.deepcopy(pod)
    affinity = result["spec"].setdefault("affinity", None) or {}
    result["spec"]["affinity"] = affinity
    node_affinity = affinity.get("nodeAffinity") or {}
    affinity["nodeAffinity"] = node_affinity
    term = {
        "weight": WEIGHT,
        "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]},
    }
    known = node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    node_affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [*known, term]
    return result
