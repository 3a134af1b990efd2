"""Deciding the waiting resizes of a node, and recording those that are accepted."""

from pathlib import Path

import pytest
from tests.node.resizing import sized

from kohort.node.resize.allocation import Allocations
from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity
from kohort.rules.resize_decision import Accepted, Deferred, NodeFacts

NODE = NodeFacts({"cpu": Quantity.parse("1"), "memory": Quantity.parse("1Gi")})


def admitted(directory: Path, *pods: Pod) -> Allocations:
    allocations = Allocations(directory)
    for pod in pods:
        assert allocations.admit(pod, [each for each in pods if each is not pod], NODE) is None
    return allocations


def test_a_resize_gets_the_room_that_a_later_one_frees(tmp_path: Path) -> None:
    """Both ask for more of something, so neither comes first as one that only frees; `a` needs what `b` gives back."""
    allocations = admitted(tmp_path, sized("a", c1="500m/100Mi"), sized("b", c1="500m/100Mi"))
    wanted = [sized("a", c1="800m/100Mi"), sized("b", c1="200m/200Mi")]
    decisions = list(allocations.decide_and_allocate({"a": "", "b": ""}, wanted, NODE))
    assert [(uid, type(decision)) for uid, decision in decisions] == [("b", Accepted), ("a", Accepted)]


def test_a_resize_that_cannot_be_recorded_leaves_those_after_it_undecided(tmp_path: Path) -> None:
    allocations = admitted(tmp_path, sized("a", c1="500m"), sized("b", c1="500m"))

    def disk_full(kind: str, path: Path, content: str) -> None:
        raise OSError("no space left")

    allocations._allocated._observer = disk_full
    wanted = [sized("a", c1="800m"), sized("b", c1="200m")]
    with pytest.raises(OSError, match="no space"):
        list(allocations.decide_and_allocate({"a": "", "b": ""}, wanted, NODE))
    for uid in ("a", "b"):
        held = allocations.allocated(uid)
        assert held is not None and held.containers["c1"].requests == {"cpu": "500m"}


def test_pods_that_do_not_wait_keep_what_is_allocated_to_them(tmp_path: Path) -> None:
    """`b` asks for less, but its resize was not decided yet: its room is still taken."""
    allocations = admitted(tmp_path, sized("a", c1="500m"), sized("b", c1="500m"))
    wanted = [sized("a", c1="800m"), sized("b", c1="200m")]
    ((_, decision),) = allocations.decide_and_allocate({"a": ""}, wanted, NODE)
    assert isinstance(decision, Deferred)
