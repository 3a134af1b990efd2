"""How the parts of the API server are put together.

`assemble` opens the store, registers every built-in kind and every established custom one, and returns a server that
is ready to answer. Identity and sockets are the caller's: `kohort up` brings certificates and a TLS front, tests call
`handle` directly.
"""

from pathlib import Path

from kohort.cluster.apiserver.auth.model import AccessRequest, Decision
from kohort.cluster.apiserver.kinds.registry import builtin_kinds
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store


class _AllowAll:
    def authorize(self, request: AccessRequest) -> Decision:
        return Decision(True)


async def assemble(data_dir: Path | None = None) -> ApiServer:
    store = open_store(data_dir / "store.db" if data_dir is not None else None)
    server = ApiServer(store, builtin_kinds(), _AllowAll())
    server.ready = True
    return server
