"""The certificates of a cluster: an authority of its own, the server's certificate and the administrator's.

A second authority vouches for one client only, the front proxy: as that the server passes requests on to aggregated API
servers, which believe it about who the caller is. No other certificate of the cluster may be mistaken for it.

They are made at the first start and kept; the authority for ten years, what it signs for one. At every start, and once
a day, what is about to expire, is damaged or no longer fits is issued again. An inventory beside the files says what
each certificate is for and until when, so that a start with everything in order needs no certificate parser.
"""

import hashlib
import secrets
import ssl
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import msgspec

from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.kube.private_files import make_private_directory, write_private

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
RENEW_DAYS = 30
"""Issue again what has less than this left."""

FRONT_PROXY = "front-proxy-client"
"""The name that aggregated API servers look for in the client certificate of the server that forwards requests to
them."""

SERVER_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    "::1",
)


class KeysUnusable(Exception):
    """Something is missing or damaged that others rely on. Making a new one would lock them out."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is {problem}; restore it, or move {path.parent} away to make new certificates "
            "(then every kubeconfig and every token of this cluster must be replaced)"
        )


class CertificateRecord(msgspec.Struct, frozen=True):
    """What is known of an issued certificate."""

    authority: str
    """Hash of the authority's certificate."""
    name: str
    names: tuple[str, ...]
    """Addresses of a server, groups of a client."""
    expires: float


