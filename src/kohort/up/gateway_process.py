"""The gateway in a process of its own: requests through it take no time of the control plane, nor the other way round.

    python -m kohort.up.gateway_process KUBECONFIG [USER]

It is a client of the API server like any other: routes, endpoints and certificates reach it by watches, and what it
serves survives a restart of the API server. It writes the line `ready` to its standard output once its caches are
filled, and ends in order on SIGTERM, or when its standard input closes: a control plane that was killed leaves no
gateway behind. With USER it acts under that name, which the kubeconfig's user must be allowed to.
"""

import asyncio
import faulthandler
import gc
import os
import signal
import sys

from kohort.cluster.gateway.registration import register
from kohort.kube import tls_buffers
from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.kube.manager import Manager
from kohort.up.loop_errors import LoopErrorLog
from kohort.up.process import allow_connections

ADMINISTRATORS = "system:masters"


async def run(kubeconfig: str, user: str = "") -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LoopErrorLog())
    transport = load(kubeconfig or None)
    if user:
        transport.credentials.impersonate(user, ADMINISTRATORS)
    manager = Manager(Client(transport, user_agent="kohort-gateway"), name="gateway")
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, manager.stop)
    await _stop_at_end_of_input(manager)
    register(manager)
    announcing = asyncio.create_task(_announce(manager), name="gateway-ready")
    try:
        await manager.run()
    finally:
        announcing.cancel()
        await transport.close()


async def _announce(manager: Manager) -> None:
    await manager.wait_ready()
    gc.freeze()
    print("ready", flush=True)


class _Input(asyncio.Protocol):
    def __init__(self, manager: Manager) -> None:
        self._manager = manager

    def connection_lost(self, exc: Exception | None) -> None:
        self._manager.stop()


async def _stop_at_end_of_input(manager: Manager) -> None:
    await asyncio.get_running_loop().connect_read_pipe(lambda: _Input(manager), os.fdopen(0, "rb", closefd=False))


def main() -> None:
    tls_buffers.limit_tls_buffers()
    allow_connections()
    faulthandler.enable()
    asyncio.run(run(*sys.argv[1:3]))


if __name__ == "__main__":
    main()
