"""Reads what a forecast of a drain needs to know of volumes: `kohort plan --drain` and the dashboard."""

from collections.abc import Sequence

from kohort.inspection.node_bound_claims import ClaimKey, node_bound_claims
from kohort.kube.client import Client
from kohort.kube.errors import Forbidden
from kohort.kube.resources import PERSISTENT_VOLUMES
from kohort.objects.core import Node
from kohort.objects.volumes import PersistentVolume, PersistentVolumeClaim


async def claims_bound_to_node(
    client: Client, node: str, nodes: Sequence[Node], claims: Sequence[PersistentVolumeClaim]
) -> frozenset[ClaimKey] | None:
    """With the rights of the client; None if it may not list volumes, and there is a claim that could be bound."""
    if not any(claim.spec.volume_name for claim in claims):
        return frozenset()
    try:
        volumes = await client.list(PERSISTENT_VOLUMES, type=PersistentVolume)
    except Forbidden:
        return None
    return node_bound_claims(node, nodes, claims, volumes.items)
