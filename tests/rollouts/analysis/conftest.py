"""Releases are tested on virtual time."""

from kohort.testing.plugin import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
