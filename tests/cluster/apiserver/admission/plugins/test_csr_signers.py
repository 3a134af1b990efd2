"""Certificate requests: approving and signing need a permission of their own, for the signer that is asked."""

import base64

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.cluster.apiserver.caller import AllowAll, Answer, Api

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.objects.json_types import JsonObject

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
BOB = User("bob", ("system:authenticated",))


def request(name: str, signer: str, organization: str = "dev") -> JsonObject:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "bob"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
        ]
    )
    key = ec.generate_private_key(ec.SECP256R1())
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
    return {"metadata": {"name": name}, "spec": {"request": text, "signerName": signer, "usages": ["client auth"]}}


async def cluster_where_bob_may(*rules: JsonObject) -> Api:
    server, _ = await assemble(open_store(None))
    api = Api(server, AllowAll())
    await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": list(rules)})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
    subjects = [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}]
    binding = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": subjects}
    await api.post(f"{RBAC}/clusterrolebindings", binding)
    return api


def rule(resource: str, *verbs: str, **more: list[str]) -> JsonObject:
    return {"apiGroups": ["certificates.k8s.io"], "resources": [resource], "verbs": list(verbs), **more}


async def approved(api: Api, name: str) -> Answer:
    stored = (await api.get(f"{PATH}/{name}")).json
    stored["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "R", "message": "m"}]}
    return Answer(await api.send("PUT", f"{PATH}/{name}/approval", stored, None, BOB))


async def test_approval_is_granted_for_a_signer() -> None:
    updating = rule("certificatesigningrequests/approval", "update")
    api = await cluster_where_bob_may(updating, rule("signers", "approve", resourceNames=["example.com/one"]))
    for name in ("one", "two"):
        assert (await api.post(PATH, request(name, f"example.com/{name}"))).code == 201
    refused = await approved(api, "two")
    assert refused.message == (
        'certificatesigningrequests.certificates.k8s.io "two" is forbidden: '
        'user not permitted to approve requests with signerName "example.com/two"'
    )
    condition = (await approved(api, "one")).json["status"]["conditions"][0]
    assert {"lastUpdateTime", "lastTransitionTime"} <= condition.keys()
    await api.server.close()


async def test_a_domain_of_signers() -> None:
    updating = rule("certificatesigningrequests/approval", "update")
    api = await cluster_where_bob_may(updating, rule("signers", "approve", resourceNames=["example.com/*"]))
    await api.post(PATH, request("one", "example.com/one"))
    assert (await approved(api, "one")).code == 200
    await api.server.close()


async def test_requests_for_certificates_of_administrators_are_refused() -> None:
    api = await cluster_where_bob_may()
    asked = await api.post(PATH, request("x", "kubernetes.io/kube-apiserver-client", "system:masters"))
    assert asked.message == (
        'certificatesigningrequests.certificates.k8s.io "x" is forbidden: '
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    )
    await api.server.close()


async def test_a_decision_stands() -> None:
    api = await cluster_where_bob_may(
        rule("certificatesigningrequests/approval", "update"),
        rule("signers", "approve", resourceNames=["example.com/one"]),
    )
    await api.post(PATH, request("one", "example.com/one"))
    await approved(api, "one")
    taken_back = (await api.get(f"{PATH}/one")).json | {"status": {}}
    said = await api.put(f"{PATH}/one/approval", taken_back)
    assert 'updates may not remove a condition of type "Approved"' in said.message
    await api.server.close()
