"""Pods as real processes below `kohort up`, for tests of what pods are promised."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.children import environment

from kohort.kube import kubeconfig
from kohort.kube.client import Client
from kohort.kube.resources import PODS
from kohort.objects.json_types import Json, JsonObject

SERVE = "import http.server as h; h.HTTPServer(('0.0.0.0', 8080), h.SimpleHTTPRequestHandler).serve_forever()"


@contextlib.contextmanager
def up(directory: Path, *before: str) -> Iterator[Path]:
    command = [*before, sys.executable, "-m", "kohort", "up", "--data-dir", str(directory), "--port", "0"]
    child = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None and child.stdout.readline().startswith("ready ")
        yield directory
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(30)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounts of volumes are only sure to work for root")
    with up(tmp_path_factory.mktemp("processes") / "data") as directory:
        yield directory


class Bench:
    def __init__(self, client: Client, data: Path) -> None:
        self.client = client
        self.data = data

    async def run(self, name: str, *containers: JsonObject, labels: JsonObject | None = None, **spec: Json) -> None:
        document = {
            "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
            "spec": {"terminationGracePeriodSeconds": 2, "containers": list(containers), **spec},
        }
        await self.client.create(PODS, document, "default")

    async def until(self, name: str, holds: Callable[[JsonObject], bool]) -> JsonObject:
        status: JsonObject = {}
        try:
            async with asyncio.timeout(60):
                while True:
                    status = (await self.client.get(PODS, name, "default")).get("status") or {}
                    with contextlib.suppress(KeyError, IndexError):
                        if holds(status):
                            return dict(status)
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not after 60 s: {json.dumps(status)}") from None

    async def ended(self, name: str, phase: str = "Succeeded") -> JsonObject:
        status = await self.until(name, lambda found: found.get("phase") in ("Succeeded", "Failed"))
        assert status["phase"] == phase, json.dumps(status)
        return status

    async def ready(self, name: str) -> JsonObject:
        def holds(status: JsonObject) -> bool:
            return any(each["type"] == "Ready" and each["status"] == "True" for each in status["conditions"])

        return await self.until(name, holds)

    async def said(self, name: str, text: str) -> None:
        """Wait until a pod has said this."""
        async with asyncio.timeout(60):
            while (found := await self.log(name)) != text:
                assert text.startswith(found), found
                await asyncio.sleep(0.1)

    async def gone(self, name: str) -> None:
        """Delete a pod and wait until it is gone."""
        await self.client.delete(PODS, name, "default", grace_seconds=1)
        async with asyncio.timeout(60):
            while await self.client.find(PODS, name, "default") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def log(self, name: str, container: str = "c") -> str:
        return await self.kubectl("logs", name, "-c", container)

    async def kubectl(self, *words: str) -> str:
        command = ["kubectl", f"--kubeconfig={self.data}/kubeconfig", *words]
        asked = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        return (await asked.communicate())[0].decode()


@pytest.fixture
async def bench(data: Path) -> AsyncIterator[Bench]:
    client = Client(kubeconfig.load(data / "kubeconfig"))
    yield Bench(client, data)
    await client.close()


def shell(script: str, name: str = "c", **more: Json) -> JsonObject:
    return {"name": name, "image": "host", "command": ["sh", "-c", script], **more}


def volume(name: str, path: str, **more: Json) -> JsonObject:
    return {"name": name, "mountPath": path, **more}
