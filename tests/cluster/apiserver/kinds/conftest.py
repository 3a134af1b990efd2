"""A server with all built-in admission, in memory."""

from collections.abc import AsyncIterator

import pytest
from tests.cluster.apiserver.caller import AllowAll, Api
from tests.cluster.apiserver.kinds.specimens import NAMESPACE

from kohort.cluster.apiserver.admission.chain import Chain
from kohort.cluster.apiserver.admission.plugins import default_plugins
from kohort.cluster.apiserver.bootstrap import bootstrap_objects, namespaces
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store


@pytest.fixture
async def admitting() -> AsyncIterator[Api]:
    """As Kubernetes was when its answers were recorded: no accounts, no storage class."""
    store = open_store(None)
    authorizer = AllowAll()
    chain = Chain(default_plugins(store, service_accounts=False))
    server = ApiServer(store, Catalog(builtin_kinds()), authorizer, admission=chain)
    await server.load()
    api = Api(server, authorizer)
    for document in (*namespaces(), {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": NAMESPACE}}):
        await api.post("/api/v1/namespaces", document)
    for document in bootstrap_objects(provisioner=False):
        if document["kind"] == "PriorityClass":
            await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", document)
    yield api
    await server.close()
