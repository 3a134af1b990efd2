"""Objects of a set that was deleted without them and exists again: after `kubectl delete --cascade=orphan`, or from a
backup. Pods and StatefulSets go on as they are. Objects without an owner get the set as owner, so that they are deleted
with it.
"""

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.kube.client import Client
from kohort.kube.errors import Conflict, NotFound
from kohort.kube.resources import Resource
from kohort.objects.meta import ObjectMeta


async def adopt(client: Client, group_set: LeaderWorkerSet, resource: Resource, orphan: ObjectMeta) -> None:
    """`orphan` has no controller. One that was replaced or taken by others meanwhile is left to them."""
    owners = [*msgspec.to_builtins(orphan.owner_references), group_set.owner_reference()]
    metadata = {"uid": orphan.uid, "resourceVersion": orphan.resource_version, "ownerReferences": owners}
    try:
        await client.patch(resource, orphan.name, orphan.namespace, {"metadata": metadata})
    except (Conflict, NotFound):
        return
