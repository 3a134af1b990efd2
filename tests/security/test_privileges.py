"""No way around permissions: roles that gather rules, connections opened by a GET, names in
certificates, addresses in the status of pods."""

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.cluster.apiserver.caller import AllowAll, Answer, Api

from kohort.cluster.apiserver.auth.model import User
from kohort.cluster.apiserver.endpoints.proxy import ProxyTarget
from kohort.cluster.apiserver.server import OutgoingClients
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.cluster.workloads import csr_signer
from kohort.kube.certificate_issuing import new_authority
from kohort.kube.http import Response
from kohort.objects.json_types import Json, JsonObject

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/clusterroles"
BOB = User("bob", ("system:authenticated",))
AGGREGATION: JsonObject = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
EVERYTHING: list[JsonObject] = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]
WRITING_ROLES: JsonObject = {
    "apiGroups": ["rbac.authorization.k8s.io"],
    "resources": ["clusterroles"],
    "verbs": ["create", "update", "patch", "get"],
}


class Recorder:
    """Notes where requests are passed on to."""

    def __init__(self) -> None:
        self.reached: list[ProxyTarget] = []

    async def forward(
        self,
        method: str,
        target: ProxyTarget,
        path: str,
        query: tuple[tuple[str, str], ...],
        headers: dict[str, str],
        body: bytes,
    ) -> Response:
        self.reached.append(target)
        return Response(200, {"content-type": "text/plain"}, b"reached")


@pytest.fixture
def forwarder() -> Recorder:
    return Recorder()


@pytest.fixture
async def api(forwarder: Recorder) -> AsyncIterator[Api]:
    server, _ = await assemble(open_store(None), outgoing=OutgoingClients(forwarder=forwarder))
    yield Api(server, AllowAll())
    await server.close()


async def let_bob(api: Api, *rules: JsonObject, name: str = "bob") -> None:
    assert (await api.post(ROLES, {"metadata": {"name": name}, "rules": list(rules)})).code == 201
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}]
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    assert (await api.post(f"{RBAC}/clusterrolebindings", binding)).code == 201


async def as_bob(api: Api, method: str, path: str, body: Json = None, media: str = "application/json") -> Answer:
    return Answer(await api.send(method, path, body, {"content-type": media}, BOB))


# --- roles that gather their rules ------------------------------------------------------------------------------------


async def test_only_users_with_all_permissions_create_roles_that_aggregate_rules(api: Api) -> None:
    await let_bob(api, WRITING_ROLES)
    assert (await as_bob(api, "POST", ROLES, {"metadata": {"name": "empty"}})).code == 201
    refused = await as_bob(api, "POST", ROLES, {"metadata": {"name": "g"}, "aggregationRule": AGGREGATION})
    assert refused.code == 403
    assert 'APIGroups:["*"], Resources:["*"], Verbs:["*"]' in refused.message


async def test_nor_add_an_aggregation_to_a_role_later(api: Api) -> None:
    await let_bob(api, WRITING_ROLES)
    assert (await as_bob(api, "POST", ROLES, {"metadata": {"name": "g"}})).code == 201
    whole = {"metadata": {"name": "g"}, "aggregationRule": AGGREGATION}
    assert (await as_bob(api, "PUT", f"{ROLES}/g", whole)).code == 403
    merge = "application/merge-patch+json"
    assert (await as_bob(api, "PATCH", f"{ROLES}/g", {"aggregationRule": AGGREGATION}, merge)).code == 403
    assert (await as_bob(api, "PATCH", f"{ROLES}/g", whole, "application/strategic-merge-patch+json")).code == 403
    assert "aggregationRule" not in (await api.get(f"{ROLES}/g")).json


async def test_nor_take_one_away_or_change_it(api: Api) -> None:
    await let_bob(api, WRITING_ROLES)
    assert (await api.post(ROLES, {"metadata": {"name": "g"}, "aggregationRule": AGGREGATION})).code == 201
    for change in ({"aggregationRule": None}, {"metadata": {"labels": {"x": "y"}}}):
        assert (await as_bob(api, "PATCH", f"{ROLES}/g", change, "application/merge-patch+json")).code == 403


async def test_the_verb_escalate_and_full_authority_are_enough(api: Api) -> None:
    await let_bob(api, {**WRITING_ROLES, "verbs": ["create", "escalate"]})
    assert (await as_bob(api, "POST", ROLES, {"metadata": {"name": "g"}, "aggregationRule": AGGREGATION})).code == 201


async def test_full_authority_without_non_resource_paths_is_not_full(api: Api) -> None:
    await let_bob(api, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "get", "list", "update", "patch"]})
    document = {"metadata": {"name": "g"}, "aggregationRule": AGGREGATION}
    assert (await as_bob(api, "POST", ROLES, document)).code == 403
    await let_bob(api, *EVERYTHING, name="more")
    assert (await as_bob(api, "POST", ROLES, document)).code == 201


async def test_a_role_of_too_many_combinations_is_refused_before_they_are_tried(api: Api) -> None:
    await let_bob(api, WRITING_ROLES)
    words = [f"w{i}" for i in range(1000)]
    rule = {"apiGroups": words, "resources": words, "verbs": words, "resourceNames": words}
    refused = await as_bob(api, "POST", ROLES, {"metadata": {"name": "g"}, "rules": [rule]})
    assert refused.code == 403
    assert "1000000000000 permissions" in refused.message


