"""`kohort dashboard` as a process."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar
from tests.children import environment
from tests.dashboard.scene import model_set, scene

LONG = 600
"""Seconds of a clock that runs ten times as fast as a real one."""


@contextlib.asynccontextmanager
async def started(kubeconfig: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kohort", "dashboard", "--kubeconfig", str(kubeconfig), "--port", "0", *options),
        env=environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.mark.e2e
async def test_it_prints_a_link_that_opens_the_fleet(tmp_path: Path) -> None:
    async with scene(nodes=2) as found, found.cluster.listening() as address:
        await found.create(model_set("llm"))
        await found.ready("llm")
        async with started(address.kubeconfig(tmp_path)) as process:
            assert process.stdout is not None and process.stderr is not None
            async with asyncio.timeout(LONG):
                word, link = (await process.stdout.readline()).decode().split()
                assert word == "dashboard"
                base = link.partition("/dashboard")[0]
                jar = CookieJar(unsafe=True, treat_as_secure_origin=[base])
                async with ClientSession(cookie_jar=jar) as session:
                    async with session.get(link) as answer:
                        assert answer.status == 200
                        assert "llm" in await answer.text()
                    line = (await process.stderr.readline()).decode()
                    assert line.startswith("opened; for another browser: http://127.0.0.1:")
                    async with session.get(line.split()[-1]) as answer:
                        assert answer.status == 200
                process.send_signal(signal.SIGINT)
                assert await process.wait() == 130


@pytest.mark.e2e
async def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    async with scene(nodes=2) as found, found.cluster.listening() as address:
        port = address.server.rpartition(":")[2]
        async with started(address.kubeconfig(tmp_path), "--port", port) as process, asyncio.timeout(LONG):
            _, problem = await process.communicate()
        assert process.returncode == 1
        assert f"cannot listen on 127.0.0.1:{port}" in problem.decode()
        assert "choose another with --port" in problem.decode()
