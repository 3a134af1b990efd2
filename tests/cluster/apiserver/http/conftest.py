"""A server behind its front, on a loopback port."""

from collections.abc import AsyncIterator

import pytest
from tests.cluster.apiserver.caller import AllowAll

from kohort.cluster.apiserver.auth.model import ADMIN, User
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube import errors


def authenticate(headers: object, _: object) -> User:
    assert isinstance(headers, dict)
    if headers.get("authorization") == "Bearer bad":
        raise errors.unauthorized()
    return ADMIN


@pytest.fixture
async def front() -> AsyncIterator[HttpsServer]:
    server = ApiServer(open_store(None), Catalog(builtin_kinds()), AllowAll())
    front = HttpsServer(server, authenticate)
    await front.start()
    yield front
    await front.stop()
    await server.close()
