"""PEM in CertificateSigningRequests. The messages are those of kube-apiserver 1.36.4."""

import base64
import time
from datetime import timedelta

import pytest
from tests.cluster.apiserver.admission.plugins.test_csr_signers import PATH, request
from tests.cluster.apiserver.caller import AllowAll, Api

from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube.certificate_issuing import new_authority

CERTIFICATE, _ = new_authority("signer", timedelta(hours=1))
HEADERS = b"-----\nProc-Type: 4,ENCRYPTED\nOther: x\n\n"


async def server() -> Api:
    assembled, _ = await assemble(open_store(None))
    return Api(assembled, AllowAll())


@pytest.mark.parametrize(
    ("certificate", "problem"),
    [
        (CERTIFICATE, ""),
        (CERTIFICATE + b"\nhello\n" + CERTIFICATE, ""),
        (CERTIFICATE.replace(b"-----\n", HEADERS, 1), "no PEM block headers are permitted"),
        (CERTIFICATE.replace(b"CERTIFICATE", b"FOO"), 'only CERTIFICATE PEM blocks are allowed, found "FOO"'),
        (b"hello", "must contain at least one CERTIFICATE PEM block"),
    ],
)
async def test_certificates_are_checked(certificate: bytes, problem: str) -> None:
    api = await server()
    stored = (await api.post(PATH, request("one", "example.com/one"))).json
    stored["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "R", "message": "m"}]}
    approved = (await api.put(f"{PATH}/one/approval", stored)).json
    approved["status"]["certificate"] = base64.b64encode(certificate).decode()
    answer = await api.put(f"{PATH}/one/status", approved)
    assert answer.code == (422 if problem else 200)
    assert problem in answer.json.get("message", "")


async def test_headers_are_allowed_in_requests() -> None:
    body = request("one", "example.com/one")
    text = base64.b64decode(body["spec"]["request"]).replace(b"-----\n", HEADERS, 1)
    body["spec"]["request"] = base64.b64encode(text).decode()
    assert (await (await server()).post(PATH, body)).code == 201


async def test_a_text_full_of_begins_is_read_once() -> None:
    body = request("one", "example.com/one")
    body["spec"]["request"] = base64.b64encode(b"-----BEGIN A-----\n" * 100_000).decode()
    api, begun = await server(), time.process_time()
    assert (await api.post(PATH, body)).code == 422
    assert time.process_time() - begun < 10, "reading to the end again from each begin takes minutes"
