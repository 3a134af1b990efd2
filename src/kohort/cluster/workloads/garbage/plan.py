"""What the garbage collector does with one object.

| the object | its owners | then |
|---|---|---|
| is deleted in the foreground | | wait while something that blocks it exists, then drop its finalizer |
| is deleted and leaves orphans | | take its reference out of everything it owns, then drop its finalizer |
| is being deleted otherwise | | nothing: its other finalizers decide |
| lives | none | nothing |
| lives | at least one present, others gone or leaving | take the references to the others out |
| lives | all gone or leaving, one of them in the foreground, and it owns something | delete it in the foreground |
| lives | all gone or leaving | delete it, as its own finalizers ask, else in the background |
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from kohort.cluster.workloads.garbage.graph import FOREGROUND, ORPHAN, Node
from kohort.objects.meta import OwnerReference

Propagation = Literal["Background", "Foreground", "Orphan"]
Presence = Literal["present", "leaving", "absent", "unknown"]
"""Of an owner: `leaving` means that it waits for its dependents to be deleted; `unknown` that the API could not be
asked."""


class Nothing(msgspec.Struct, frozen=True):
    reason: str


class Remove(msgspec.Struct, frozen=True):
    """Delete the object, with its uid as a precondition."""

    propagation: Propagation
    unblock: bool = False
    """First clear blockOwnerDeletion: the owners wait for this object while it waits for them."""


class DropReferences(msgspec.Struct, frozen=True):
    uids: tuple[str, ...]


class DropFinalizer(msgspec.Struct, frozen=True):
    finalizer: str


class ReleaseDependents(msgspec.Struct, frozen=True):
    """Take the reference to this object out of each of its dependents, then drop the finalizer."""

    dependents: tuple[Node, ...]


class VisitDependents(msgspec.Struct, frozen=True):
    """Reconcile these objects: this one waits for them."""

    dependents: tuple[Node, ...]


GarbageAction = Nothing | Remove | DropReferences | DropFinalizer | ReleaseDependents | VisitDependents


def decide(node: Node, dependents: Sequence[Node], presence: Callable[[OwnerReference], Presence]) -> GarbageAction:
    if node.waits_for_dependents:
        return _decide_waiting(node, dependents)
    if node.leaves_orphans:
        return ReleaseDependents(tuple(dependents))
    if node.deleting:
        return Nothing("it is already being deleted")
    if not node.owners:
        return Nothing("it has no owner")
    return _decide_owned(node, dependents, [(owner, presence(owner)) for owner in node.owners])


def _decide_waiting(node: Node, dependents: Sequence[Node]) -> GarbageAction:
    blocking = [one for one in dependents if one.blocks(node.uid)]
    if not blocking:
        return DropFinalizer(FOREGROUND)
    return VisitDependents(tuple(one for one in dependents if not one.waits_for_dependents))


def _decide_owned(
    node: Node, dependents: Sequence[Node], owners: list[tuple[OwnerReference, Presence]]
) -> GarbageAction:
    unknown = [owner for owner, state in owners if state == "unknown"]
    if unknown:
        return Nothing(f"it is not known whether {unknown[0].kind} {unknown[0].name} exists")
    lost = tuple(owner.uid for owner, state in owners if state != "present")
    if not lost:
        return Nothing("all its owners exist")
    if len(lost) < len(owners):
        return DropReferences(lost)
    leaving = any(state == "leaving" for _, state in owners)
    if leaving and dependents:
        return Remove("Foreground", unblock=any(one.waits_for_dependents for one in dependents))
    return Remove(_requested_propagation(node))


def _requested_propagation(node: Node) -> Propagation:
    if ORPHAN in node.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in node.finalizers else "Background"
