"""The page on traceability names tests and files that exist, and covers every row of the resize specification."""

import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "traceability.md").read_text()
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
ROWS = {
    number: line
    for line in PAGE.splitlines()
    if line.startswith("| W-")
    for number in re.findall(r"W-(\d+)", line.split("|")[1])
}

ROWS_OF_KIND = {"T": 78, "P": 37, "N": 22, "B": 11, "I": 9, "F": 14, "G": 43, "H": 23, "Z": 22}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)", PAGE))))
def test_a_test_that_the_page_names_exists(name: str) -> None:
    assert f"def {name}(" in TESTS


@pytest.mark.parametrize("number", range(1, 31))
def test_every_weakness_has_a_row_and_a_test_with_its_number(number: int) -> None:
    assert "test_" in ROWS[str(number)]
    assert re.search(rf"(def test_(?:\w+_)?w{number}_|W-?{number}\b)", TESTS)


def numbered(kind: str, last: int, suffix: str = "") -> list[str]:
    return [f"{kind}{number}{suffix}" for number in range(1, last + 1)]


CHECKLIST = [
    *(row for kind, last in ROWS_OF_KIND.items() for row in numbered(kind, last)),
    *numbered("J", 30, "t"),
    *(f"K-{number}" for number in range(1, 27) if number not in (14, 18, 19)),
]
"""Sections 6 and 8 of the specification."""


def rows_on_page() -> set[str]:
    """Rows that the page names: `T1 to T57` are 57 of them."""
    found = set(re.findall(r"\bK-\d+|\b[TPNBIFGHJZ]\d+t?\b", PAGE))
    for kind, first, last, suffix in re.findall(r"\b([TPNBIFGHJZ])(\d+)t? to \1(\d+)(t?)\b", PAGE):
        found |= {f"{kind}{number}{suffix}" for number in range(int(first), int(last) + 1)}
    return found


def test_every_row_of_the_checklist_is_on_the_page() -> None:
    assert [row for row in CHECKLIST if row not in rows_on_page()] == []


RULES_OF_GROUPS = {"GR": 16, "R": 11, "B": 6, "D": 4}


def test_every_rule_of_whole_groups_has_a_row_with_a_test() -> None:
    _, _, section = PAGE.partition("## Resizes, restarts and disruptions of whole groups")
    rows = [line for line in section.partition("\n## ")[0].splitlines() if "test_" in line.rpartition("|")[0]]
    named = " ".join(row.split("|")[1] for row in rows if " together" not in row)
    for kind, first, last in re.findall(r"\b([A-Z]+)(\d+) to \1(\d+)\b", named):
        named += "".join(f" {kind}{number}" for number in range(int(first), int(last) + 1))
    wanted = [rule for kind, last in RULES_OF_GROUPS.items() for rule in numbered(kind, last)]
    assert [rule for rule in wanted if not re.search(rf"\b{rule}\b", named)] == []


def test_files_that_the_page_names_exist() -> None:
    for place in re.findall(r"`(tests/[\w/.]+)`", PAGE):
        assert Path(ROOT, place).exists(), place


ROWS_OF_CONTAINERS = {"C": 4, "S": 4, "L": 7, "G": 1, "E": 1, "M": 1, "P": 2, "I": 4, "R": 8, "D": 1, "Q": 1, "B": 1}
CASES_OF_THE_KERNEL = "\n".join(path.read_text() for path in (ROOT / "tests" / "kernel").glob("*.py"))


def test_every_row_of_the_plan_for_containers_is_on_the_page() -> None:
    wanted = [f"CRI_{row}" for kind, last in ROWS_OF_CONTAINERS.items() for row in numbered(kind, last)]
    assert [row for row in wanted if not re.search(rf"\b{row}\b", PAGE)] == []


def test_cases_of_the_kernel_tier_that_the_page_names_exist() -> None:
    _, _, section = PAGE.partition("## Containers")
    named = re.findall(r"kernel tier: ((?:`\w+`(?:, )?)+)", section)
    cases = [case for one in named for case in re.findall(r"`(\w+)`", one)]
    assert len(cases) >= 9
    assert [case for case in cases if f"async def {case}(" not in CASES_OF_THE_KERNEL] == []
