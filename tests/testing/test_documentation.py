"""The examples in docs/testing.md and docs/operators.md are tests; here they are run."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = {
    "testing.md": ["test_a_config_map_gets_a_secret", "test_the_operator_survives_a_crash_at_any_write"],
    "operators.md": ["test_a_widget_gets_its_copies"],
}


def examples(page: str) -> dict[str, Callable[[], None]]:
    """Every function `test_...` on a page. Blocks share their names, as a reader would expect."""
    names: dict[str, Callable[[], None]] = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
        if "\ndef " in block:
            exec(compile(block, page, "exec"), names)
    return {name: function for name, function in names.items() if name.startswith("test_")}


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, names in EXAMPLES.items() for name in names])
def test_the_example_works(page: str, name: str) -> None:
    examples(page)[name]()


@pytest.mark.parametrize("page", EXAMPLES)
def test_no_example_is_forgotten(page: str) -> None:
    assert list(examples(page)) == EXAMPLES[page]