class Pki:
    """The directory with the certificates and keys of one cluster."""

    def __init__(self, directory: Path, server_names: Sequence[str] = ()) -> None:
        self.directory = directory
        self._server_names = tuple(dict.fromkeys((*SERVER_NAMES, *server_names)))
        self.ca_certificate = directory / "ca.crt"
        self.ca_key = directory / "ca.key"
        self.server_certificate = directory / "server.crt"
        self.server_key = directory / "server.key"
        self.admin_certificate = directory / "admin.crt"
        self.admin_key = directory / "admin.key"
        self.front_proxy_authority = directory / "front-proxy-ca.crt"
        self.front_proxy_authority_key = directory / "front-proxy-ca.key"
        self.front_proxy_certificate = directory / "front-proxy.crt"
        self.front_proxy_key = directory / "front-proxy.key"
        self.service_account_key = directory / "service-account.key"
        self.token_file = directory / "token"
        self._inventory = directory / "inventory.json"

    @property
    def token(self) -> str:
        """The static token of the administrator."""
        return self.token_file.read_text().strip()

    def ensure(self) -> bool:
        """Make what is missing, renew what is due. True when the server's or a client's certificate is new."""
        make_private_directory(self.directory)
        self._ensure_authority()
        self._ensure_front_proxy_authority()
        if not self.service_account_key.exists():
            from kohort.kube.certificate_issuing import new_key

            write_private(self.service_account_key, new_key())
        elif not _is_framed(self.service_account_key):
            raise KeysUnusable(self.service_account_key, "damaged")
        if not self.token_file.exists() or not self.token:
            write_private(self.token_file, secrets.token_urlsafe(32).encode())
        inventory = self._read_inventory()
        wanted = {
            "server": ("kubernetes", self._server_names),
            "admin": (ADMIN.name, tuple(group for group in ADMIN.groups if group != "system:authenticated")),
            "front-proxy": (FRONT_PROXY, ()),
        }
        due = [key for key, (name, names) in wanted.items() if not self._is_good(key, inventory.get(key), name, names)]
        for key in due:
            name, names = wanted[key]
            inventory[key] = self._issue(key, name, names)
        if due:
            write_private(self._inventory, msgspec.json.encode(inventory))
        return bool(due)

    def server_context(self) -> ssl.SSLContext:
        """TLS for the API server: clients may show a certificate, and if they do it must be of our authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.server_certificate, self.server_key)
        context.load_verify_locations(self.ca_certificate)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.num_tickets = (
            0  # Clients of an API server keep their connections; a ticket costs as much as a signature.
        )
        return context

    def _ensure_authority(self) -> None:
        halves = [path for path in (self.ca_certificate, self.ca_key) if path.exists()]
        if not halves or self._is_unfinished():
            from kohort.kube.certificate_issuing import new_authority

            certificate, key = new_authority("kohort", timedelta(days=AUTHORITY_DAYS))
            write_private(self.ca_key, key)
            write_private(self.ca_certificate, certificate)
        elif len(halves) == 1:
            missing = self.ca_key if halves == [self.ca_certificate] else self.ca_certificate
            raise KeysUnusable(missing, "missing")
        elif not _fit(self.ca_certificate, self.ca_key):
            damaged = self.ca_key if _is_certificate(self.ca_certificate) else self.ca_certificate
            raise KeysUnusable(damaged, "damaged")

    def _ensure_front_proxy_authority(self) -> None:
        """Nothing outside of the cluster relies on it, and those inside read it from the cluster: a damaged one is
        replaced."""
        if not _fit(self.front_proxy_authority, self.front_proxy_authority_key):
            from kohort.kube.certificate_issuing import new_authority

            certificate, key = new_authority("kohort-front-proxy", timedelta(days=AUTHORITY_DAYS))
            write_private(self.front_proxy_authority_key, key)
            write_private(self.front_proxy_authority, certificate)

    def _is_unfinished(self) -> bool:
        """A first start was interrupted when it had written only the key of the authority: no client has seen it
        yet."""
        return [path.name for path in self.directory.glob("[!.]*")] == [self.ca_key.name]

    def _read_inventory(self) -> dict[str, CertificateRecord]:
        try:
            return msgspec.json.decode(self._inventory.read_bytes(), type=dict[str, CertificateRecord])
        except (FileNotFoundError, msgspec.DecodeError):
            return {}

    def _is_good(self, key: str, entry: CertificateRecord | None, name: str, names: tuple[str, ...]) -> bool:
        return (
            entry is not None
            and entry.authority == self._authority_hash(key)
            and (entry.name, entry.names) == (name, names)
            and entry.expires > time.time() + RENEW_DAYS * 86400
            and _fit(*self._files(key))
        )

    def _issue(self, key: str, name: str, names: tuple[str, ...]) -> CertificateRecord:
        from kohort.kube.certificate_issuing import Authority

        certificate, private = self._authority_files(key)
        authority = Authority(certificate.read_bytes(), private.read_bytes())
        life = timedelta(days=CERTIFICATE_DAYS)
        if key == "server":
            issued = authority.issue(name=name, addresses=names, life=life, server=True)
        else:
            issued = authority.issue(name=name, organizations=names, life=life, server=False)
        for path, content in zip(self._files(key), issued, strict=True):
            write_private(path, content)
        return CertificateRecord(self._authority_hash(key), name, names, time.time() + life.total_seconds())

    def _files(self, key: str) -> tuple[Path, Path]:
        return (self.directory / f"{key}.crt", self.directory / f"{key}.key")

    def _authority_files(self, key: str) -> tuple[Path, Path]:
        """The authority that signs a certificate."""
        if key == "front-proxy":
            return self.front_proxy_authority, self.front_proxy_authority_key
        return self.ca_certificate, self.ca_key

    def _authority_hash(self, key: str) -> str:
        return hashlib.sha256(self._authority_files(key)[0].read_bytes()).hexdigest()


def _fit(certificate: Path, key: Path) -> bool:
    """Whether both are there and belong together."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (FileNotFoundError, ssl.SSLError):
        return False
    return True


def _is_certificate(path: Path) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        return False
    return True


def _is_framed(path: Path) -> bool:
    """Whether a file looks like a key, as far as can be seen without the library that reads one."""
    lines = path.read_bytes().split()
    return lines[:1] == [b"-----BEGIN"] and lines[-1:] == [b"KEY-----"]


def ensure_pki(directory: Path, server_names: Sequence[str] = ()) -> Pki:
    """The certificates in `directory`, made or renewed as needed; `server_names` are more addresses of the server."""
    pki = Pki(directory, server_names)
    pki.ensure()
    return pki
