"""A directory in which the commands of a page run: with its own home, and the programs that pages name."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import Sandbox, kubectl


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    found = Sandbox(tmp_path, kubectl())
    try:
        yield found
    finally:
        found.close()
