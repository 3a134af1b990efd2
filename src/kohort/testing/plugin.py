"""pytest: async tests on virtual time.

With pytest-asyncio, put this into the `conftest.py` of a folder; every async test in it then runs on a fresh
`VirtualTimeLoop` with `random` seeded:

    from kohort.testing.plugin import pytest_asyncio_loop_factories  # noqa: F401

Without pytest-asyncio, call `virtual_time.run(scenario())` from a plain test.
"""

import asyncio
from collections.abc import Callable, Mapping

from kohort.testing.virtual_time import new_loop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": new_loop}
