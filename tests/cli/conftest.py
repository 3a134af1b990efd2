"""Commands are tested on virtual time."""

from tests.cli.terminal import story
from tests.docs.conftest import sandbox

from kohort.testing.plugin import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories", "sandbox", "story"]
