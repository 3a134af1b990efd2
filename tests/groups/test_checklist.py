"""No row of the checklists is without a test: rows are the ids of cases (`id="WV7"`) or begin the name of a test
(`test_ic12_...`). The checklists of DisaggregatedSets, DW and D, are about a kind that is not part of kohort."""

import re
from pathlib import Path

import pytest
from tests.groups import gangstories, stories

FOLDER = Path(__file__).parent
ROWS = {"IC": 53, "WD": 11, "WV": 45, "PW": 28, "E": 17, "G": 5, "U": 1, "S": 8}
NAMED = re.compile(r"def test_([a-z]+\d+)_")
IDENTIFIED = re.compile(r"\"((?:[A-Z]+\d+)(?:-[A-Z]+\d+)*)[\"-]")
FLAWS = {
    10: "bench",
    17: "test_validation",
    18: "test_collisions",
    26: "tests/install",
    27: "tests/manager",
    28: "none",
}
"""Rows of known flaws that are shown elsewhere: speed by the bench, admission and names, roles, certificates and
readiness by their own tests; 28 is a webhook that does not exist here; 31 is documented."""


def rows_with_tests() -> set[str]:
    found: set[str] = set()
    for path in FOLDER.glob("test_*.py"):
        text = path.read_text()
        found |= {name.upper() for name in NAMED.findall(text)}
        found |= {row for rows in IDENTIFIED.findall(text) for row in rows.split("-")}
    return found


@pytest.mark.parametrize("kind", ROWS)
def test_every_row_has_a_test(kind: str) -> None:
    missing = {f"{kind}{number}" for number in range(1, ROWS[kind] + 1)} - rows_with_tests()
    assert missing == set()


def test_every_known_flaw_has_a_test() -> None:
    text = "".join(path.read_text() for path in FOLDER.glob("test_beyond_upstream*.py"))
    shown = {int(number) for number in re.findall(r"def test_f(\d+)_", text)}
    assert set(range(1, 33)) - shown - FLAWS.keys() == {31}, "frozen labels of worker StatefulSets are documented"


@pytest.mark.parametrize("kind", ["E", "G"])
def test_every_end_to_end_row_is_a_story_for_real_clusters(kind: str) -> None:
    """Told against `kohort up` with real processes by tests/e2e/test_group_rows.py, and on the real control plane by
    tests/kubernetes/test_group_rows.py. Two rows are tested there by themselves: E17 (metrics) in tests/e2e and in
    tests/kubernetes/test_roles.py, U1 (a change of hands) in tests/kubernetes/test_takeover.py."""
    told = {row for rows in (*stories.STORIES, *gangstories.STORIES) for row in rows.split("-")} | {"E17"}
    assert {f"{kind}{number}" for number in range(1, ROWS[kind] + 1)} - told == set()
