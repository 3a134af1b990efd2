"""`kohort dashboard` as a process."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar
from click.testing import CliRunner
from tests.children import environment
from tests.dashboard.scene import model_set, scene
from tests.dashboard.test_certificate_access import Files, session

from kohort.cli.dashboard import command

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


@pytest.mark.e2e
async def test_it_serves_tls_to_users_of_certificates(tmp_path: Path) -> None:
    files = Files(tmp_path)
    certificate, key = files.server()
    authority = tmp_path / "users.crt"
    authority.write_bytes(files.user_authority)
    options = ("--auth", "certificate", "--tls-cert", certificate, "--tls-key", key, "--client-ca", authority)
    async with scene(nodes=2) as found, found.cluster.listening() as address:
        await found.create(model_set("llm"))
        await found.ready("llm")
        async with (
            started(address.kubeconfig(tmp_path), *map(str, options)) as process,
            asyncio.timeout(LONG),
        ):
            assert process.stdout is not None
            word, base = (await process.stdout.readline()).decode().split()
            assert word == "dashboard" and base.startswith("https://127.0.0.1:")
            async with session(files.user("root", "system:masters")) as admin, admin.get(base) as answer:
                assert [one["name"] for one in (await answer.json())["rows"]] == ["llm"]
            async with session(files.without_certificate()) as browser:
                async with browser.get(base) as answer:
                    assert answer.status == 401
                async with browser.get(base, headers={"Accept": "text/html"}) as answer:
                    assert "show a client certificate" in await answer.text()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--tls-cert", "a.crt"], "--tls-cert and --tls-key belong together"),
        (["--auth", "certificate"], "--auth certificate needs --tls-cert and --tls-key"),
        (["--auth", "token", "--client-ca", "ca.crt"], "--client-ca needs --tls-cert"),
        (["--tls-cert", "a", "--tls-key", "b", "--client-ca", "c"], "--auth certificate or --auth token"),
        (["--auth", "proxy"], "--auth proxy and --proxy-secret-file belong together"),
    ],
)
def test_options_that_contradict_are_refused(options: list[str], problem: str) -> None:
    found = CliRunner().invoke(command, options)
    assert found.exit_code == 2
    assert problem in found.output


@pytest.mark.e2e
async def test_files_that_are_no_certificate_are_named(tmp_path: Path) -> None:
    files = Files(tmp_path)
    certificate, key = map(str, files.server())
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("")
    authority = tmp_path / "users.crt"
    authority.write_bytes(files.user_authority)
    good = ("--client-ca", str(authority))
    cases = [
        (("--tls-cert", "/nowhere.crt", "--tls-key", key, *good), "cannot read /nowhere.crt"),
        (("--tls-cert", str(wrong), "--tls-key", key, *good), "not a certificate"),
        (("--tls-cert", certificate, "--tls-key", key, "--client-ca", str(wrong)), f"{wrong} is empty"),
        (("--tls-cert", certificate, "--tls-key", key, "--client-ca", "cluster"), "give the authority as a file"),
    ]
    async with scene(nodes=1) as found, found.cluster.listening() as address:
        for options, expected in cases:
            given = ("--auth", "certificate", *options)
            async with started(address.kubeconfig(tmp_path), *given) as process, asyncio.timeout(LONG):
                _, problem = await process.communicate()
            assert (process.returncode, expected in problem.decode()) == (1, True), problem
