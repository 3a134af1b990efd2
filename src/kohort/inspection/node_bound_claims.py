"""Claims whose volume only one node reaches: their pods do not start elsewhere while it is drained."""

from collections.abc import Mapping, Sequence

from kohort.objects.core import Node, Pod
from kohort.objects.volumes import PersistentVolume, PersistentVolumeClaim
from kohort.rules.scheduling.affinity_terms import NodeRule

ClaimKey = tuple[str, str]
"""Namespace and name."""


def node_bound_claims(
    node: str, nodes: Sequence[Node], claims: Sequence[PersistentVolumeClaim], volumes: Sequence[PersistentVolume]
) -> frozenset[ClaimKey]:
    """Bound claims whose volume no other node reaches that takes pods."""
    by_name = {volume.metadata.name: volume for volume in volumes}
    others = [one for one in nodes if one.metadata.name != node and not one.spec.unschedulable]
    return frozenset(
        (claim.metadata.namespace, claim.metadata.name)
        for claim in claims
        if (volume := by_name.get(claim.spec.volume_name)) is not None and not _reached(volume, others)
    )


def claims_of_pods(pods: Sequence[Pod], bound: frozenset[ClaimKey]) -> Mapping[str, Sequence[str]]:
    """The claims among `bound` of each pod that has one, by the pod's name. All pods are of one namespace. The claim of
    an ephemeral volume goes with its pod, and does not count."""
    found = {}
    for pod in pods:
        sources = [one for volume in pod.spec.volumes if (one := volume.persistent_volume_claim) is not None]
        if kept := [one.claim_name for one in sources if (pod.metadata.namespace, one.claim_name) in bound]:
            found[pod.metadata.name] = kept
    return found


def _reached(volume: PersistentVolume, nodes: Sequence[Node]) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    rule = NodeRule({}, affinity.required)
    return any(rule.matches(node.metadata.name, node.metadata.labels) for node in nodes)
