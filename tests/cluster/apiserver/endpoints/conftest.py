"""An API server in memory, on virtual time."""

from collections.abc import AsyncIterator

import pytest
from tests.cluster.apiserver.caller import AllowAll, Api

from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store
from kohort.testing.plugin import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    authorizer = AllowAll()
    server = ApiServer(open_store(None), Catalog(builtin_kinds()), authorizer)
    yield Api(server, authorizer)
    await server.close()
