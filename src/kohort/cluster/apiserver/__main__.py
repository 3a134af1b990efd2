"""A bare API server on loopback, for development: `python -m kohort.cluster.apiserver --port 8080 --token secret`."""

import argparse
import asyncio
import signal
from pathlib import Path

from kohort.cluster.apiserver.assembly import assemble
from kohort.cluster.apiserver.auth.model import ADMIN, ANONYMOUS, User
from kohort.cluster.apiserver.http.front import Front
from kohort.kube import errors


async def run(data_dir: Path | None, port: int, token: str) -> None:
    server = await assemble(data_dir)

    def authenticate(headers: dict[str, str], _: bytes | None) -> User:
        sent = headers.get("authorization", "")
        if not sent:
            return ANONYMOUS
        if sent != f"Bearer {token}":
            raise errors.unauthorized()
        return ADMIN

    front = Front(server, authenticate, port=port)
    await front.start()
    print(f"http://127.0.0.1:{front.port}", flush=True)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    await front.stop()
    await server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kohort.cluster.apiserver", description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", required=True)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.data_dir, arguments.port, arguments.token))


if __name__ == "__main__":
    main()
