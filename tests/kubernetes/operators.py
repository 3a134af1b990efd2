"""`kohort operator` and simulated nodes at work on a control plane, for tests."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tests.builders import lws
from tests.kubernetes.controlplane import TOKEN, ControlPlane

from kohort.admission.webhook_configurations import names
from kohort.cluster.simulation.registration import register as register_nodes
from kohort.install.installation import install, uninstall
from kohort.install.options import InstallOptions
from kohort.install.roles import ACCOUNT
from kohort.kube.client import Client, PatchType
from kohort.kube.errors import InternalError
from kohort.kube.kubeconfig import load
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    LEADER_WORKER_SETS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from kohort.manager.configuration import SERVICE
from kohort.objects.json_types import JsonObject
from kohort.operator import LABELS


def service_words(port: int, namespace: str, *, metrics: str = "0") -> tuple[str, ...]:
    """An installed operator, but as a process of this machine: see `outside_service`."""
    return (
        *("--webhooks", "service", "--webhook-port", str(port), "--operator-namespace", namespace),
        *("--health-probe-bind-address", "0", "--metrics-bind-address", metrics),
    )


class OperatorProcess:
    def __init__(self, kubeconfig: Path, log: Path, *words: str) -> None:
        self.log = log
        command = [sys.executable, "-m", "kohort", "operator", "--kubeconfig", str(kubeconfig), *words]
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, "KOHORT_LOG": ""})

    @property
    def pid(self) -> int:
        return self.process.pid

    def lines(self) -> list[JsonObject]:
        text = self.log.read_text(errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]

    def said(self, event: str) -> JsonObject | None:
        return next((line for line in self.lines() if line["event"] == event), None)

    async def says(self, event: str, seconds: float = 60.0) -> JsonObject:
        """Wait for a line of the log."""
        deadline = time.monotonic() + seconds
        while (line := self.said(event)) is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the operator never said {event!r}:\n{self.log.read_text()[-3000:]}")
            await asyncio.sleep(0.02)
        return line

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(timeout=30)


@contextmanager
def operator(kubeconfig: Path, log: Path, *words: str) -> Iterator[OperatorProcess]:
    process = OperatorProcess(kubeconfig, log, *words)
    try:
        yield process
    finally:
        process.stop()


async def webhooks_answer(process: OperatorProcess, client: Client, namespace: str) -> None:
    """The API server needs a moment to learn where webhooks are served now."""
    await process.says("webhook configurations point here")
    async with asyncio.timeout(10):
        while True:
            try:
                await client.create(LEADER_WORKER_SETS, lws("probe", namespace).size(1), dry_run=True)
            except InternalError:
                await asyncio.sleep(0.05)
            else:
                return


@asynccontextmanager
async def simulated_nodes(
    kubernetes: ControlPlane, count: int = 8, *, capacity: Mapping[str, str] | None = None
) -> AsyncIterator[None]:
    client = Client(load(kubernetes.kubeconfig), user_agent="kohort-nodes")
    manager = Manager(client, name="nodes")
    register_nodes(manager, nodes=count, capacity=capacity)
    try:
        async with manager.running():
            yield
    finally:
        await client.close()


@asynccontextmanager
async def administrator(kubernetes: ControlPlane, *namespaces: str) -> AsyncIterator[Client]:
    """A client that may do everything, and namespaces for the test."""
    client = Client(load(kubernetes.kubeconfig), field_manager="test")
    try:
        for namespace in namespaces:
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def installed(
    kubernetes: ControlPlane, client: Client, options: InstallOptions, port: int
) -> AsyncIterator[Path]:
    """An installation for an operator that runs as a process of this machine; removed afterwards."""
    await install(client, options, lambda _: None)
    try:
        yield await outside_service(kubernetes, client, options, port)
    finally:
        await uninstall(client, options, lambda _: None, keep_objects=False)


async def outside_service(kubernetes: ControlPlane, client: Client, options: InstallOptions, port: int) -> Path:
    """Lead the webhooks of an installation to `port` of this machine: the control plane has no nodes that run
    containers. Returns a kubeconfig with the token of the operator's service account."""
    await replace_service(client, options)
    await lead_webhooks_to(port, client, options)
    return await _account_kubeconfig(kubernetes, client, options.namespace)


async def replace_service(client: Client, options: InstallOptions) -> None:
    """The Service of the webhooks means this machine."""
    await client.delete(SERVICES, SERVICE, options.namespace)
    outside = {"type": "ExternalName", "externalName": "localhost"}
    metadata = {"name": SERVICE, "labels": LABELS}
    await client.create(SERVICES, {"metadata": metadata, "spec": outside}, options.namespace)


async def lead_webhooks_to(port: int, client: Client, options: InstallOptions) -> None:
    for resource, name in names(rollouts=options.rollouts):
        hooks = (await client.get(resource, name)).get("webhooks") or []
        paths = [f"/webhooks/{number}" for number in range(len(hooks))] or ["/spec/conversion/webhook"]
        operations = [{"op": "add", "path": f"{path}/clientConfig/service/port", "value": port} for path in paths]
        await client.patch(resource, name, "", operations, PatchType.JSON)


async def account_token(client: Client, namespace: str) -> str:
    """Of the service account of an installed operator."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = await client.create(SERVICE_ACCOUNTS, request, namespace, "token", ACCOUNT)
    token: str = answer["status"]["token"]
    return token


async def _account_kubeconfig(kubernetes: ControlPlane, client: Client, namespace: str) -> Path:
    path = kubernetes.directory / f"kubeconfig-{namespace}"
    path.touch(mode=0o600)
    token = await account_token(client, namespace)
    path.write_text(kubernetes.kubeconfig.read_text().replace(f"token: {TOKEN}", f"token: {token}"))
    return path
