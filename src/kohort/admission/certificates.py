"""Certificates for the webhook server: an authority of its own, and a serving certificate signed by it.

When the authority itself must be renewed, the old one stays in the bundle beside the new one: whoever trusts the bundle
accepts servers that have the new certificate already and servers that do not have it yet.
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_YEARS: Final = 10
SERVING_DAYS: Final = 365
RENEW_BEFORE: Final = timedelta(days=90)


class Bundle(msgspec.Struct, frozen=True):
    """Everything in PEM."""

    ca_certificate: bytes
    """What clients should trust: the authority that signed, and possibly the one before it."""
    ca_key: bytes
    certificate: bytes
    key: bytes

    @property
    def expires(self) -> datetime:
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc


def issue(names: list[str], *, authority: Bundle | None = None, now: datetime | None = None) -> Bundle:
    """A new serving certificate for these DNS names and addresses; signed by `authority` if it is given and lasts."""
    moment = now or datetime.now(UTC)
    if authority is not None and _lasts(authority.ca_certificate, moment):
        ca_certificate = x509.load_pem_x509_certificate(authority.ca_certificate)
        ca_key = serialization.load_pem_private_key(authority.ca_key, None)
        assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    else:
        ca_key = ec.generate_private_key(ec.SECP256R1())
        ca_certificate = _authority(ca_key, moment)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _serving(key, names, ca_certificate, ca_key, moment)
    return Bundle(_pem(ca_certificate), _key_pem(ca_key), _pem(certificate), _key_pem(key))


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
        key = serialization.load_pem_private_key(bundle.ca_key, None)
    except ValueError:
        return False
    return isinstance(key, ec.EllipticCurvePrivateKey) and certificate.public_key() == key.public_key()


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
    return _pem(x509.load_pem_x509_certificate(pem))


def _lasts(certificate: bytes, now: datetime) -> bool:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc - now > timedelta(days=SERVING_DAYS)


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "lws-ca"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "lws"),
        ]
    )
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, name, key, now, timedelta(days=365 * CA_YEARS))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())


def _serving(
    key: ec.EllipticCurvePrivateKey,
    names: list[str],
    issuer: x509.Certificate,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    builder = _builder(subject, issuer.subject, key, now, timedelta(days=SERVING_DAYS))
    builder = builder.add_extension(x509.SubjectAlternativeName([_name(name) for name in names]), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return builder.add_extension(identifier, critical=False).sign(issuer_key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
