"""What containers use: rates between two readings, and the counters of cgroups and processes."""

import os
import time
from pathlib import Path

import pytest

from kohort.node.cgroups import Cgroups
from kohort.node.pressure import process_cpu_seconds
from kohort.node.resource_usage import CpuRate, Reading, cpu_rate, machine_cpu_seconds


@pytest.mark.parametrize(
    ("before", "now", "rate"),
    [
        (Reading(0, 1), Reading(10, 6), CpuRate(0.5, 10, 10)),
        (Reading(0, 1), Reading(10, 1), CpuRate(0, 10, 10)),
        (Reading(0, 6), Reading(10, 1), None),
        (Reading(10, 1), Reading(10, 6), None),
    ],
)
def test_the_rate_between_two_readings(before: Reading, now: Reading, rate: CpuRate | None) -> None:
    assert cpu_rate(before, now) == rate


def test_processes_and_machines_count_what_they_have_spent() -> None:
    before, machine = process_cpu_seconds([os.getpid()]), machine_cpu_seconds()
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    assert process_cpu_seconds([os.getpid(), 0]) >= before + 0.03
    assert machine_cpu_seconds() > machine


def test_cgroups_count_what_they_have_spent(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    assert Cgroups(tmp_path).cpu_seconds(tmp_path) == 2.5
    assert Cgroups(tmp_path).cpu_seconds(tmp_path / "gone") == 0.0
