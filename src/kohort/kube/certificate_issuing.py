"""Makes keys and certificates for the embedded API server and for the operator's webhooks.

This module loads the cryptography library, which takes longer than the rest of the start of an API server, and one
whose certificates exist does not need it. So the API server imports this module inside the functions that issue
something.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLOCK_SKEW = timedelta(minutes=5)


class Authority:
    """A certificate authority: its certificate and the key that signs."""

    def __init__(self, certificate_pem: bytes, key_pem: bytes) -> None:
        self._certificate = x509.load_pem_x509_certificate(certificate_pem)
        self._key = load_key(key_pem)

    def issue(
        self,
        *,
        name: str,
        organizations: Sequence[str] = (),
        addresses: Sequence[str] = (),
        life: timedelta,
        server: bool,
        now: datetime | None = None,
    ) -> tuple[bytes, bytes]:
        """A certificate for a server (`addresses` are its names) or a client (`organizations` are its groups)."""
        key = ec.generate_private_key(ec.SECP256R1())
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(_subject(name, organizations), self._certificate.subject, key, life, now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if addresses:
            names = x509.SubjectAlternativeName([_general_name(address) for address in addresses])
            builder = builder.add_extension(names, critical=False)
        return certificate_bytes(builder.sign(self._key, hashes.SHA256())), key_bytes(key)

    def sign(self, request_pem: bytes, *, usages: Collection[str], life: timedelta, now: datetime) -> bytes:
        """A certificate for the key, the subject and the names of a request; `usages` in the words of Kubernetes."""
        request = x509.load_pem_x509_csr(request_pem)
        if not request.is_signature_valid:
            raise ValueError("the request is not signed by its own key")
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(self._certificate.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(min(now + life, self._certificate.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if not _KEY_USAGES.isdisjoint(usages):
            # A certificate without any usage would be useless.
            builder = builder.add_extension(_requested_usage(usages), critical=True)
        if purposes := [_PURPOSES[usage] for usage in usages if usage in _PURPOSES]:
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        for extension in request.extensions:
            if isinstance(extension.value, x509.SubjectAlternativeName):
                builder = builder.add_extension(extension.value, critical=extension.critical)
        return certificate_bytes(builder.sign(self._key, hashes.SHA256()))


def requested_subject(request: bytes) -> tuple[list[str], list[str]]:
    """The common names and the organizations that a signing request asks for."""
    subject = x509.load_pem_x509_csr(request).subject
    users, groups = (
        [str(entry.value) for entry in subject.get_attributes_for_oid(oid)]
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    )
    return users, groups


_KEY_USAGES = frozenset(("digital signature", "key encipherment"))
_PURPOSES = {"client auth": ExtendedKeyUsageOID.CLIENT_AUTH, "server auth": ExtendedKeyUsageOID.SERVER_AUTH}


def new_authority(
    name: str, life: timedelta, *, organizations: Sequence[str] = (), now: datetime | None = None
) -> tuple[bytes, bytes]:
    """A self-signed authority as (certificate, key)."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name, organizations)
    certificate = (
        _builder(subject, subject, key, life, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate_bytes(certificate), key_bytes(key)


def new_key() -> bytes:
    return key_bytes(ec.generate_private_key(ec.SECP256R1()))


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not an elliptic curve key")
    return key


def key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def certificate_bytes(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, life: timedelta, now: datetime | None
) -> x509.CertificateBuilder:
    moment = now or datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - CLOCK_SKEW)
        .not_valid_after(moment + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _subject(name: str, organizations: Sequence[str]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return _usage(signs_certificates=signs_certificates)


def _requested_usage(usages: Collection[str]) -> x509.KeyUsage:
    return _usage(signs="digital signature" in usages, enciphers="key encipherment" in usages)


def _usage(*, signs: bool = True, enciphers: bool = False, signs_certificates: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs,
        content_commitment=False,
        key_encipherment=enciphers,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(address))
    except ValueError:
        return x509.DNSName(address)
