"""Which certificate a client gets, by the server name that it asks for.

Certificates are those of Secrets that an Ingress (`spec.tls`) or a listener of a Gateway (`tls.certificateRefs`) names.

| the client asks for                   | it gets                                                    |
|---------------------------------------|------------------------------------------------------------|
| a name that has a certificate         | that one                                                   |
| a name below a wildcard that has one  | that one                                                   |
| any other name                        | the certificate for any name; without one it is rejected   |
| no name at all                        | the certificate for any name, or else the first            |

A Secret that changes is used for the next connection; those that are open stay.
"""

import ssl
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from kohort.cluster.gateway.gateway_listeners import certificate_key, may_use
from kohort.cluster.gateway.views import Gateway, ReferenceGrant
from kohort.kube.resources import Key
from kohort.objects.core import Secret
from kohort.objects.networking import Ingress

ANY_HOST: Final = ""
_FILES: Final = ("tls.crt", "tls.key")


class Pair(msgspec.Struct, frozen=True):
    """A certificate chain and its key, as PEM."""

    chain: bytes
    key: bytes


class BadCertificate(ValueError):
    pass


def wanted(
    ingresses: Iterable[Ingress], gateways: Iterable[Gateway], grants: tuple[ReferenceGrant, ...] = ()
) -> dict[str, Key]:
    """The Secret for each host; of several the oldest object's counts."""
    found: dict[str, Key] = {}
    for ingress in sorted(ingresses, key=_age):
        for tls in ingress.spec.tls:
            for host in tls.hosts or (ANY_HOST,):
                if tls.secret_name:
                    found.setdefault(host.lower(), Key(ingress.metadata.namespace, tls.secret_name))
    for gateway in sorted(gateways, key=_age):
        for host, key in wanted_by(gateway, grants).items():
            found.setdefault(host, key)
    return found


def wanted_by(gateway: Gateway, grants: Iterable[ReferenceGrant], port: int | None = None) -> dict[str, Key]:
    """The Secret for each host of the listeners of a Gateway, or of those on one port."""
    known = tuple(grants)
    found: dict[str, Key] = {}
    for listener in gateway.spec.listeners:
        for ref in listener.certificates if port in (None, listener.port) else ():
            if ref.kind == "Secret" and not ref.group and may_use(gateway, ref, known):
                found.setdefault(listener.hostname.lower(), certificate_key(gateway, ref))
    return found


def _age(subject: Ingress | Gateway) -> tuple[str, str, str]:
    metadata = subject.metadata
    return metadata.creation_timestamp or "", metadata.namespace, metadata.name


def pair_of(secret: Secret | None, key: Key) -> Pair:
    """The pair in a Secret; ValueError says what is wrong with the Secret and how to fix it."""
    if secret is None:
        text = f"there is no Secret {key} of type kubernetes.io/tls; create it with kubectl create secret tls"
        raise BadCertificate(text)
    found = [secret.value(name) or b"" for name in _FILES]
    for name, content in zip(_FILES, found, strict=True):
        if not content:
            raise BadCertificate(f"Secret {key} has no {name}")
    pair = Pair(*found)
    try:
        context_of(pair)
    except (ssl.SSLError, ValueError) as problem:
        raise BadCertificate(
            f"Secret {key}: tls.crt and tls.key are not a certificate and its key: {problem}"
        ) from None
    return pair


def context_of(pair: Pair) -> ssl.SSLContext:
    context = _context()
    with tempfile.TemporaryDirectory(prefix="kohort-") as directory:
        chain, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
        for path, content in ((chain, pair.chain), (key, pair.key)):
            path.touch(mode=0o600)
            path.write_bytes(content)
        # An encrypted key is an error: OpenSSL must not ask for a password on the terminal.
        context.load_cert_chain(chain, key, password=b"")
    return context


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


class Certificates:
    """The certificates in use."""

    def __init__(self) -> None:
        self.context = _context()
        """For a listening socket: the handshake itself says which certificate it goes on with."""
        self.context.sni_callback = self._answer
        self._pairs: dict[str, Pair] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._names: WeakKeyDictionary[ssl.SSLObject, str] = WeakKeyDictionary()

    def use(self, pairs: Mapping[str, Pair]) -> None:
        known = self._pairs, self._contexts
        self._pairs = dict(pairs)
        self._contexts = {
            host: known[1][host] if known[0].get(host) == pair else context_of(pair) for host, pair in pairs.items()
        }

    def choose(self, name: str | None) -> ssl.SSLContext | None:
        found = self._contexts
        if not name:
            return found.get(ANY_HOST) or (found[min(found)] if found else None)
        host = name.lower()
        parts = host.split(".")
        wider = ("*." + ".".join(parts[place:]) for place in range(1, len(parts)))
        return next((found[one] for one in (host, *wider, ANY_HOST) if one in found), None)

    def _answer(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
        context = self.choose(name)
        if context is None:
            return ssl.AlertDescription.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = context
        if name:
            self._names[connection] = name.lower()
        return None

    def server_name(self, connection: ssl.SSLObject | None) -> str:
        """The name that the client of a connection asked for; empty without one."""
        return self._names.get(connection, "") if connection is not None else ""
