"""TLS of the dashboard's own: its certificate, and the authority whose client certificates name users.

| | |
|---|---|
| certificate and key | two files; renewed files are loaded within `LOOK_AGAIN_SECONDS`, without a restart |
| authority of users | PEM, from a file or from the cluster (`cluster_client_authority`), looked at as often |

A client certificate is optional in the handshake: probes have none, and a browser without one gets a page that says so.
One that is shown must be signed by the authority for use by clients, and be within its time; otherwise the handshake
fails.

OpenSSL cannot forget an authority, so another one gets a context of its own, which handshakes are moved to as they
begin. Connections of the former one stay open, but their certificates count no more (`is_current`). Sessions are not
resumed, because a resumed one brings the certificate of its first handshake, also if its authority is gone.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from kohort.kube.client import Client
from kohort.kube.errors import ApiError, Forbidden, NotFound
from kohort.kube.log import Log
from kohort.kube.resources import CONFIG_MAPS
from kohort.objects.core import ConfigMap

LOOK_AGAIN_SECONDS: Final = 30.0
AUTHENTICATION: Final = "extension-apiserver-authentication"
"""The ConfigMap in kube-system by which an API server publishes the authority of its clients."""
_log = Log(module="kohort.dashboard")


class TlsFiles(msgspec.Struct, frozen=True):
    certificate: Path
    key: Path
    client_authority: str = ""
    """PEM; empty if users show no certificates."""

    @property
    def written(self) -> tuple[int, int]:
        return self.certificate.stat().st_mtime_ns, self.key.stat().st_mtime_ns


AuthoritySource = Callable[[], Awaitable[str]]
"""Reads the authority of users again, as PEM; empty if there is none any more."""


class TlsListener:
    def __init__(self, files: TlsFiles, authority_source: AuthoritySource | None = None) -> None:
        """Raises OSError (also for files that are no certificate and key: ssl.SSLError)."""
        self._files = files
        self._loaded = files.written
        self._authority = files.client_authority
        self._authority_source = authority_source
        self.context = self._current = self._new_context(files.client_authority)
        if files.client_authority:
            self.context.sni_callback = self._move

    def _new_context(self, authority: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self._load(context)
        if self._files.client_authority:
            context.minimum_version = ssl.TLSVersion.TLSv1_3  # Earlier versions resume sessions by their numbers.
            context.num_tickets = 0
            context.verify_mode = ssl.CERT_OPTIONAL
            if authority:
                context.load_verify_locations(cadata=authority)
        return context

    def _move(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Called at the beginning of each handshake."""
        connection.context = self._current

    def is_current(self, connection: ssl.SSLObject | None) -> bool:
        """Whether the certificate of a connection was verified against the present authority."""
        return connection is not None and connection.context is self._current

    def renew_authority(self, authority: str) -> bool:
        """True if it is another one; empty: certificates of users are not accepted any more. Raises ssl.SSLError for
        what is no certificate; the former authority counts on then."""
        if authority == self._authority:
            return False
        self._current = self._new_context(authority)
        self._authority = authority
        _log.info("authority of client certificates renewed", accepts=bool(authority))
        return True

    def _load(self, context: ssl.SSLContext) -> None:
        # An encrypted key is an error: OpenSSL must not ask for a password on the terminal.
        context.load_cert_chain(self._files.certificate, self._files.key, password=b"")

    async def reload_renewed(self) -> None:
        """Until cancelled. Files that do not belong together, as while they are being replaced, are tried again."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            with contextlib.suppress(OSError):
                self.reload()
            await self.reload_authority()

    async def reload_authority(self) -> bool:
        """True if another authority counts from now on. While the source cannot be asked, the known one does."""
        if self._authority_source is None:
            return False
        try:
            return self.renew_authority(await self._authority_source())
        except (ApiError, OSError) as problem:
            _log.error("authority of client certificates cannot be read again", problem=str(problem))
            return False

    def reload(self) -> bool:
        """True if the files were renewed; new connections have the new certificate."""
        written = self._files.written
        if written == self._loaded:
            return False
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self._load(self.context)
        self._load(self._current)
        self._loaded = written
        _log.info("certificate renewed", file=str(self._files.certificate))
        return True


def authority_in_file(file: Path) -> AuthoritySource:
    """A file that is gone, or empty, has no authority."""

    async def read() -> str:
        try:
            found = await asyncio.to_thread(file.read_text)
        except (FileNotFoundError, UnicodeDecodeError):
            return ""
        return found if found.strip() else ""

    return read


async def cluster_client_authority(client: Client) -> str | None:
    """The authority whose certificates the cluster itself takes for its users, as PEM; None where it is not published,
    or may not be read."""
    try:
        found = await client.get(CONFIG_MAPS, AUTHENTICATION, "kube-system", type=ConfigMap)
    except (Forbidden, NotFound):
        return None
    return found.data.get("client-ca-file") or None
