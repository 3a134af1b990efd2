"""Who goes first when a machine runs out of something."""

import mmap
import os
from pathlib import Path

import pytest
from tests.builders import pod as build
from tests.node.resizing import sized

from kohort.node.pressure import (
    EvictionCandidate,
    Pressure,
    first_for_disk,
    first_for_memory,
    pressure_of,
    resident_bytes,
    storage_message,
    written_bytes,
)
from kohort.objects.pods import Pod

MI, GI = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ({}, Pressure()),
        ({"memory": 99 * MI}, Pressure(memory=True)),
        ({"disk": GI - 1}, Pressure(disk=True)),
        ({"disk": GI - 1, "disk_total": 10 * GI}, Pressure()),
        ({"pids": 9}, Pressure(pids=True)),
    ],
)
def test_when_there_is_pressure(left: dict[str, int], expected: Pressure) -> None:
    plenty = {"memory": GI, "disk": 50 * GI, "disk_total": 100 * GI, "pids": 90, "pids_total": 100}
    assert pressure_of(**{**plenty, **left}) == expected


@pytest.mark.parametrize(
    ("limits", "written", "rest", "expected"),
    [
        ({"a": "10Mi", "b": "20Mi"}, {"a": 10 * MI, "b": 20 * MI}, 0, ""),
        (
            {"a": "10Mi", "b": "20Mi"},
            {"a": 11 * MI},
            0,
            'Container a exceeded its local ephemeral storage limit "10Mi". ',
        ),
        ({"a": "10Mi", "b": "20Mi"}, {"a": 9 * MI}, 22 * MI, "the total limit of containers 30Mi. "),
        ({"a": "10Mi"}, {"a": 9 * MI, "b": 2 * MI}, 0, "the total limit of containers 10Mi. "),
        ({}, {"a": 9 * GI}, GI, ""),
    ],
)
def test_who_writes_more_than_it_may(limits: dict[str, str], written: dict[str, int], rest: int, expected: str) -> None:
    containers = [
        {"name": name, "resources": {"limits": {"ephemeral-storage": limits[name]} if name in limits else {}}}
        for name in ("a", "b")
    ]
    pod = build("p").containers(*containers).as_view(Pod)
    found = storage_message(pod, written, rest)
    assert found.endswith(expected) and bool(found) == bool(expected)


def using(uid: str, usage: int, **more: object) -> EvictionCandidate:
    return EvictionCandidate(sized(uid, c1="-/100Mi", **more), usage * MI)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("candidates", "first"),
    [
        ([using("modest", 90), using("greedy", 150)], "greedy"),
        ([using("much", 300), using("more", 400)], "more"),
        ([using("humble", 110), using("greedy", 400, priority=10)], "humble"),
        ([using("modest", 90, priority=-5), using("greedy", 101, priority=10)], "greedy"),
        ([using("critical", 900, priority=2_000_000_000)], None),
        ([using("idle", 0)], None),
    ],
)
def test_who_goes_first_for_memory(candidates: list[EvictionCandidate], first: str | None) -> None:
    found = first_for_memory(candidates)
    assert (found.pod.metadata.uid if found else None) == first


def test_who_goes_first_for_disk() -> None:
    found = first_for_disk([using("idle", 0, priority=-1), using("writes", 10), using("floods", 20)])
    assert found is not None and found.pod.metadata.uid == "floods"
    assert first_for_disk([using("idle", 0)]) is None


def test_what_was_written_is_counted(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"x" * 100_000)
    assert 100_000 <= written_bytes(tmp_path) < 200_000


def test_what_processes_have_in_memory_where_no_cgroup_counts_it() -> None:
    own = resident_bytes([os.getpid()])
    assert own > MI and own % os.sysconf("SC_PAGE_SIZE") == 0
    with mmap.mmap(-1, 16 * MI) as held:  # pages that nobody had before, unlike what an allocator finds again
        held.write(b"x" * len(held))
        assert resident_bytes([os.getpid(), 1 << 30]) - own > len(held) // 2
