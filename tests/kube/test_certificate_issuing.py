"""Keys and certificates: what they are for, for whom, and for how long."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kohort.kube import certificate_issuing
from kohort.kube.certificate_issuing import CLOCK_SKEW, Authority, load_key, new_authority, new_key, requested_subject

NOW = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)


@pytest.fixture(scope="module")
def pair() -> tuple[bytes, bytes]:
    return new_authority("test-ca", 10 * YEAR, organizations=["tests"], now=NOW)


@pytest.fixture(scope="module")
def authority(pair: tuple[bytes, bytes]) -> Authority:
    return Authority(*pair)


def loaded(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def signing_request(name: str, *groups: str, hosts: tuple[str, ...] = ()) -> bytes:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    )
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)


def test_an_authority_signs_itself_and_may_sign_others(pair: tuple[bytes, bytes]) -> None:
    certificate = loaded(pair[0])
    certificate.verify_directly_issued_by(certificate)
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.key_cert_sign and usage.crl_sign


@pytest.mark.parametrize(
    ("server", "purpose"), [(True, ExtendedKeyUsageOID.SERVER_AUTH), (False, ExtendedKeyUsageOID.CLIENT_AUTH)]
)
def test_a_certificate_is_for_a_server_or_for_a_client(
    authority: Authority, pair: tuple[bytes, bytes], server: bool, purpose: x509.ObjectIdentifier
) -> None:
    chain, _ = authority.issue(name="a", life=YEAR, server=server, now=NOW)
    certificate = loaded(chain)
    certificate.verify_directly_issued_by(loaded(pair[0]))
    assert [*certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value] == [purpose]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_names_and_addresses_of_a_server(authority: Authority) -> None:
    chain, key = authority.issue(
        name="api", addresses=["127.0.0.1", "::1", "localhost"], life=YEAR, server=True, now=NOW
    )
    names = loaded(chain).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1"), ip_address("::1")]
    assert load_key(key).public_key() == loaded(chain).public_key()


def test_user_and_groups_of_a_client(authority: Authority) -> None:
    chain, _ = authority.issue(name="jane", organizations=["dev", "ops"], life=YEAR, server=False, now=NOW)
    subject = loaded(chain).subject
    assert [one.value for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    assert [one.value for one in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["dev", "ops"]


def test_a_certificate_is_valid_a_little_before_it_was_made(authority: Authority) -> None:
    certificate = loaded(authority.issue(name="a", life=YEAR, server=True, now=NOW)[0])
    assert certificate.not_valid_before_utc == NOW - CLOCK_SKEW
    assert certificate.not_valid_after_utc == NOW + YEAR


def test_a_request_is_signed_for_its_subject_and_its_names(authority: Authority) -> None:
    request = signing_request("jane", "dev", hosts=("jane.example.com",))
    signed = loaded(authority.sign(request, usages=["client auth", "digital signature"], life=YEAR, now=NOW))
    assert requested_subject(request) == (["jane"], ["dev"])
    assert signed.subject == x509.load_pem_x509_csr(request).subject
    usage = signed.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature and not usage.key_encipherment
    purposes = signed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [*purposes] == [ExtendedKeyUsageOID.CLIENT_AUTH]
    names = signed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["jane.example.com"]


def test_a_signed_certificate_does_not_outlive_the_authority(authority: Authority, pair: tuple[bytes, bytes]) -> None:
    signed = loaded(authority.sign(signing_request("a"), usages=["client auth"], life=100 * YEAR, now=NOW))
    assert signed.not_valid_after_utc == loaded(pair[0]).not_valid_after_utc


def test_a_request_that_was_changed_after_it_was_signed_is_rejected(authority: Authority) -> None:
    request = x509.load_pem_x509_csr(signing_request("jane")).public_bytes(Encoding.DER)
    forged = x509.load_der_x509_csr(request.replace(b"jane", b"root")).public_bytes(Encoding.PEM)
    with pytest.raises(ValueError, match="not signed by its own key"):
        authority.sign(forged, usages=["client auth"], life=YEAR, now=NOW)


def test_only_elliptic_curve_keys_are_loaded() -> None:
    assert load_key(new_key()).curve.name == "secp256r1"
    other = rsa.generate_private_key(65537, 2048)
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ValueError, match="not an elliptic curve key"):
        certificate_issuing.load_key(pem)


def extensions(pem: bytes) -> dict[str, bool]:
    """Whether each extension is critical, by its name."""
    return {type(one.value).__name__: one.critical for one in loaded(pem).extensions}


KEPT_BY_CLIENTS_THAT_DO_NOT_KNOW_THEM = {
    "SubjectKeyIdentifier": False,
    "AuthorityKeyIdentifier": False,
    "ExtendedKeyUsage": False,
    "SubjectAlternativeName": False,
}
"""RFC 5280: those that every client must honour are critical, these are not."""


def test_extensions_are_critical_where_the_standard_wants_it(authority: Authority, pair: tuple[bytes, bytes]) -> None:
    must = {"BasicConstraints": True, "KeyUsage": True}
    assert extensions(pair[0]) == {**must, "SubjectKeyIdentifier": False}
    chain, _ = authority.issue(name="a", addresses=["a.example"], life=YEAR, server=True, now=NOW)
    assert extensions(chain) == {**must, **KEPT_BY_CLIENTS_THAT_DO_NOT_KNOW_THEM}
    request = signing_request("a", hosts=("a.example",))
    signed = authority.sign(request, usages=["digital signature", "client auth"], life=YEAR, now=NOW)
    wanted = {**must, **KEPT_BY_CLIENTS_THAT_DO_NOT_KNOW_THEM}
    del wanted["SubjectKeyIdentifier"]
    assert extensions(signed) == wanted


@pytest.mark.parametrize(
    ("usages", "signs", "enciphers"),
    [
        (["digital signature"], True, False),
        (["key encipherment"], False, True),
        (["digital signature", "key encipherment", "server auth"], True, True),
    ],
)
def test_a_signed_key_may_be_used_as_requested_and_for_nothing_else(
    authority: Authority, usages: list[str], signs: bool, enciphers: bool
) -> None:
    signed = loaded(authority.sign(signing_request("a"), usages=usages, life=YEAR, now=NOW))
    usage = signed.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment) == (signs, enciphers)
    others = (usage.content_commitment, usage.data_encipherment, usage.key_agreement, usage.key_cert_sign)
    assert not any((*others, usage.crl_sign))


def test_a_request_for_purposes_alone_gets_no_key_usage(authority: Authority) -> None:
    signed = authority.sign(signing_request("a"), usages=["client auth", "unheard of"], life=YEAR, now=NOW)
    assert "KeyUsage" not in extensions(signed)
    purposes = loaded(signed).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_issued_keys_sign_and_do_nothing_else(authority: Authority, pair: tuple[bytes, bytes]) -> None:
    chain, _ = authority.issue(name="a", life=YEAR, server=True, now=NOW)
    usage = loaded(chain).extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert not any((usage.key_encipherment, usage.key_cert_sign, usage.crl_sign, usage.data_encipherment))


def test_clocks_may_differ_by_a_few_minutes(authority: Authority, pair: tuple[bytes, bytes]) -> None:
    chain, _ = authority.issue(name="a", life=YEAR, server=True, now=NOW)
    signed = authority.sign(signing_request("a"), usages=["client auth"], life=YEAR, now=NOW)
    for pem in (pair[0], chain, signed):
        assert loaded(pem).not_valid_before_utc == NOW - timedelta(minutes=5)
    assert loaded(chain).not_valid_after_utc == loaded(signed).not_valid_after_utc == NOW + YEAR


def test_no_certificate_outlives_its_authority(authority: Authority) -> None:
    signed = authority.sign(signing_request("a"), usages=["client auth"], life=20 * YEAR, now=NOW)
    assert loaded(signed).not_valid_after_utc == NOW + 10 * YEAR
