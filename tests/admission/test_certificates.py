"""Certificates: who signs, how long, and what a change of authority means for those who trust."""

import ssl
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from kohort.admission.certificate_bundle import Bundle
from kohort.admission.certificates import issue, must_renew, problem_with, successor
from kohort.admission.metrics import WebhookMetrics
from kohort.admission.server import WebhookServer

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ["lws-webhook-service.lws-system.svc"]


def authorities(bundle: Bundle) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(bundle.ca_certificate)


def trusts(bundle: Bundle, other: Bundle) -> bool:
    """Whether who trusts `bundle` accepts a server that has `other`."""
    certificate = x509.load_pem_x509_certificate(other.certificate)
    for authority in authorities(bundle):
        try:
            certificate.verify_directly_issued_by(authority)
        except Exception:
            continue
        return True
    return False


def test_lifetimes_and_names_are_those_of_the_specification() -> None:
    bundle = issue(NAMES, now=NOW)
    (authority,) = authorities(bundle)
    assert authority.subject.rfc4514_string() == "CN=lws-ca,O=lws"
    assert authority.not_valid_after_utc - NOW == timedelta(days=3650)
    assert bundle.expires - NOW == timedelta(days=365)
    assert problem_with(bundle, NAMES, NOW) == ""


def test_renewal_begins_ninety_days_ahead() -> None:
    bundle = issue(NAMES, now=NOW)
    assert not must_renew(bundle, NOW + timedelta(days=274))
    assert must_renew(bundle, NOW + timedelta(days=276))


def test_a_renewed_certificate_keeps_its_authority() -> None:
    before = issue(NAMES, now=NOW)
    after = successor(before, NAMES, NOW + timedelta(days=300))
    assert after.ca_certificate == before.ca_certificate
    assert after.certificate != before.certificate


def test_a_new_authority_stands_beside_the_old_one() -> None:
    before = issue(NAMES, now=NOW)
    after = successor(before, NAMES, NOW + timedelta(days=3400))
    assert len(authorities(after)) == 2
    assert trusts(after, before)
    assert trusts(after, after)
    assert not trusts(before, after)


def test_only_the_last_authority_is_remembered() -> None:
    first = issue(NAMES, now=NOW)
    second = successor(first, NAMES, NOW + timedelta(days=3400))
    third = successor(second, NAMES, NOW + timedelta(days=6800))
    assert len(authorities(third)) == 2
    assert not trusts(third, first)


def test_an_authority_without_its_key_is_replaced() -> None:
    before, other = issue(NAMES, now=NOW), issue(NAMES, now=NOW)
    broken = Bundle(before.ca_certificate, other.ca_key, before.certificate, before.key)
    after = successor(broken, NAMES, NOW)
    assert problem_with(after, NAMES, NOW) == ""
    assert trusts(after, after)
    assert problem_with(successor(Bundle(b"x", b"x", b"x", b"x"), NAMES, NOW), NAMES, NOW) == ""


def test_problems_are_found() -> None:
    bundle, other = issue(NAMES, now=NOW), issue(NAMES, now=NOW)
    assert "expired" in problem_with(bundle, NAMES, NOW + timedelta(days=366))
    assert "not for b.svc" in problem_with(bundle, [*NAMES, "b.svc"], NOW)
    mixed = Bundle(bundle.ca_certificate, bundle.ca_key, bundle.certificate, other.key)
    assert "key does not belong" in problem_with(mixed, NAMES, NOW)
    assert "not PEM" in problem_with(Bundle(b"x", b"x", b"x", b"x"), NAMES, NOW)


def test_certificates_taken_into_use_are_counted() -> None:
    registry = CollectorRegistry()
    bundle = issue(["localhost"])
    server = WebhookServer({}, bundle, metrics=WebhookMetrics(registry))
    with pytest.raises(ssl.SSLError):
        server.use(msgspec.structs.replace(bundle, certificate=b"no certificate"))
    assert registry.get_sample_value("certwatcher_read_certificate_total") == 2.0
    assert registry.get_sample_value("certwatcher_read_certificate_errors_total") == 1.0
