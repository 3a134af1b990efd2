"""Which parts a cluster is made of."""

import pytest

from kohort.up import parts
from kohort.up.startup_errors import CannotStart


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("apiserver", ("apiserver",)),
        ("workloads,apiserver", ("apiserver", "workloads")),
        (" apiserver , workloads,workloads,", ("apiserver", "workloads")),
        ("workloads", ("workloads",)),
    ],
)
def test_parts_by_name(names: str, expected: tuple[str, ...]) -> None:
    assert parts.chosen(names) == expected


def test_all_parts_run_by_default() -> None:
    assert parts.chosen("") == ("apiserver", "workloads", "scheduler", "operator", "node", "gateway")


def test_a_name_that_is_no_part_is_refused_with_those_that_are() -> None:
    with pytest.raises(CannotStart, match=r"no part 'etcd'.*apiserver, workloads, scheduler"):
        parts.chosen("apiserver,etcd")
    with pytest.raises(CannotStart, match=r"there is no part ' , '"):
        parts.chosen(" , ")


def test_with_simulated_nodes_this_machine_is_none_unless_asked_for() -> None:
    assert parts.NODE in parts.chosen("")
    assert parts.NODE not in parts.chosen("", simulated=True)
    assert parts.NODE in parts.chosen("apiserver,node", simulated=True)
