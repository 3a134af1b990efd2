"""A cluster for one demo: this machine is its only node, and all of it is removed afterwards."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kohort.demo.isolation import end_with_parent
from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.rules.python_command import python_command

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
LONGEST_TEMPORARY_DIRECTORY: Final = 40
"""Characters. Paths of Unix sockets below the directory must stay within 108."""


class CannotStartDemo(Exception):
    """The message says why, and what to do."""


@dataclass(frozen=True)
class DemoCluster:
    kubeconfig: Path
    client: Client

    async def command(self, *words: str) -> tuple[int, str]:
        """Run a command of kohort in a process of its own; returns its exit code and output."""
        process = await asyncio.create_subprocess_exec(
            *python_command("kohort", *words, "--kubeconfig", str(self.kubeconfig)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            await asyncio.shield(_stop(process))
            raise
        return process.returncode or 0, output.decode(errors="replace").rstrip()


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[DemoCluster]:
    """Raises CannotStartDemo."""
    with tempfile.TemporaryDirectory(
        prefix="kohort-demo-", dir=_parent_directory(), ignore_cleanup_errors=True
    ) as directory:
        data = Path(directory) / "data"
        async with _running(data, Path(directory) / "log"):
            client = Client(load(data / "kubeconfig"), field_manager="kohort-demo")
            try:
                yield DemoCluster(data / "kubeconfig", client)
            finally:
                await client.close()


def _parent_directory() -> str | None:
    """None for the default temporary directory, unless paths of sockets in it would be too long."""
    return None if len(tempfile.gettempdir()) <= LONGEST_TEMPORARY_DIRECTORY else "/tmp"


@contextlib.asynccontextmanager
async def _running(data: Path, log: Path) -> AsyncIterator[None]:
    """Runs `kohort up` in a session of its own, so that Ctrl-C reaches the demo only, which ends the cluster last."""
    reading, writing = os.pipe()
    with log.open("wb") as errors, os.fdopen(writing, "wb") as output:
        process = await asyncio.create_subprocess_exec(
            *python_command("kohort", "up", "--data-dir", str(data), "--port", "0", "--runtime", "process"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={**os.environ, "KOHORT_LOG": "error"},
            start_new_session=True,
            preexec_fn=lambda: end_with_parent(signal.SIGTERM),
        )
    try:
        if not (await first_line(reading)).startswith(b"ready"):
            raise CannotStartDemo(f"the cluster did not start: {_last_line(log)}")
        yield
    finally:
        await asyncio.shield(_stop(process))


async def first_line(descriptor: int) -> bytes:
    """The first line written to a pipe; empty after START_SECONDS.

    The demo makes the pipe itself: asyncio would keep a pipe of its subprocess open for as long as any process of the
    cluster has it, and close it after the end of the event loop."""
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb")
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        return await asyncio.wait_for(reader.readline(), START_SECONDS)
    except TimeoutError:
        return b""
    finally:
        transport.close()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed no error"


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
