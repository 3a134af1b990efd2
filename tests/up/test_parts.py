"""Which parts a cluster is made of."""

import pytest

from kohort.up import parts
from kohort.up.failures import CannotStart


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


def test_all_parts_that_are_installed_run_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parts.MODULES, "gateway", "kohort.nowhere.registration")
    chosen = parts.chosen("")
    assert chosen[:2] == ("apiserver", "workloads")
    assert "gateway" not in chosen
    assert parts.SIMULATION not in chosen


def test_a_part_that_is_not_installed_can_not_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parts.MODULES, "gateway", "kohort.nowhere.registration")
    with pytest.raises(CannotStart, match="'gateway' is not in this installation"):
        parts.chosen("apiserver,gateway")


def test_a_name_that_is_no_part_is_refused_with_those_that_are() -> None:
    with pytest.raises(CannotStart, match=r"no part 'etcd'.*apiserver, workloads, scheduler"):
        parts.chosen("apiserver,etcd")


def test_with_simulated_nodes_this_machine_is_none_unless_asked_for() -> None:
    assert parts.NODE in parts.chosen("")
    assert parts.NODE not in parts.chosen("", simulated=True)
    assert parts.NODE in parts.chosen("apiserver,node", simulated=True)