# --- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["exec", "attach", "portforward"])
async def test_reading_a_connection_is_not_enough_to_open_it(api: Api, action: str) -> None:
    await api.pod("p", nodeName="n")
    connecting = {"apiGroups": [""], "resources": [f"pods/{action}"]}
    await let_bob(api, {**connecting, "verbs": ["get"]})
    path = f"/api/v1/namespaces/default/pods/p/{action}"
    refused = await as_bob(api, "GET", path)
    assert refused.code == 403
    assert f'User "bob" cannot create resource "pods/{action}"' in refused.message
    await let_bob(api, {**connecting, "verbs": ["create"]}, name="more")
    assert (await as_bob(api, "GET", path)).code != 403
    assert (await as_bob(api, "POST", path)).code != 403


# --- certificates -----------------------------------------------------------------------------------------------------


def signing_request(name: str, *organizations: str) -> str:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    key = ec.generate_private_key(ec.SECP256R1())
    signed = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


@pytest.mark.parametrize(
    ("name", "organizations"),
    [
        ("kube-apiserver", ()),
        ("kube-apiserver-kubelet-client", ()),
        ("system:kube-controller-manager", ()),
        ("system:node:n", ("system:nodes",)),
        ("jane", ("dev", "system:masters")),
        ("jane", ("kubeadm:cluster-admins",)),
    ],
)
def test_names_of_the_control_plane_are_not_signed(name: str, organizations: tuple[str, ...]) -> None:
    assert "reserved for the control plane" in csr_signer.subject_problem(signing_request(name, *organizations))


def test_names_of_people_are_signed() -> None:
    assert csr_signer.subject_problem(signing_request("jane", "dev")) == ""


def test_an_approved_request_for_a_reserved_name_fails(tmp_path_factory: pytest.TempPathFactory) -> None:
    from kohort.testing import Cluster, virtual_time

    files = csr_signer.AuthorityFiles(*(tmp_path_factory.mktemp("ca") / name for name in ("ca.crt", "ca.key")))
    made = new_authority("us", timedelta(days=3650), now=datetime(2026, 1, 1, tzinfo=UTC))
    for path, content in zip(files, made, strict=True):
        path.write_bytes(content)
    spec = {"request": signing_request("kube-apiserver"), "signerName": csr_signer.SIGNER, "usages": ["client auth"]}

    async def sign() -> Json:
        async with Cluster(extra={"signing": lambda manager: csr_signer.register(manager, files)}) as cluster:
            document = await cluster.client.create(csr_signer.REQUESTS, {"metadata": {"name": "r"}, "spec": spec})
            approval = {"type": "Approved", "status": "True", "reason": "Test", "message": "good"}
            document["status"] = {"conditions": [approval]}
            await cluster.client.update(csr_signer.REQUESTS, document, subresource="approval")
            await cluster.settle()
            return cluster.objects(csr_signer.REQUESTS)[0]["status"]

    status = virtual_time.run(sign())
    assert "certificate" not in status
    assert [one["reason"] for one in status["conditions"] if one["type"] == "Failed"] == ["SignerValidationFailure"]


# --- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("127.0.0.1", False),
        ("127.0.0.53", False),
        ("::1", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("10.1.2.3", True),
        ("198.18.4.4", True),
        ("127.20.0.4", True),
        ("10.9.9.9", False),
    ],
)
async def test_the_status_of_a_pod_does_not_lead_to_the_machine_itself(
    api: Api, forwarder: Recorder, address: str, allowed: bool
) -> None:
    ranges = ["10.1.2.0/24"] if address.startswith("10.") else []
    node = {"metadata": {"name": "n"}, "spec": {"podCIDRs": ranges, "podCIDR": ranges[0]} if ranges else {}}
    assert (await api.post("/api/v1/nodes", node)).code == 201
    await api.pod("p", nodeName="n")
    path = "/api/v1/namespaces/default/pods/p"
    status = {"podIP": address, "podIPs": [{"ip": address}], "hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}]}
    assert (await api.patch(f"{path}/status", {"status": status})).code == 200
    answer = await api.get("/api/v1/namespaces/default/pods/p:6443/proxy/")
    assert answer.code == (200 if allowed else 400)
    assert len(forwarder.reached) == allowed


async def test_the_usual_port_of_a_node_is_that_of_its_agent(api: Api, forwarder: Recorder) -> None:
    """Clients write `nodes/NAME:10250/proxy`; the agent listens on a port of its choice."""
    node = {
        "metadata": {"name": "n"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 41234}},
        },
    }
    assert (await api.post("/api/v1/nodes", node)).code == 201
    assert (await api.get("/api/v1/nodes/n:10250/proxy/")).code == 200
    assert (await api.get("/api/v1/nodes/n:10251/proxy/")).code == 400
    assert [target.port for target in forwarder.reached] == [41234]


async def test_the_address_of_a_node_leads_to_its_agent_and_no_other_port(api: Api, forwarder: Recorder) -> None:
    node = {
        "metadata": {"name": "n"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }
    assert (await api.post("/api/v1/nodes", node)).code == 201
    assert (await api.get("/api/v1/nodes/n:5432/proxy/")).code == 400
    assert (await api.get("/api/v1/nodes/n:10250/proxy/")).code == 200
    assert (await api.get("/api/v1/nodes/n/proxy/")).code == 200
    assert [target.port for target in forwarder.reached] == [10250, 10250]
