"""A cluster that exists for one demo: this machine is its only node, and nothing of it is left afterwards."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kohort.demo.isolation import end_with_parent
from kohort.kube.client import Client
from kohort.kube.kubeconfig import load

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0
LONGEST_PLACE: Final = 40


class CannotBegin(Exception):
    """The message says why, and what to do."""


@dataclass(frozen=True)
class Home:
    kubeconfig: Path
    client: Client

    async def command(self, *words: str) -> tuple[int, str]:
        """Run a command of kohort, as a person would; its exit code, and what it says."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kohort", *words, "--kubeconfig", str(self.kubeconfig)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await process.communicate()
        except asyncio.CancelledError:
            await asyncio.shield(_stopped(process))
            raise
        return process.returncode or 0, said.decode(errors="replace").rstrip()


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[Home]:
    """Raises CannotBegin."""
    with tempfile.TemporaryDirectory(prefix="kohort-demo-", dir=_place(), ignore_cleanup_errors=True) as directory:
        data = Path(directory) / "data"
        async with _running(data, Path(directory) / "log"):
            client = Client(load(data / "kubeconfig"), field_manager="kohort-demo")
            try:
                yield Home(data / "kubeconfig", client)
            finally:
                await client.close()


def _place() -> str | None:
    """Sockets are in it, and their paths must be short: the usual place, unless that is too deep."""
    return None if len(tempfile.gettempdir()) <= LONGEST_PLACE else "/tmp"


@contextlib.asynccontextmanager
async def _running(data: Path, log: Path) -> AsyncIterator[None]:
    """`kohort up` in a session of its own: Ctrl-C is for the demo, which ends the cluster when its client has gone."""
    reading, writing = os.pipe()
    with log.open("wb") as complaints, os.fdopen(writing, "wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kohort", "up", "--data-dir", str(data), "--port", "0"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=complaints,
            env={**os.environ, "KOHORT_LOG": "error"},
            start_new_session=True,
            preexec_fn=lambda: end_with_parent(signal.SIGTERM),
        )
    try:
        if not (await first_line(reading)).startswith(b"ready"):
            raise CannotBegin(f"the cluster did not start: {_last_line(log)}")
        yield
    finally:
        await asyncio.shield(_stopped(process))


async def first_line(descriptor: int) -> bytes:
    """What is written to a pipe first; nothing if that takes too long. The pipe is ours and not the subprocess's: that
    one would stay open for as long as any process of the cluster has it, and asyncio would close it after its loop."""
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
    said = log.read_text(errors="replace").strip().splitlines()
    return said[-1] if said else "it said nothing"


async def _stopped(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
