"""Annotations of pods that are older than the fields for the same, and warnings; all as a real server answered."""

import pytest
from tests.cluster.apiserver.caller import Api
from tests.cluster.apiserver.kinds.specimens import NAMESPACE

from kohort.objects.json_types import Json, JsonObject

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_C = "container.seccomp.security.alpha.kubernetes.io/c"
ARMOR = "container.apparmor.security.beta.kubernetes.io/"
TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
USE_SECCOMP = 'non-functional in v1.27+; use the \\"seccompProfile\\" field instead'
USE_ARMOR = 'deprecated since v1.30; use the \\"appArmorProfile\\" field instead'
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
USE_ZONE = 'deprecated since v1.17; use \\"topology.kubernetes.io/zone\\" instead'
FRACTION = 'fractional byte value \\"1500m\\" is invalid, must be an integer'
MANY_INDEXES = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)


def pod(annotations: JsonObject, **context: Json) -> JsonObject:
    container = {"name": "c", "image": "i", **({"securityContext": context} if context else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"containers": [container]},
    }


def warning(text: str) -> str:
    return f'299 - "{text}"'


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({SECCOMP: "x"}, f'metadata.annotations.{SECCOMP}: Invalid value: "x": must be a valid seccomp profile'),
        ({SECCOMP: ""}, f'metadata.annotations.{SECCOMP}: Invalid value: "": must be a valid seccomp profile'),
        (
            {SECCOMP: "localhost/../b"},
            f"metadata.annotations.{SECCOMP}: Invalid value: \"../b\": must not contain '..'",
        ),
        ({SECCOMP: "localhost//b"}, f'metadata.annotations.{SECCOMP}: Invalid value: "/b": must be a relative path'),
        ({SECCOMP_C: "x"}, f'metadata.annotations.{SECCOMP_C}: Invalid value: "x": must be a valid seccomp profile'),
        ({ARMOR + "z": "unconfined"}, f'metadata.annotations[{ARMOR}z]: Invalid value: "z": container not found'),
        ({ARMOR + "c": "x"}, f'metadata.annotations[{ARMOR}c]: Invalid value: "x": invalid AppArmor profile name: "x"'),
        (
            {TOLERATIONS: "x"},
            f'metadata.annotations: Invalid value: "{TOLERATIONS}": '
            "invalid character 'x' looking for beginning of value",
        ),
    ],
)
async def test_what_they_may_say(admitting: Api, annotations: JsonObject, message: str) -> None:
    refused = await admitting.post(PODS, pod(annotations))
    assert (refused.code, refused.message) == (422, f'Pod "p" is invalid: {message}')
    assert (await admitting.post(PODS, pod({}))).code == 201
    changed = await admitting.patch(f"{PODS}/p", {"metadata": {"annotations": annotations}})
    assert changed.code == 422
    template = {"metadata": {"labels": {"a": "b"}, "annotations": annotations}, "spec": pod({})["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "w"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    refused = await admitting.post(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", deployment)
    assert refused.code == 422
    assert refused.message.startswith('Deployment.apps "w" is invalid: spec.template.annotations')


@pytest.mark.parametrize(
    ("annotations", "context", "field"),
    [
        ({SECCOMP_C: "unconfined"}, {"seccompProfile": {"type": "RuntimeDefault"}}, "seccompProfile.type"),
        ({SECCOMP_C: "localhost/a"}, {"seccompProfile": {"type": "RuntimeDefault"}}, "seccompProfile.type"),
        (
            {SECCOMP_C: "localhost/a"},
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "b"}},
            "seccompProfile.localhostProfile",
        ),
        ({ARMOR + "c": "unconfined"}, {"appArmorProfile": {"type": "RuntimeDefault"}}, "appArmorProfile.type"),
    ],
)
async def test_annotation_and_field_agree(
    admitting: Api, annotations: JsonObject, context: JsonObject, field: str
) -> None:
    refused = await admitting.post(PODS, pod(annotations, **context))
    assert refused.code == 422
    assert f"spec.containers[0].securityContext.{field}: Forbidden: " in refused.message


@pytest.mark.parametrize(
    ("profile", "field"),
    [
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("unconfined", {"type": "Unconfined"}),
        ("localhost/x", {"type": "Localhost", "localhostProfile": "x"}),
        ("localhost/", None),
        ("", None),
    ],
)
async def test_profiles_of_app_armor_reach_the_field(admitting: Api, profile: str, field: JsonObject | None) -> None:
    made = await admitting.post(PODS, pod({ARMOR + "c": profile}))
    assert made.code == 201
    assert (made.json["spec"]["containers"][0].get("securityContext") or {}).get("appArmorProfile") == field
    assert made.warnings == [warning(f"metadata.annotations[{ARMOR}c]: {USE_ARMOR}")]


