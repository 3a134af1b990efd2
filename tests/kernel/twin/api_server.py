"""An API server in a process of its own, without authentication, on loopback: `python -m ... PORT`.

Both nodes of the comparison talk to it. It has no controllers: pods name their node themselves.
"""

import asyncio
import contextlib
import sys

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists
from kohort.kube.http import Request, Response
from kohort.kube.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from kohort.kube.transport import InProcessTransport


async def serve(port: int) -> None:
    server, _ = await assemble(open_store(None))

    async def handle(request: Request) -> Response:
        return await server.handle(request, ADMIN)

    client = Client(InProcessTransport(handle))
    for namespace in ("default", "kube-system", "kube-node-lease"):
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    authority = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-root-ca.crt", "namespace": "default"},
        "data": {"ca.crt": "none\n"},
    }
    with contextlib.suppress(AlreadyExists):
        await client.create(SERVICE_ACCOUNTS, account, "default")
    with contextlib.suppress(AlreadyExists):
        await client.create(CONFIG_MAPS, authority, "default")
    front = HttpsServer(server, lambda headers, certificate: ADMIN, port=port)
    await front.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
