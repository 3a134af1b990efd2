"""The examples in docs/testing.md are tests; here they are run."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def examples() -> dict[str, Callable[[], None]]:
    """Every function `test_...` on the page. Blocks share their names, as a reader would expect."""
    names: dict[str, Callable[[], None]] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if "def test_" in block:
            exec(compile(block, str(PAGE), "exec"), names)
    return {name: function for name, function in names.items() if name.startswith("test_")}


@pytest.mark.parametrize("name", ["test_a_config_map_gets_a_secret", "test_the_operator_can_die_anywhere"])
def test_the_example_works(name: str) -> None:
    examples()[name]()


def test_no_example_is_forgotten() -> None:
    assert len(examples()) == 2
