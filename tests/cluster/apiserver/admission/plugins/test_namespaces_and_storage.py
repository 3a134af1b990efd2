"""Steps around namespaces, claims and ingresses."""

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.objects.json_types import Json, JsonObject

CLAIMS = "/api/v1/namespaces/d/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


def claim(name: str = "c", size: str = "1Gi", annotations: JsonObject | None = None, **spec: Json) -> JsonObject:
    resources = {"requests": {"storage": size}}
    body = {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": body}


def storage_class(name: str, *, default: bool, **more: Json) -> JsonObject:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {"metadata": {"name": name, "annotations": annotations}, "provisioner": "example.com/p", **more}


# --- namespaces


async def test_nothing_is_made_in_a_namespace_that_is_not_there(admitting: Api) -> None:
    answer = await admitting.post("/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "x"}})
    assert (answer.code, answer.message) == (404, 'namespaces "nowhere" not found')
    assert answer.json["details"] == {"name": "nowhere", "kind": "namespaces"}


async def test_nothing_is_made_in_a_namespace_that_ends(admitting: Api) -> None:
    await admitting.delete("/api/v1/namespaces/d")
    answer = await admitting.post("/api/v1/namespaces/d/configmaps", {"metadata": {"name": "x"}})
    assert (answer.code, answer.message) == (
        403,
        'configmaps "x" is forbidden: unable to create new content in namespace d because it is being terminated',
    )
    assert answer.json["details"]["causes"] == [
        {"reason": "NamespaceTerminating", "message": "namespace d is being terminated", "field": "metadata.namespace"}
    ]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_stay(admitting: Api, name: str) -> None:
    answer = await admitting.delete(f"/api/v1/namespaces/{name}")
    assert (answer.code, answer.message) == (
        403,
        f'namespaces "{name}" is forbidden: this namespace may not be deleted',
    )


async def test_the_namespace_of_node_leases_may_go(admitting: Api) -> None:
    assert (await admitting.delete("/api/v1/namespaces/kube-node-lease")).code == 200


# --- claims


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (claim(), "usual"),
        (claim(storageClassName=""), ""),
        (claim(storageClassName="gold"), "gold"),
        (claim(annotations={"volume.beta.kubernetes.io/storage-class": "gold"}), None),
    ],
)
async def test_the_default_class(admitting: Api, body: JsonObject, found: str | None) -> None:
    await admitting.post(CLASSES, storage_class("gold", default=False))
    await admitting.post(CLASSES, storage_class("usual", default=True))
    assert (await admitting.post(CLAIMS, body)).json["spec"].get("storageClassName") == found


async def test_claims_and_volumes_are_protected(admitting: Api) -> None:
    assert (await admitting.post(CLAIMS, claim())).meta["finalizers"] == ["kubernetes.io/pvc-protection"]
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    volume = await admitting.post("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": spec})
    assert volume.meta["finalizers"] == ["kubernetes.io/pv-protection"]


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_claim_grows_if_its_class_lets_it(admitting: Api, allowed: bool) -> None:
    await admitting.post(CLASSES, storage_class("s", default=True, allowVolumeExpansion=allowed))
    await admitting.post(CLAIMS, claim())
    bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    assert (await admitting.patch(f"{CLAIMS}/c/status", bound)).code == 200
    grown = await admitting.patch(f"{CLAIMS}/c", {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    assert grown.code == (200 if allowed else 403)
    if not allowed:
        assert grown.message == (
            'persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and '
            "the storageclass that provisions the pvc must support resize"
        )


# --- ingresses


async def test_the_default_ingress_class(admitting: Api) -> None:
    default = {"ingressclass.kubernetes.io/is-default-class": "true"}
    group = "/apis/networking.k8s.io/v1"
    body = {"metadata": {"name": "c", "annotations": default}, "spec": {"controller": "example.com/c"}}
    assert (await admitting.post(f"{group}/ingressclasses", body)).code == 201
    spec = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    ingresses = f"{group}/namespaces/d/ingresses"
    made = await admitting.post(ingresses, {"metadata": {"name": "a"}, "spec": spec})
    assert made.json["spec"]["ingressClassName"] == "c"
    own = {"name": "b", "annotations": {"kubernetes.io/ingress.class": "mine"}}
    assert "ingressClassName" not in (await admitting.post(ingresses, {"metadata": own, "spec": spec})).json["spec"]
