"""The graph of owners and dependents over all resources of the cluster.

The graph holds one small node per object, kept current from metadata watches. Owners are found by uid: a name may be
reused by a different object, which is then not the owner.
"""

from collections.abc import Iterable, Iterator

import msgspec

from kohort.kube.resources import Key, Resource
from kohort.objects.meta import ObjectMeta, OwnerReference

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Node(msgspec.Struct, frozen=True):
    """One object, as far as garbage collection needs it."""

    resource: Resource
    key: Key
    uid: str
    resource_version: str
    owners: tuple[OwnerReference, ...]
    finalizers: tuple[str, ...]
    deleting: bool

    @property
    def waits_for_dependents(self) -> bool:
        """It is deleted in the foreground: it stays until its dependents are gone."""
        return self.deleting and FOREGROUND in self.finalizers

    @property
    def leaves_orphans(self) -> bool:
        """It is deleted, and its dependents stay."""
        return self.deleting and ORPHAN in self.finalizers

    def reference_to(self, uid: str) -> OwnerReference | None:
        return next((owner for owner in self.owners if owner.uid == uid), None)

    def blocks(self, uid: str) -> bool:
        """An owner that is deleted in the foreground waits for this object."""
        reference = self.reference_to(uid)
        return reference is not None and bool(reference.block_owner_deletion)


def node_of(resource: Resource, metadata: ObjectMeta) -> Node:
    return Node(
        resource=resource,
        key=Key(metadata.namespace, metadata.name),
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        owners=tuple(metadata.owner_references or ()),
        finalizers=tuple(metadata.finalizers or ()),
        deleting=metadata.deletion_timestamp is not None,
    )


class Graph:
    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._dependents: dict[str, set[str]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._nodes

    def get(self, uid: str) -> Node | None:
        return self._nodes.get(uid)

    def nodes(self) -> Iterable[Node]:
        return self._nodes.values()

    def dependents(self, uid: str) -> Iterator[Node]:
        """Objects that name `uid` as an owner, whether the owner exists or not."""
        for dependent in self._dependents.get(uid, ()):
            yield self._nodes[dependent]

    def put(self, node: Node) -> Node | None:
        """Add or replace a node; returns what was there before."""
        before = self._nodes.get(node.uid)
        if before is None or before.owners != node.owners:
            self._unlink(before)
            for owner in node.owners:
                self._dependents.setdefault(owner.uid, set()).add(node.uid)
        self._nodes[node.uid] = node
        return before

    def remove(self, uid: str) -> Node | None:
        before = self._nodes.pop(uid, None)
        self._unlink(before)
        return before

    def _unlink(self, node: Node | None) -> None:
        if node is None:
            return
        for owner in node.owners:
            siblings = self._dependents.get(owner.uid)
            if siblings is None:
                continue
            siblings.discard(node.uid)
            if not siblings:
                del self._dependents[owner.uid]
