"""Users by their client certificates."""

import pytest

from kohort.rules.client_certificate import CertificateSubject, PeerCertificate, certificate_subject


def subject(*pairs: tuple[str, str]) -> PeerCertificate:
    return {"subject": tuple((one,) for one in pairs)}


@pytest.mark.parametrize(
    ("certificate", "user"),
    [
        (None, None),
        ({}, None),
        (subject(("organizationName", "ops")), None),
        (subject(("commonName", "")), None),
        (subject(("commonName", "ada")), CertificateSubject("ada")),
        (subject(("commonName", "ada"), ("commonName", "bob")), CertificateSubject("bob")),
        (subject(("commonName", "ada"), ("commonName", "")), None),
        (
            subject(("organizationName", "a"), ("commonName", "ada"), ("organizationName", "b")),
            CertificateSubject("ada", ("a", "b")),
        ),
        (subject(("commonName", "ada"), ("organizationalUnitName", "ops")), CertificateSubject("ada")),
    ],
)
def test_the_common_name_is_the_user_and_organizations_are_groups(
    certificate: PeerCertificate | None, user: CertificateSubject | None
) -> None:
    assert certificate_subject(certificate) == user


def test_attributes_of_one_relative_name_all_count() -> None:
    certificate = {"subject": ((("commonName", "ada"), ("organizationName", "ops")),)}
    assert certificate_subject(certificate) == CertificateSubject("ada", ("ops",))
