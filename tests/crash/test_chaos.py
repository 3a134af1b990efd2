"""Random operations in random order; `make chaos` does 10,000 of them.

| variable | meaning |
|---|---|
| KOHORT_CHAOS_OPERATIONS | how many operations, in runs of KOHORT_CHAOS_LENGTH |
| KOHORT_CHAOS_SEED | only the run of this seed |
"""

import os

import pytest
from tests.crash.chaos import LENGTH, run_chaos

OPERATIONS = int(os.environ.get("KOHORT_CHAOS_OPERATIONS", "60"))
ONE_SEED = os.environ.get("KOHORT_CHAOS_SEED")
SEEDS = [int(ONE_SEED)] if ONE_SEED else range(1, 1 + -(-OPERATIONS // LENGTH))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_operations(seed: int) -> None:
    run_chaos(seed, LENGTH)