def job(**spec: Json) -> JsonObject:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"completionMode": "Indexed", "completions": 100_001, "template": template, **spec}


def claim(**sides: str) -> JsonObject:
    resources = {side: {"storage": amount} for side, amount in sides.items()}
    return {"accessModes": ["ReadWriteOnce"], "resources": resources}


def volume(**spec: Json) -> JsonObject:
    return {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec}


ZONE_TERM: JsonObject = {"matchExpressions": [{"key": OLD_ZONE, "operator": "In", "values": ["b"]}]}
TEMPLATE_LABELS: JsonObject = {"selector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("path", "kind", "fields", "warnings"),
    [
        ("batch/v1", "Job", {"spec": job(parallelism=10_001)}, [f"spec: {MANY_INDEXES}"]),
        ("batch/v1", "Job", {"spec": job(parallelism=10_000)}, []),
        (
            "batch/v1",
            "CronJob",
            {"spec": {"schedule": "@daily", "jobTemplate": {"spec": job(parallelism=10_001)}}},
            [f"spec.jobTemplate.spec: {MANY_INDEXES}"],
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            {"spec": claim(requests="1500m", limits="1500m")},
            [f"spec.resources.requests[storage]: {FRACTION}", f"spec.resources.limits[storage]: {FRACTION}"],
        ),
        (
            "apps/v1",
            "StatefulSet",
            {
                "spec": {
                    **TEMPLATE_LABELS,
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod({})["spec"]},
                    "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": claim(requests="1.5")}],
                }
            },
            [f"spec.volumeClaimTemplates[0].resources.requests[storage]: {FRACTION}"],
        ),
        (
            "!v1",
            "PersistentVolume",
            {"spec": volume(hostPath={"path": "/x"}, nodeAffinity={"required": {"nodeSelectorTerms": [ZONE_TERM]}})},
            [f"spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: {OLD_ZONE} is {USE_ZONE}"],
        ),
        (
            "!v1",
            "PersistentVolume",
            {"spec": volume(cephfs={"monitors": ["m"]})},
            ["spec.cephfs: deprecated in v1.28, non-functional in v1.31+"],
        ),
        ("!v1", "PersistentVolume", {"spec": volume(flocker={"datasetName": "d"})}, []),
        (
            "!storage.k8s.io/v1",
            "StorageClass",
            {
                "provisioner": "example.com/p",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": OLD_ZONE, "values": ["a"]}]}],
            },
            [f"allowedTopologies[0].matchLabelExpressions[0].key: {USE_ZONE}"],
        ),
        (
            "storage.k8s.io/v1",
            "CSIStorageCapacity",
            {"storageClassName": "a", "nodeTopology": {"matchLabels": {OLD_ZONE: "a"}}},
            [f"nodeTopology.matchLabels.{OLD_ZONE}: {USE_ZONE}"],
        ),
        (
            "!node.k8s.io/v1",
            "RuntimeClass",
            {"handler": "h", "scheduling": {"nodeSelector": {OLD_ZONE: "a"}}},
            [f"scheduling.nodeSelector: {USE_ZONE}"],
        ),
    ],
)
async def test_warnings_about_what_is_accepted(
    admitting: Api, path: str, kind: str, fields: JsonObject, warnings: list[str]
) -> None:
    version = path.removeprefix("!")
    place = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place += "" if path.startswith("!") else f"/namespaces/{NAMESPACE}"
    plural = (
        "csistoragecapacities"
        if kind == "CSIStorageCapacity"
        else f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    )
    made = await admitting.post(
        f"{place}/{plural}", {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields}
    )
    assert made.code == 201, made.message
    assert sorted(made.warnings) == sorted(warning(text) for text in warnings)


async def test_templates_are_warned_of_their_annotations(admitting: Api) -> None:
    annotations = {ARMOR + "c": "unconfined", SECCOMP_C: "unconfined", SECCOMP: "unconfined"}
    template = {"metadata": {"labels": {"a": "b"}, "annotations": annotations}, "spec": pod({})["spec"]}
    made = await admitting.post(
        f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "w"},
            "spec": {**TEMPLATE_LABELS, "template": template},
        },
    )
    where = "spec.template.metadata.annotations"
    assert sorted(made.warnings) == sorted(
        warning(f"{where}[{key}]: {USE_ARMOR if key.startswith(ARMOR) else USE_SECCOMP}") for key in annotations
    )
