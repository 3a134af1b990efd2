"""Signs approved CertificateSigningRequests for client certificates of the API server.

    kubectl certificate approve jane
    kubectl get csr jane -o jsonpath='{.status.certificate}' | base64 -d

Only the signer `kubernetes.io/kube-apiserver-client` is implemented: those for kubelets have no use here, and requests
to other signers belong to their controllers. Users approve requests. Names of the control plane are never signed.
"""

import base64
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.informer import Informer
from kohort.kube.manager import Manager
from kohort.kube.resources import Key, Resource
from kohort.objects import well_known_names
from kohort.objects.meta import Condition, ObjectMeta
from kohort.objects.view import View
from kohort.rules.reserved_identities import reserved_subject

REQUESTS: Final = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
SIGNER: Final = well_known_names.API_CLIENT_SIGNER
CLIENT_AUTH: Final = "client auth"
OPTIONAL_USAGES: Final = ("digital signature", "key encipherment")
USUAL_LIFE: Final = timedelta(days=365)
SHORTEST_LIFE: Final = timedelta(minutes=10)


class AuthorityFiles(NamedTuple):
    """Where the certificate and the key of the cluster's authority are."""

    certificate: Path
    key: Path


class RequestSpec(View, frozen=True):
    request: str = ""
    signer_name: str = ""
    usages: tuple[str, ...] = ()
    expiration_seconds: int | None = None


class RequestStatus(View, frozen=True):
    conditions: tuple[Condition, ...] = ()
    certificate: str = ""


class Request(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: RequestSpec = RequestSpec()
    status: RequestStatus = RequestStatus()

    def has_condition(self, condition: str) -> bool:
        return any(each.type == condition and each.status == "True" for each in self.status.conditions)

    @property
    def is_due(self) -> bool:
        """Approved, for our signer, and neither signed nor failed yet."""
        answered = bool(self.status.certificate) or self.has_condition("Failed")
        return self.spec.signer_name == SIGNER and self.has_condition("Approved") and not answered


def register(manager: Manager, authority: AuthorityFiles) -> None:
    signing = CertificateSigner(manager.client, manager.informer(REQUESTS, Request), authority)
    manager.controller("csrsigning", signing.reconcile).watches(signing.requests)


class CertificateSigner:
    def __init__(self, client: Client, requests: Informer[Request], authority: AuthorityFiles) -> None:
        self._client = client
        self.requests = requests
        self._authority = authority

    async def reconcile(self, key: Key) -> None:
        request = self.requests.get(key)
        if request is None or not request.is_due:
            return
        document = await self._client.get(REQUESTS, key.name)
        status = document.setdefault("status", {})
        if problem := usage_problem(request.spec.usages) or subject_problem(request.spec.request):
            failed = {"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": problem}
            status["conditions"] = [*status["conditions"], {**failed, "lastUpdateTime": clock.timestamp()}]
        else:
            status["certificate"] = base64.b64encode(self._signed(request.spec)).decode()
        await self._client.update(REQUESTS, document, subresource="status")

    def _signed(self, spec: RequestSpec) -> bytes:
        from kohort.kube.certificate_issuing import Authority

        authority = Authority(self._authority.certificate.read_bytes(), self._authority.key.read_bytes())
        pem = base64.b64decode(spec.request)
        return authority.sign(pem, usages=spec.usages, life=life(spec.expiration_seconds), now=clock.now())


def usage_problem(usages: Sequence[str]) -> str:
    """DeleteReason no certificate can be issued for these usages; empty if one can.

    >>> usage_problem(["client auth", "server auth"])
    'invalid usage for client certificate: server auth'
    """
    for usage in usages:
        if usage != CLIENT_AUTH and usage not in OPTIONAL_USAGES:
            return f"invalid usage for client certificate: {usage}"
    return "" if CLIENT_AUTH in usages else f"missing required usage for client certificate: {CLIENT_AUTH}"


def subject_problem(request: str) -> str:
    """DeleteReason no certificate can be issued for the subject of a request (PEM in base64); empty if one can.

    An approval grants a certificate, not the identity of a part of the control plane."""
    from kohort.kube.certificate_issuing import requested_subject

    users, groups = requested_subject(base64.b64decode(request))
    name = reserved_subject(users, groups)
    return f"{name} is reserved for the control plane; ask for another subject" if name else ""


def life(expiration_seconds: int | None) -> timedelta:
    """How long a certificate is good for: as long as was asked for, from ten minutes to a year."""
    if expiration_seconds is None:
        return USUAL_LIFE
    return max(SHORTEST_LIFE, min(USUAL_LIFE, timedelta(seconds=expiration_seconds)))
