"""A bare API server on loopback, for development: `python -m kohort.cluster.apiserver --port 8080 --token secret`."""

import argparse
import asyncio
import signal
from pathlib import Path

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.cluster.apiserver.http.https_server import HttpsServer
from kohort.cluster.apiserver.http.node_client import HttpsNodeClient
from kohort.cluster.apiserver.server import OutgoingClients
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store


async def run(data_dir: Path | None, port: int, token: str) -> None:
    nodes = HttpsNodeClient()
    store = open_store(data_dir / "store.db" if data_dir is not None else None)
    server, authenticator = await assemble(
        store, tokens={token: ADMIN}, outgoing=OutgoingClients(nodes, forwarder=nodes)
    )
    front = HttpsServer(server, authenticator.authenticate, port=port, nodes=nodes)
    await front.start()
    print(f"http://127.0.0.1:{front.port}", flush=True)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    await front.stop()
    await nodes.close()
    await server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kohort.cluster.apiserver", description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", required=True)
    arguments = parser.parse_args()
    if arguments.data_dir is not None:
        arguments.data_dir.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(arguments.data_dir, arguments.port, arguments.token))


if __name__ == "__main__":
    main()
