"""What nodes may write, with the refusals of Kubernetes."""

import pytest
from tests.cluster.apiserver.caller import Answer, Api

from kohort.cluster.apiserver.auth.model import User
from kohort.objects.json_types import Json, JsonObject

NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))
PODS = "/api/v1/namespaces/d/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
MERGE = {"content-type": "application/merge-patch+json"}


async def by_node(api: Api, method: str, path: str, body: Json = None, user: User = NODE) -> Answer:
    return Answer(await api.send(method, path, body, MERGE if method == "PATCH" else None, user))


@pytest.fixture
async def api(admitting: Api) -> Api:
    """Two nodes, and a pod on each."""
    for name in ("n1", "n2"):
        assert (await admitting.post("/api/v1/nodes", {"metadata": {"name": name}})).code == 201
        spec = {"nodeName": name, "containers": [{"name": "c", "image": "i"}]}
        body = {"metadata": {"name": f"on-{name}"}, "spec": spec}
        assert (await admitting.post(PODS, body)).code == 201
    return admitting


def mirror(uid: str, **spec: Json) -> JsonObject:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}
    metadata = {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]}
    return {
        "metadata": metadata,
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], **spec},
    }


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("PATCH", "/api/v1/nodes/n1/status", {"status": {"conditions": []}}, ""),
        ("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"kubernetes.io/os": "linux", "own": "x"}}}, ""),
        ("PATCH", "/api/v1/nodes/n1", {"metadata": {"labels": {"x.node.kubernetes.io/a": "b"}}}, ""),
        (
            "PATCH",
            "/api/v1/nodes/n1",
            {"metadata": {"labels": {"node-role.kubernetes.io/gpu": "", "a.node-restriction.kubernetes.io/b": ""}}},
            "is not allowed to modify labels: a.node-restriction.kubernetes.io/b, node-role.kubernetes.io/gpu",
        ),
        ("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": []}}, 'node "n1" is not allowed to modify taints'),
        ("PATCH", "/api/v1/nodes/n2/status", {}, 'node "n1" is not allowed to modify node "n2"'),
        ("POST", "/api/v1/nodes", {"metadata": {"name": "n3"}}, 'node "n1" is not allowed to modify node "n3"'),
        ("DELETE", "/api/v1/nodes/n2", None, 'node "n1" is not allowed to modify node "n2"'),
        ("PATCH", f"{PODS}/on-n1/status", {"status": {"phase": "Running"}}, ""),
        (
            "PATCH",
            f"{PODS}/on-n2/status",
            {"status": {"phase": "Running"}},
            'node "n1" can only update pod status for pods with spec.nodeName set to itself',
        ),
        ("DELETE", f"{PODS}/on-n1", None, ""),
        ("DELETE", f"{PODS}/on-n2", None, 'node "n1" can only delete pods with spec.nodeName set to itself'),
        ("DELETE", PODS, None, 'node "n1" can only delete pods with spec.nodeName set to itself'),
        (
            "PATCH",
            f"{PODS}/on-n1",
            {"metadata": {"labels": {"a": "b"}}},
            'unexpected operation "UPDATE", node "n1" can only create and delete mirror pods',
        ),
        (
            "POST",
            PODS,
            {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            'pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods',
        ),
        (
            "POST",
            f"{PODS}/on-n2/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "on-n2"}},
            "node n1 can only evict pods with spec.nodeName set to itself",
        ),
        ("POST", LEASES.format("kube-node-lease"), {"metadata": {"name": "n1"}}, ""),
        (
            "POST",
            LEASES.format("kube-node-lease"),
            {"metadata": {"name": "n2"}},
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "POST",
            LEASES.format("d"),
            {"metadata": {"name": "n1"}},
            'can only access leases in the "kube-node-lease" system namespace',
        ),
        (
            "POST",
            "/apis/storage.k8s.io/v1/csinodes",
            {"metadata": {"name": "n2"}, "spec": {"drivers": []}},
            "can only access CSINode with the same name as the requesting node",
        ),
        ("POST", "/api/v1/namespaces/d/configmaps", {"metadata": {"name": "c"}}, ""),
    ],
)
async def test_what_a_node_may_write(api: Api, method: str, path: str, body: Json, words: str) -> None:
    if words.endswith("modify taints"):
        taint = {"key": "k", "effect": "NoSchedule"}
        assert (await api.patch("/api/v1/nodes/n1", {"spec": {"taints": [taint]}})).code == 200
    answer = await by_node(api, method, path, body)
    if words:
        assert answer.code == 403, answer.raw
        assert answer.message.endswith(f"is forbidden: {words}")
    else:
        assert answer.code in (200, 201), answer.raw


async def test_mirror_pods_are_owned_by_their_node_and_refer_to_nothing(api: Api) -> None:
    uid = (await api.get("/api/v1/nodes/n1")).json["metadata"]["uid"]
    volume = {"name": "v", "secret": {"secretName": "s"}}
    for body, words in (
        (mirror(uid, nodeName="n2"), "can only create pods with spec.nodeName set to itself"),
        (mirror("another"), "UID mismatch"),
        (mirror(uid, volumes=[volume]), "can not create pods that reference secrets"),
        (mirror(uid, serviceAccountName="admin"), "can not create pods that reference serviceaccounts"),
    ):
        refused = await by_node(api, "POST", PODS, body)
        assert (refused.code, words in refused.message) == (403, True), refused.raw
    made = await by_node(api, "POST", PODS, mirror(uid))
    assert made.code == 201, made.raw


async def test_others_are_not_restricted(api: Api) -> None:
    for user in (
        User("system:node:n1", ("system:authenticated",)),
        User("operator", ("system:nodes", "system:authenticated")),
    ):
        answer = await by_node(api, "PATCH", "/api/v1/nodes/n2", {"metadata": {"labels": {"a": user.name[:4]}}}, user)
        assert answer.code == 200, answer.raw
