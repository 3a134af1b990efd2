"""What a client may send but Kubernetes 1.36 does not keep, and what it is warned of; all as a real server answered."""

import pytest
from tests.cluster.apiserver.caller import Api
from tests.cluster.apiserver.kinds.specimens import NAMESPACE

from kohort.objects.json_types import Json, JsonObject

CORE = f"/api/v1/namespaces/{NAMESPACE}"
CONTAINER: JsonObject = {"name": "c", "image": "img:1"}
LABELS: JsonObject = {"app": "w"}


def pod(**spec: Json) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": LABELS},
        "spec": {"containers": [CONTAINER], **spec},
    }


def deployment(name: str = "w", **spec: Json) -> JsonObject:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template},
    }


async def test_fields_of_features_that_are_off_are_dropped(admitting: Api) -> None:
    stopping = {**CONTAINER, "lifecycle": {"stopSignal": "SIGTERM"}}
    bundle = {"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"name": "x", "path": "p"}}]}}
    body = pod(containers=[stopping], volumes=[bundle], schedulingGroup={"podGroupName": "g"})
    made = await admitting.post(f"{CORE}/pods", body)
    assert made.code == 201
    spec = made.json["spec"]
    assert "lifecycle" not in spec["containers"][0]
    assert spec["volumes"][0]["projected"]["sources"] == [{}]
    assert "schedulingGroup" not in spec
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    owner = await admitting.post(path, deployment(containers=[stopping]))
    assert "lifecycle" not in owner.json["spec"]["template"]["spec"]["containers"][0]


async def test_a_hook_beside_a_dropped_field_stays(admitting: Api) -> None:
    hook = {"preStop": {"sleep": {"seconds": 1}}}
    made = await admitting.post(
        f"{CORE}/pods", pod(containers=[{**CONTAINER, "lifecycle": {**hook, "stopSignal": "x"}}])
    )
    assert made.json["spec"]["containers"][0]["lifecycle"] == hook


async def test_claims_across_namespaces(admitting: Api) -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "n"}
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "z"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1"}},
            "dataSource": source,
            "dataSourceRef": {**source, "namespace": "q"},
        },
    }
    made = await admitting.post(f"{CORE}/persistentvolumeclaims", body)
    assert made.code == 201
    assert made.json["spec"]["dataSourceRef"] == {"apiGroup": None, **source}


async def test_service_accounts_refer_to_secrets_by_name_alone(admitting: Api) -> None:
    secrets = [{"name": "a", "kind": "Secret", "uid": "u"}]
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}, "secrets": secrets}
    made = await admitting.post(f"{CORE}/serviceaccounts", body)
    assert made.json["secrets"] == [{"name": "a"}]


async def test_ready_replicas_below_zero_are_refused(admitting: Api) -> None:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    made = await admitting.post(path, deployment())
    said = await admitting.put(f"{path}/w/status", {**made.json, "status": {"readyReplicas": -1}})
    assert said.code == 422
    causes = [cause["field"] for cause in said.json["details"]["causes"]]
    assert causes == ["status.readyReplicas", "status.availableReplicas"]


async def test_a_job_shows_the_labels_of_its_pods(admitting: Api) -> None:
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a" * 64}, "spec": {"template": template}}
    said = await admitting.post(path, body)
    # only the template is wrong: the labels of the Job itself are not there yet when it is judged
    assert [cause["field"] for cause in said.json["details"]["causes"]] == ["spec.template.labels"] * 2
    made = await admitting.post(path, {**body, "metadata": {"name": "j"}})
    labels = made.json["spec"]["template"]["metadata"]["labels"]
    assert made.meta["labels"] == labels
    status = await admitting.put(f"{path}/j/status", {**body, "metadata": {"name": "j"}, "status": {"active": 1}})
    assert status.meta["labels"] == labels


HOSTNAME = (
    "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
)


@pytest.mark.parametrize(
    ("collection", "body", "warning"),
    [
        (
            f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
            deployment("a.b"),
            f"metadata.name: {HOSTNAME}: [must not contain dots]",
        ),
        (
            "/api/v1/nodes",
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"externalID": "x"}},
            "spec.externalID: this field is deprecated, and is unused by Kubernetes",
        ),
        (
            f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": "s"},
                "addressType": "FQDN",
                "endpoints": [],
            },
            "spec.addressType: FQDN endpoints are deprecated",
        ),
        (
            "/apis/storage.k8s.io/v1/csidrivers",
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIDriver",
                "metadata": {"name": "d"},
                "spec": {"tokenRequests": [{"audience": "a"}]},
            },
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent "
            "possible logging of tokens in volume attributes",
        ),
    ],
)
async def test_warnings(admitting: Api, collection: str, body: JsonObject, warning: str) -> None:
    made = await admitting.post(collection, body)
    assert made.code == 201
    assert made.warnings == [f'299 - "{warning}"']
