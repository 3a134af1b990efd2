"""`dashboard`: serves until interrupted."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.cli.connection import Refusal
from kohort.dashboard.access import ProxyUsers
from kohort.dashboard.running import running
from kohort.dashboard.server import LOOPBACK, Settings
from kohort.kube.client import Client
from kohort.kube.transport import HttpsTransport

LOOPBACK_ADDRESSES: Final = ("127.0.0.1", "localhost", "::1")


async def serve(
    client: Client,
    namespace: str,
    host: str,
    port: int,
    auth: str,
    allowed_hosts: Sequence[str],
    *,
    allow_actions: bool,
    namespaces: tuple[str, ...],
    secret_file: str | None = None,
) -> int:
    if auth == "link" and host not in LOOPBACK_ADDRESSES:
        raise Refusal(
            f"--host {host}: with a one-time link the dashboard acts as you, so it listens on a loopback address only; "
            "for others, use --auth token behind something that brings TLS"
        )
    settings = Settings((*LOOPBACK, *(one.lower() for one in allowed_hosts)), allow_actions)
    transport = client.transport
    if auth != "link" and not isinstance(transport, HttpsTransport):
        raise Refusal(f"--auth {auth} needs a connection to an API server")
    connection = transport.connection if isinstance(transport, HttpsTransport) and auth == "token" else None
    proxy = _proxy(transport, secret_file) if isinstance(transport, HttpsTransport) and secret_file else None
    base = f"http://{_reachable(host)}"

    def used(link: str) -> None:
        click.echo(f"opened; for another browser: {base}:{port}{link}", err=True)

    try:
        async with running(
            client,
            (host, port),
            settings,
            CliCommands(),
            namespace=namespace,
            namespaces=namespaces,
            tokens_of=connection,
            proxy=proxy,
            link_used=used,
        ) as found:
            port = found.port
            link = found.link()
            click.echo(f"dashboard {base}:{port}{link or '/dashboard/'}")
            if link:
                click.echo("The link works once. Stop with Ctrl-C.")
            await asyncio.Event().wait()
    except OSError as problem:
        raise Refusal(f"cannot listen on {host}:{port}: {problem.strerror}; choose another with --port") from problem
    return 0


def _proxy(transport: HttpsTransport, secret_file: str) -> ProxyUsers:
    try:
        return ProxyUsers(transport, Path(secret_file).read_text().strip())
    except OSError as problem:
        raise Refusal(f"--proxy-secret-file: cannot read {secret_file}: {problem.strerror}") from problem
    except ValueError as problem:
        raise Refusal(f"--proxy-secret-file {secret_file}: {problem}") from problem


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("", "0.0.0.0", "::") else f"[{host}]" if ":" in host else host
