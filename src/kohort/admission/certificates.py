"""Certificates for the webhook server: an authority of its own, and a serving certificate signed by it.

When the authority itself must be renewed, the old one stays in the bundle beside the new one: a client that trusts the
bundle accepts servers that have the new certificate already and servers that do not have it yet.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from kohort.admission.certificate_bundle import Bundle
from kohort.kube.certificate_issuing import Authority, certificate_bytes, load_key, new_authority

CA_LIFE: Final = timedelta(days=3650)
SERVING_LIFE: Final = timedelta(days=365)
RENEW_BEFORE: Final = timedelta(days=90)


def issue(names: list[str], *, authority: Bundle | None = None, now: datetime | None = None) -> Bundle:
    """A new serving certificate for these DNS names and addresses; signed by `authority` if it is given and lasts."""
    moment = now or datetime.now(UTC)
    if authority is not None and _lasts(authority.ca_certificate, moment):
        ca_certificate, ca_key = _first(authority.ca_certificate), authority.ca_key
    else:
        ca_certificate, ca_key = new_authority("lws-ca", CA_LIFE, organizations=("lws",), now=moment)
    certificate, key = Authority(ca_certificate, ca_key).issue(
        name=names[0], addresses=names, life=SERVING_LIFE, server=True, now=moment
    )
    return Bundle(ca_certificate, ca_key, certificate, key)


def must_renew(bundle: Bundle, now: datetime | None = None) -> bool:
    return bundle.expires - (now or datetime.now(UTC)) < RENEW_BEFORE


def successor(before: Bundle | None, names: list[str], now: datetime | None = None) -> Bundle:
    """The bundle after `before`, which clients of both can trust."""
    if before is not None and not _has_authority(before):
        before = None
    bundle = issue(names, authority=before, now=now)
    if before is None or _first(before.ca_certificate) == _first(bundle.ca_certificate):
        return bundle
    return msgspec.structs.replace(bundle, ca_certificate=bundle.ca_certificate + _first(before.ca_certificate))


def _has_authority(bundle: Bundle) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(bundle.ca_certificate)
        return certificate.public_key() == load_key(bundle.ca_key).public_key()
    except ValueError:
        return False


def problem_with(bundle: Bundle, names: list[str], now: datetime | None = None) -> str:
    """Why a bundle cannot be used, or nothing."""
    moment = now or datetime.now(UTC)
    try:
        certificate = x509.load_pem_x509_certificate(bundle.certificate)
        key = serialization.load_pem_private_key(bundle.key, None)
        authorities = x509.load_pem_x509_certificates(bundle.ca_certificate)
    except ValueError as problem:
        return f"not PEM: {problem}"
    if certificate.public_key() != key.public_key():
        return "the key does not belong to the certificate"
    if certificate.not_valid_after_utc <= moment:
        return "the certificate has expired"
    if not any(one.subject == certificate.issuer for one in authorities):
        return "the certificate was not issued by the authority beside it"
    missing = [name for name in names if name not in _names_in(certificate)]
    return f"the certificate is not for {', '.join(missing)}" if missing else ""


def _names_in(certificate: x509.Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]


def _first(pem: bytes) -> bytes:
    return certificate_bytes(x509.load_pem_x509_certificate(pem))


def _lasts(certificate: bytes, now: datetime) -> bool:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc - now > SERVING_LIFE
