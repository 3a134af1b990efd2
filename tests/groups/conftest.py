"""Groups are tested on virtual time."""

import pytest

from kohort.testing.plugin import pytest_asyncio_loop_factories

pytest.register_assert_rewrite("tests.groups.bare")

__all__ = ["pytest_asyncio_loop_factories"]
