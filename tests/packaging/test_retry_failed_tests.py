"""Tests that pass only when they are tried again are named, and one that fails twice fails the run."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LUCKY = """
from pathlib import Path

def test_lucky():
    first = not Path("tried").exists()
    Path("tried").touch()
    assert not first

def test_good():
    pass
"""


def run(place: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=60, check=False)


def run_tier(place: Path, name: str) -> int:
    return run(place, "pytest", "--rootdir", ".", "-o", f"cache_dir=.pytest_cache/{name}").returncode


def report(place: Path) -> tuple[list[str], list[dict[str, str]]]:
    *words, last = run(place, "tools.retry_failed_tests", "report", str(place / "notes")).stdout.splitlines()
    return words, json.loads(last.removeprefix("flaky-tests: "))


def test_a_test_that_passes_the_second_time_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(LUCKY)
    assert run_tier(tmp_path, "test") == 1
    assert run(tmp_path, "tools.retry_failed_tests", "run", "test", "notes").returncode == 0
    words, found = report(tmp_path)
    assert words == ["!!! PASSED ONLY WHEN TRIED AGAIN (test): test_it.py::test_lucky !!!"]
    assert found == [{"tier": "test", "test": "test_it.py::test_lucky"}]


def test_a_test_that_fails_twice_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(LUCKY + "\ndef test_bad():\n    assert False\n")
    assert run_tier(tmp_path, "test") == 1
    assert run(tmp_path, "tools.retry_failed_tests", "run", "test", "notes").returncode == 1
    assert [one["test"] for one in report(tmp_path)[1]] == ["test_it.py::test_lucky"]


def test_tiers_that_run_side_by_side_do_not_see_each_others_failures(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(LUCKY)
    assert run_tier(tmp_path, "test") == 1
    assert run_tier(tmp_path, "test-kernel") == 0
    assert run(tmp_path, "tools.retry_failed_tests", "run", "test-kernel", "notes").returncode == 5
    assert run(tmp_path, "tools.retry_failed_tests", "run", "test", "notes").returncode == 0
    assert [one["tier"] for one in report(tmp_path)[1]] == ["test"]


def test_nothing_to_report(tmp_path: Path) -> None:
    assert report(tmp_path) == ([], [])
