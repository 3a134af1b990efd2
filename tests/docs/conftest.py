"""A place where commands of pages are typed: a home of its own, and the programs that pages name."""

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
