"""What becomes of an object when its owners go, in each kind of deletion."""

from kohort.cluster.workloads.garbage.graph import FOREGROUND, ORPHAN, Graph, Node
from kohort.cluster.workloads.garbage.plan import (
    DropFinalizer,
    DropReferences,
    GarbageAction,
    Nothing,
    Presence,
    ReleaseDependents,
    Remove,
    VisitDependents,
    decide,
)
from kohort.kube.resources import CONFIG_MAPS, Key
from kohort.objects.meta import OwnerReference


def node(uid: str, *owners: str, finalizers: tuple[str, ...] = (), deleting: bool = False, block: bool = True) -> Node:
    references = tuple(
        OwnerReference("v1", "ConfigMap", owner, owner, controller=None, block_owner_deletion=block) for owner in owners
    )
    return Node(CONFIG_MAPS, Key("ns", uid), uid, "1", references, finalizers, deleting)


def action(subject: Node, *dependents: Node, **owners: Presence) -> GarbageAction:
    return decide(subject, dependents, lambda owner: owners[owner.uid])


LEAVING = node("o", finalizers=(FOREGROUND,), deleting=True)


def test_nothing_happens_to_what_has_its_owners() -> None:
    assert isinstance(action(node("a")), Nothing)
    assert isinstance(action(node("a", "o"), o="present"), Nothing)
    assert isinstance(action(node("a", "o", deleting=True), o="absent"), Nothing)
    assert isinstance(action(node("a", "o"), o="unknown"), Nothing)
    assert isinstance(action(node("a", "o", "p"), o="unknown", p="absent"), Nothing)


def test_what_lost_all_owners_goes() -> None:
    assert action(node("a", "o"), o="absent") == Remove("Background")
    assert action(node("a", "o", finalizers=(ORPHAN,)), o="absent") == Remove("Orphan")
    assert action(node("a", "o", finalizers=(FOREGROUND,)), o="absent") == Remove("Foreground")


def test_one_owner_of_two_is_enough_to_stay() -> None:
    assert action(node("a", "o", "p"), o="absent", p="present") == DropReferences(("o",))
    assert action(node("a", "o", "p"), o="leaving", p="present") == DropReferences(("o",))


def test_a_dependent_of_a_leaving_owner_leaves_in_the_foreground_if_it_owns_something() -> None:
    assert action(node("a", "o"), o="leaving") == Remove("Background")
    assert action(node("a", "o"), node("b", "a"), o="leaving") == Remove("Foreground")
    waiting = node("b", "a", finalizers=(FOREGROUND,), deleting=True)
    assert action(node("a", "o"), waiting, o="leaving") == Remove("Foreground", unblock=True)


def test_foreground_deletion_waits_only_for_what_blocks_it() -> None:
    blocking, free = node("a", "o"), node("b", "o", block=False)
    assert action(LEAVING) == DropFinalizer(FOREGROUND)
    assert action(LEAVING, free) == DropFinalizer(FOREGROUND)
    assert action(LEAVING, blocking, free) == VisitDependents((blocking, free))


def test_orphans_are_released_before_their_owner_goes() -> None:
    owner = node("o", finalizers=(ORPHAN,), deleting=True)
    assert action(owner, node("a", "o")) == ReleaseDependents((node("a", "o"),))


def test_the_graph_finds_dependents_by_uid_whether_the_owner_exists_or_not() -> None:
    graph = Graph()
    graph.put(node("a", "o", "p"))
    assert [one.uid for one in graph.dependents("o")] == ["a"]
    graph.put(node("a", "p"))
    assert list(graph.dependents("o")) == []
    assert [one.uid for one in graph.dependents("p")] == ["a"]
    graph.remove("a")
    assert list(graph.dependents("p")) == []
