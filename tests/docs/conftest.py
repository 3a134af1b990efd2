"""A directory in which the commands of a page run: with its own home, and the programs that pages name.

Tests that run in this process run on virtual time.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import Sandbox, kubectl

from kohort.testing.plugin import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories", "sandbox"]


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    found = Sandbox(tmp_path, kubectl())
    try:
        yield found
    finally:
        found.close()
