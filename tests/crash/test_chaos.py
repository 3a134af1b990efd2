"""Random operations in random order; `make chaos` does 10,000 of them."""

import os
import subprocess
import sys

import pytest
from tests.crash.chaos import run_chaos

pytestmark = pytest.mark.timeout(900)

SEED, LENGTH = 6, 20
PLANTED_FAULT = f"""
from tests.crash.chaos import run_chaos
from kohort.groups import disruption_budget, evictions

evictions.decide_eviction = lambda group, state, away, limit: disruption_budget.decide_eviction(group, state, {{}}, 100)
run_chaos({SEED}, {LENGTH})
"""


def test_random_operations() -> None:
    run_chaos(1, 60)


def test_a_planted_fault_is_found_and_its_seed_repeats_it() -> None:
    """Evictions that ignore the budget."""
    first, second = _run_with_fault(), _run_with_fault()
    assert "an eviction took group" in first
    assert f"chaos with seed {SEED}:" in first
    assert f"make chaos CHAOS='--seed {SEED} --length {LENGTH}'" in first
    assert first == second


def _run_with_fault() -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(SEED), "KOHORT_LOG": "error"}
    ended = subprocess.run(
        [sys.executable, "-c", PLANTED_FAULT], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1, ended.stderr
    return ended.stderr[ended.stderr.rindex("AssertionError: chaos with seed") :]
