"""The scheduler is tested on virtual time."""

from kohort.testing.plugin import pytest_asyncio_loop_factories  # noqa: F401
