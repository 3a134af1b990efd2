"""Which topology domains pods of other sets occupy, so that no group of an exclusive set may use them."""

from collections.abc import Iterable

from kohort.objects.core import Node, Pod
from kohort.rules import group_labels


def domains_of_others(
    name: str, topology: str, pods: Iterable[Pod], nodes: Iterable[Node]
) -> dict[str, tuple[str, ...]]:
    """By value of the node label `topology`: the other sets with pods there. `pods` are those of groups."""
    domains = {node.metadata.name: node.metadata.labels.get(topology, "") for node in nodes}
    found: dict[str, set[str]] = {}
    for pod in pods:
        other, domain = pod.metadata.labels.get(group_labels.NAME, ""), domains.get(pod.spec.node_name, "")
        if other and other != name and domain and not pod.finished:
            found.setdefault(domain, set()).add(other)
    return {domain: tuple(sorted(others)) for domain, others in sorted(found.items())}
