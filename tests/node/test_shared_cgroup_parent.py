"""Two clusters on one machine work in the same cgroup: neither ends pods of the other one."""

from pathlib import Path

import msgspec
from tests.builders import pod
from tests.node.fake_cgroups import ROOM

from kohort.node import stale_state_cleanup
from kohort.node.cgroups import Cgroups
from kohort.node.resize.allocation import Allocations
from kohort.objects.pods import Pod


def test_only_pods_that_this_node_made_are_orphans(tmp_path: Path) -> None:
    cgroups = Cgroups(tmp_path / "cgroup")
    places = {"mine": "", "gone": "burstable", "volumes": "besteffort", "foreign": "", "other": "burstable"}
    for uid, tier in places.items():
        (tmp_path / "cgroup" / tier / f"pod{uid}").mkdir(parents=True)
    allocations = Allocations(tmp_path / "state")
    for uid in ("mine", "gone"):
        built = pod(uid)
        admitted = msgspec.convert({**built, "metadata": {**built["metadata"], "uid": uid}}, Pod)
        assert allocations.admit(admitted, [], ROOM) is None
    (tmp_path / "pods" / "volumes").mkdir(parents=True)
    successor = Allocations(tmp_path / "state")
    ours = successor.known() | stale_state_cleanup.pods_with_directories(tmp_path)
    assert [path.name for path in cgroups.orphans(ours, {"mine"})] == ["podgone", "podvolumes"]
