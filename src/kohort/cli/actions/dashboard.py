"""`dashboard`: serves until interrupted."""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.cli.connection import Refusal
from kohort.dashboard.access import CertificateUsers, ProxyUsers
from kohort.dashboard.running import running
from kohort.dashboard.server import LOOPBACK, DashboardSettings
from kohort.dashboard.tls_listener import (
    AUTHENTICATION,
    AuthoritySource,
    TlsFiles,
    TlsListener,
    authority_in_file,
    cluster_client_authority,
)
from kohort.kube.client import Client
from kohort.kube.transport import HttpsTransport

LOOPBACK_ADDRESSES: Final = ("127.0.0.1", "localhost", "::1")
CLUSTER: Final = "cluster"


class TlsOptions(msgspec.Struct, frozen=True):
    certificate: str
    key: str
    client_authority: str
    """A file, `cluster` for the cluster's own authority, or empty."""


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
    tls: TlsOptions | None = None,
) -> int:
    if auth == "link" and host not in LOOPBACK_ADDRESSES:
        raise Refusal(
            f"--host {host}: with a one-time link the dashboard acts as you, so it listens on a loopback address only; "
            "for others, use --auth token or --auth certificate with --tls-cert and --tls-key"
        )
    settings = DashboardSettings((*LOOPBACK, *(one.lower() for one in allowed_hosts)), allow_actions)
    transport = client.transport
    if auth != "link" and not isinstance(transport, HttpsTransport):
        raise Refusal(f"--auth {auth} needs a connection to an API server")
    connection = transport.connection if isinstance(transport, HttpsTransport) and auth == "token" else None
    proxy = _proxy(transport, secret_file) if isinstance(transport, HttpsTransport) and secret_file else None
    listener = await _listener(client, tls) if tls is not None else None
    certificates = None
    if tls is not None and tls.client_authority and isinstance(transport, HttpsTransport):
        certificates = CertificateUsers(transport, listener.is_current if listener is not None else lambda _: True)
    base = f"{'https' if tls is not None else 'http'}://{_reachable(host)}"

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
            certificates=certificates,
            tls=listener,
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


async def _listener(client: Client, options: TlsOptions) -> TlsListener:
    authority = await _authority(client, options.client_authority) if options.client_authority else ""
    try:
        source = _authority_source(client, options.client_authority) if authority else None
        return TlsListener(TlsFiles(Path(options.certificate), Path(options.key), authority), source)
    except ssl.SSLError as problem:
        files = f"--tls-cert {options.certificate}, --tls-key {options.key}"
        if authority:
            files += f", --client-ca {options.client_authority}"
        reason = problem.reason or problem.args[-1]
        raise Refusal(f"{files}: not a certificate, its key and an authority in PEM: {reason}") from problem
    except OSError as problem:
        raise Refusal(f"--tls-cert, --tls-key: cannot read {problem.filename}: {problem.strerror}") from problem


def _authority_source(client: Client, source: str) -> AuthoritySource:
    if source != CLUSTER:
        return authority_in_file(Path(source))

    async def read() -> str:
        return await cluster_client_authority(client) or ""

    return read


async def _authority(client: Client, source: str) -> str:
    if source != CLUSTER:
        return _read_authority(Path(source))
    found = await cluster_client_authority(client)
    if found is None:
        raise Refusal(
            f"--client-ca cluster: the ConfigMap {AUTHENTICATION} in namespace kube-system names no authority of "
            "clients, or you may not read it; give the authority as a file: --client-ca FILE"
        )
    return found


def _read_authority(file: Path) -> str:
    try:
        found = file.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise Refusal(f"--client-ca: cannot read {file}: {problem}") from problem
    if not found.strip():
        raise Refusal(f"--client-ca: {file} is empty; it must have at least one certificate in PEM")
    return found


def _proxy(transport: HttpsTransport, secret_file: str) -> ProxyUsers:
    try:
        return ProxyUsers(transport, Path(secret_file).read_text().strip())
    except OSError as problem:
        raise Refusal(f"--proxy-secret-file: cannot read {secret_file}: {problem.strerror}") from problem
    except ValueError as problem:
        raise Refusal(f"--proxy-secret-file {secret_file}: {problem}") from problem


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("", "0.0.0.0", "::") else f"[{host}]" if ":" in host else host
