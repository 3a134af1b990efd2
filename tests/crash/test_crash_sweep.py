"""A few crash points of every scenario; `make crash-sweep` tries all of them."""

import os

import pytest
from tests.crash.scenarios import CASES

from kohort.testing.crashes import crash_at_every_write

pytestmark = pytest.mark.timeout(900)

STRIDE = int(os.environ.get("KOHORT_CRASH_STRIDE", "100"))


@pytest.mark.parametrize("name", CASES)
def test_a_crash_at_any_write_leads_to_the_same_end(name: str) -> None:
    case = CASES[name]
    points = crash_at_every_write(case.new_cluster, case.part, case.scenario, stride=STRIDE, end_state=case.end_state)
    assert points >= 2
