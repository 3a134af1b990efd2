"""The page on resizing says which test shows what; those tests exist, and no weakness is without one."""

import re
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "resize.md").read_text()
TESTS = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
ROWS = {
    number: line
    for line in PAGE.splitlines()
    if line.startswith("| W-")
    for number in re.findall(r"W-(\d+)", line.split("|")[1])
}


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)", PAGE))))
def test_what_is_named_exists(name: str) -> None:
    assert f"def {name}(" in TESTS


@pytest.mark.parametrize("number", range(1, 31))
def test_every_weakness_has_a_row_and_a_test_with_its_number(number: int) -> None:
    assert "test_" in ROWS[str(number)]
    assert re.search(rf"(def test_(?:\w+_)?w{number}_|W-?{number}\b)", TESTS)


def test_the_places_exist() -> None:
    for place in re.findall(r"`(tests/[\w/.]+)`", PAGE):
        assert Path(ROOT, place).exists(), place
