"""Who may say what about certificate requests.

Approving and signing are permissions of their own, per signer: the verbs `approve` and `sign` on the signer that the
request names, or on all of its domain. And no request yields a certificate for administrators.
"""

import base64
import re
from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import AdmissionStep, refusal
from kohort.cluster.apiserver.auth.model import AccessRequest
from kohort.cluster.apiserver.auth.rbac import SUPERUSERS, Authorizer
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

GROUP: Final = "certificates.k8s.io"
_VERBS: Final = {"approval": "approve", "status": "sign"}
_CLIENTS: Final = well_known_names.API_CLIENT_SIGNER
_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE REQUEST-----.*?-----END CERTIFICATE REQUEST-----", re.DOTALL)


class SignerCheck(AdmissionStep):
    name = "CertificateApproval"
    about = tuple(f"certificatesigningrequests{part}" for part in ("", "/approval", "/status"))

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, attributes: Attributes) -> bool:
        if attributes.resource.group != GROUP:
            return False
        return attributes.subresource in _VERBS or (attributes.operation == "CREATE" and not attributes.subresource)

    async def validate(self, attributes: Attributes) -> None:
        if attributes.operation == "CREATE":
            _refuse_administrators(attributes)
            return
        old = attributes.old_object or {}
        if attributes.subresource == "status" and not _signs(attributes.object or {}, old):
            return
        signer = (old.get("spec") or {}).get("signerName") or ""
        verb = _VERBS[attributes.subresource]
        domain = signer.partition("/")[0]
        if not any(self._may(attributes, verb, name) for name in (signer, f"{domain}/*")):
            raise refusal(attributes, f'user not permitted to {verb} requests with signerName "{signer}"')

    def _may(self, attributes: Attributes, verb: str, signer: str) -> bool:
        request = AccessRequest(attributes.user, verb, GROUP, "*", "signers", name=signer)
        return self._authorizer.authorize(request).allowed


def _signs(new: JsonObject, old: JsonObject) -> bool:
    """Whether a status says more than who looked at it: a certificate, or that there will be none."""

    def said(request: JsonObject) -> tuple[str, int]:
        status = request.get("status") or {}
        failed = [one for one in status.get("conditions") or () if one.get("type") == "Failed"]
        return status.get("certificate") or "", len(failed)

    return said(new) != said(old)


def _refuse_administrators(attributes: Attributes) -> None:
    spec = (attributes.object or {}).get("spec") or {}
    if spec.get("signerName") != _CLIENTS:
        return
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    found = _PEM.search(base64.b64decode(spec.get("request") or ""))
    if found is None:
        return
    subject = x509.load_pem_x509_csr(found.group()).subject
    if SUPERUSERS in [entry.value for entry in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]:
        raise refusal(attributes, f"use of {_CLIENTS} signer with {SUPERUSERS} group is not allowed")
