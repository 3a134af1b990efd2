"""The lease by which a node says that it is alive; the node agent and simulated nodes renew the same one."""

from typing import Final

from kohort.objects.json_types import JsonObject
from kohort.objects.well_known_names import NODE_LEASES

LEASE_SECONDS: Final = 40


def lease_document(name: str, uid: str, now: str) -> JsonObject:
    """It goes with the node, which owns it."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": NODE_LEASES, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
    }
