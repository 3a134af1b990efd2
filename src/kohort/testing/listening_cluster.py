"""A cluster of a test on a loopback port, for programs that run in another process.

It serves TLS with a certificate authority of its own: client-go, and with it kubectl and every operator in Go, sends
tokens over TLS only.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from kohort.cluster.apiserver.auth.authentication import Authenticator
from kohort.cluster.apiserver.server import ApiServer


class Address(msgspec.Struct, frozen=True):
    """Where a cluster listens: its URL, the token of its administrator, and its certificate authority (PEM)."""

    server: str
    token: str
    authority: str

    def kubeconfig(self, directory: Path) -> Path:
        """A file that kubectl and every client library understand."""
        authority = base64.b64encode(self.authority.encode()).decode()
        cluster = {"server": self.server, "certificate-authority-data": authority}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        path = directory / "kubeconfig"
        path.write_bytes(msgspec.json.encode(document))
        path.chmod(0o600)
        return path


@asynccontextmanager
async def listening(server: ApiServer, authenticator: Authenticator, token: str) -> AsyncIterator[Address]:
    """`token` is one that `authenticator` takes for the administrator's; those of service accounts work as well."""
    from kohort.cluster.apiserver.auth.certificates import ensure_pki
    from kohort.cluster.apiserver.http.https_server import HttpsServer

    with TemporaryDirectory(prefix="kohort-test-") as directory:
        pki = ensure_pki(Path(directory))
        front = HttpsServer(server, authenticator.authenticate, tls=pki.server_context())
        authority = pki.ca_certificate.read_text()
    await front.start()
    try:
        yield Address(f"https://127.0.0.1:{front.port}", token, authority)
    finally:
        await front.stop()
