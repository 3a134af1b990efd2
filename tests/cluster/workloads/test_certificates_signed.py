"""Certificates that people ask for and approve."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kohort.cluster.workloads.csr_signer import REQUESTS, SIGNER, AuthorityFiles, register
from kohort.kube.certificate_issuing import new_authority
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

VIRTUAL_NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def authority(tmp_path: Path) -> AuthorityFiles:
    files = AuthorityFiles(tmp_path / "ca.crt", tmp_path / "ca.key")
    made = new_authority("us", timedelta(days=3650), now=VIRTUAL_NEW_YEAR)
    for path, content in zip(files, made, strict=True):
        path.write_bytes(content)
    return files


def request(**spec: Json) -> JsonObject:
    name = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "dev"), x509.NameAttribute(NameOID.COMMON_NAME, "jane")]
    )
    signed = x509.CertificateSigningRequestBuilder().subject_name(name).sign(KEY, hashes.SHA256())
    pem = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
    usual = {"request": pem, "signerName": SIGNER, "usages": ["client auth", "digital signature"]}
    return {"metadata": {"name": "jane"}, "spec": {**usual, **spec}}


KEY = ec.generate_private_key(ec.SECP256R1())


async def approved(cluster: Cluster, **spec: Json) -> JsonObject:
    """The status of a request some time after its approval."""
    document = await cluster.client.create(REQUESTS, request(**spec))
    await cluster.settle()
    assert cluster.objects(REQUESTS)[0].get("status", {}) == {}, "nobody has approved it"
    document["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "Test", "message": "good"}]}
    await cluster.client.update(REQUESTS, document, subresource="approval")
    await cluster.settle()
    status: JsonObject = cluster.objects(REQUESTS)[0]["status"]
    return status


def cluster(authority: AuthorityFiles) -> Cluster:
    return Cluster(extra={"signing": lambda manager: register(manager, authority)})


@pytest.mark.parametrize(
    ("asked", "life"),
    [
        (None, timedelta(days=365)),
        (3600, timedelta(hours=1)),
        (600, timedelta(minutes=10)),
        (10**9, timedelta(days=365)),
    ],
)
async def test_an_approved_request_gets_its_certificate(
    authority: AuthorityFiles, asked: int | None, life: timedelta
) -> None:
    async with cluster(authority) as c:
        status = await approved(c, **({"expirationSeconds": asked} if asked else {}))
    certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.read_bytes()))
    assert certificate.subject.rfc4514_string() == "CN=jane,O=dev"
    assert certificate.public_key() == KEY.public_key()
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert lasts == life + timedelta(minutes=5), "clocks differ"


@pytest.mark.parametrize(
    ("usages", "bits"),
    [
        (["client auth"], None),
        (["client auth", "key encipherment"], (False, True)),
        (["client auth", "digital signature", "key encipherment"], (True, True)),
    ],
)
async def test_a_certificate_is_good_for_what_was_asked_for(
    authority: AuthorityFiles, usages: list[str], bits: tuple[bool, bool] | None
) -> None:
    """Programs refuse one whose key may be used for nothing, so it then does not speak of that."""
    async with cluster(authority) as c:
        status = await approved(c, usages=usages)
    certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    found = [each.value for each in certificate.extensions if isinstance(each.value, x509.KeyUsage)]
    assert [(usage.digital_signature, usage.key_encipherment) for usage in found] == ([bits] if bits else [])


@pytest.mark.parametrize(
    ("usages", "problem"),
    [
        (["client auth", "server auth"], "invalid usage for client certificate: server auth"),
        (["digital signature"], "missing required usage for client certificate: client auth"),
    ],
)
async def test_what_cannot_be_signed_has_failed(authority: AuthorityFiles, usages: list[str], problem: str) -> None:
    async with cluster(authority) as c:
        status = await approved(c, usages=usages)
    failed = status["conditions"][-1]
    assert (failed["type"], failed["reason"], failed["message"]) == ("Failed", "SignerValidationFailure", problem)
    assert "certificate" not in status


async def test_requests_to_other_signers_are_left_alone(authority: AuthorityFiles) -> None:
    async with cluster(authority) as c:
        status = await approved(c, signerName="example.com/mine")
    assert [condition["type"] for condition in status["conditions"]] == ["Approved"]
    assert "certificate" not in status
