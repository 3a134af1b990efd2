"""Which nodes do not report, of those whose pods are not ready: then the node is the cause, and not the pod."""

from collections.abc import Iterable

from kohort.groups.node_loss import not_ready_since
from kohort.objects.core import Node, Pod
from kohort.rules.group_state import pod_is_ready


def concerned_nodes(pods: Iterable[Pod]) -> frozenset[str]:
    """Nodes of pods that are not ready."""
    return frozenset(pod.spec.node_name for pod in pods if pod.spec.node_name and not pod_is_ready(pod))


def silent_nodes(nodes: Iterable[Node], concerned: frozenset[str]) -> dict[str, str]:
    """Of these, those that are not ready either: by name, since when."""
    found = {one.metadata.name: not_ready_since(one) for one in nodes if one.metadata.name in concerned}
    return {name: since for name, since in found.items() if since}
