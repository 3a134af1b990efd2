"""Starts the process of the gateway when the first Ingress or Gateway exists, and keeps it.

A cluster without routes pays for no gateway. The definitions of the Gateway API are installed here, so that they are
there when the cluster is ready. When the process ends, this part fails, and is started again with a growing pause like
every other part (`part_supervision`).
"""

import asyncio
import contextlib
from asyncio.subprocess import PIPE, Process
from typing import Final

from kohort.cluster.gateway.registration import install_definitions
from kohort.cluster.gateway.views import CONTROLLER, GATEWAY_CLASSES, GATEWAYS, Gateway, GatewayClass
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.resources import INGRESSES
from kohort.objects.networking import Ingress
from kohort.rules.python_command import python_command
from kohort.up.restart_policy import exit_words

MODULE: Final = "kohort.up.gateway_process"
STOP_SECONDS: Final = 10.0
"""More than the gateway gives requests in flight when it stops."""
_log = Log(module="kohort.up.gateway")


class GatewayEnded(Exception):
    pass


class GatewayLauncher:
    def __init__(self, manager: Manager, kubeconfig: str, user: str) -> None:
        self._manager = manager
        self._arguments = (kubeconfig, user)
        self._needed = asyncio.Event()
        self._ready = asyncio.Event()

    async def prepare(self) -> None:
        if await install_definitions(self._manager.client):
            self._manager.informer(GATEWAYS, Gateway).on_change(self._changed)
            self._manager.informer(GATEWAY_CLASSES, GatewayClass).on_change(self._class_changed)
        self._manager.informer(INGRESSES, Ingress).on_change(self._changed)

    def _changed(self, _: Gateway | Ingress | None, new: Gateway | Ingress | None) -> None:
        if new is not None:
            self._needed.set()

    def _class_changed(self, _: GatewayClass | None, new: GatewayClass | None) -> None:
        if new is not None and waits_for_acceptance(new):
            self._needed.set()

    async def keep_running(self) -> None:
        """Ends only by failing, or when it is cancelled; the process ends with it."""
        await self._needed.wait()
        process = await asyncio.create_subprocess_exec(
            *python_command(MODULE, *self._arguments), stdin=PIPE, stdout=PIPE
        )
        try:
            assert process.stdout is not None
            if await process.stdout.readline():
                self._ready.set()
                _log.info("gateway started", pid=process.pid)
            raise GatewayEnded(f"the process of the gateway {exit_words(await process.wait())}")
        finally:
            await _end(process)

    async def settled(self) -> None:
        """The process answers, if one is needed."""
        if self._needed.is_set():
            await self._ready.wait()


def waits_for_acceptance(one: GatewayClass) -> bool:
    """A class of this gateway whose status does not speak of its present generation."""
    conditions = one.status.get("conditions") or ()
    seen = [each.get("observedGeneration") for each in conditions if each.get("type") == "Accepted"]
    return one.spec.controller_name == CONTROLLER and one.metadata.generation not in seen


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def register(manager: Manager, *, kubeconfig: str = "", user: str = "") -> GatewayLauncher:
    """`kubeconfig` and `user` are those of the process; without a file, where kubectl would find it."""
    launcher = GatewayLauncher(manager, kubeconfig, user)
    manager.prepare(launcher.prepare)
    manager.background("gateway-process", launcher.keep_running)
    return launcher
