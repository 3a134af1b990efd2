"""The runtime is tested on virtual time, against a model of a server."""

from kohort.testing.plugin import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
