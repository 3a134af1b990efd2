"""Stored defaults of fields that were not set (specification 5.2), seen through the server."""

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.objects.json_types import Json, JsonObject

CORE = "/api/v1/namespaces/d"
APPS = "/apis/apps/v1/namespaces/d"
BATCH = "/apis/batch/v1/namespaces/d"
POD: JsonObject = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE: JsonObject = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
SELECTOR: JsonObject = {"matchLabels": {"a": "b"}}
TARGET: JsonObject = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
WORKLOAD: JsonObject = {"spec": {"selector": SELECTOR, "template": TEMPLATE}}
JOB: JsonObject = {"template": {"spec": {**POD, "restartPolicy": "Never"}}}


def at(obj: Json, path: str) -> Json:
    """The value at a dotted path; None where it ends early."""
    for key in path.split("."):
        if isinstance(obj, list):
            obj = obj[int(key)]
        else:
            obj = (obj or {}).get(key.replace("~", "."))
    return obj


TABLE: list[tuple[str, str, JsonObject, dict[str, Json]]] = [
    (
        "pod",
        f"{CORE}/pods",
        {"spec": POD},
        {
            "spec.restartPolicy": "Always",
            "spec.dnsPolicy": "ClusterFirst",
            "spec.securityContext": {},
            "spec.terminationGracePeriodSeconds": 30,
            "spec.schedulerName": "default-scheduler",
            "spec.enableServiceLinks": True,
            "spec.priority": 0,
            "spec.preemptionPolicy": "PreemptLowerPriority",
            "spec.containers.0.imagePullPolicy": "Always",
            "spec.containers.0.terminationMessagePath": "/dev/termination-log",
            "spec.containers.0.terminationMessagePolicy": "File",
            "spec.containers.0.resources": {},
            "status.phase": "Pending",
            "status.qosClass": "BestEffort",
            "metadata.generation": 1,
        },
    ),
    (
        "container details",
        f"{CORE}/pods",
        {
            "spec": {
                "serviceAccountName": "me",
                "hostNetwork": True,
                "containers": [
                    {
                        "name": "c",
                        "image": "registry.example:5000/a/b:1.2",
                        "ports": [{"containerPort": 80}],
                        "livenessProbe": {"httpGet": {"port": 80}},
                        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": "0.5"}},
                        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    }
                ],
            }
        },
        {
            "spec.serviceAccount": "me",
            "spec.containers.0.imagePullPolicy": "IfNotPresent",
            "spec.containers.0.ports.0": {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
            "spec.containers.0.livenessProbe": {
                "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                "timeoutSeconds": 1,
                "periodSeconds": 10,
                "successThreshold": 1,
                "failureThreshold": 3,
            },
            "spec.containers.0.resources": {
                "limits": {"cpu": "1", "memory": "1Gi"},
                "requests": {"cpu": "500m", "memory": "1Gi"},
            },
            "spec.containers.0.env.0.valueFrom.fieldRef.apiVersion": "v1",
            "status.qosClass": "Burstable",
        },
    ),
    (
        "volumes",
        f"{CORE}/pods",
        {
            "spec": {
                **POD,
                "serviceAccountName": "me",
                "volumes": [
                    {"name": "none"},
                    {"name": "secret", "secret": {"secretName": "s"}},
                    {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                    {"name": "host", "hostPath": {"path": "/x"}},
                ],
            }
        },
        {
            "spec.volumes.0.emptyDir": {},
            "spec.volumes.1.secret.defaultMode": 420,
            "spec.volumes.2.projected.defaultMode": 420,
            "spec.volumes.2.projected.sources.0.serviceAccountToken.expirationSeconds": 3600,
            "spec.volumes.3.hostPath.type": "",
        },
    ),
    (
        "gated pod",
        f"{CORE}/pods",
        {"spec": {**POD, "schedulingGates": [{"name": "example.com/wait"}]}},
        {
            "status.conditions.0.type": "PodScheduled",
            "status.conditions.0.status": "False",
            "status.conditions.0.reason": "SchedulingGated",
        },
    ),
    (
        "service",
        f"{CORE}/services",
        {"spec": {"ports": [{"port": 80}], "sessionAffinity": "ClientIP"}},
        {
            "spec.type": "ClusterIP",
            "spec.ports.0": {"port": 80, "targetPort": 80, "protocol": "TCP"},
            "spec.internalTrafficPolicy": "Cluster",
            "spec.externalTrafficPolicy": None,
            "spec.ipFamilyPolicy": "SingleStack",
            "spec.ipFamilies": ["IPv4"],
            "spec.sessionAffinityConfig.clientIP.timeoutSeconds": 10800,
        },
    ),
    (
        "headless service",
        f"{CORE}/services",
        {"spec": {"clusterIP": "None", "selector": {"a": "b"}}},
        {"spec.clusterIP": "None", "spec.clusterIPs": ["None"], "spec.sessionAffinity": "None"},
    ),
    (
        "balanced service",
        f"{CORE}/services",
        {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
        {"spec.externalTrafficPolicy": "Cluster", "spec.allocateLoadBalancerNodePorts": True},
    ),
    (
        "secret",
        f"{CORE}/secrets",
        {"stringData": {"k": "v"}},
        {"type": "Opaque", "data": {"k": "dg=="}, "stringData": None},
    ),
    (
        "claim",
        f"{CORE}/persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}},
        {
            "spec.volumeMode": "Filesystem",
            "spec.resources.requests.storage": "1Gi",
            "status.phase": "Pending",
            "metadata.finalizers": ["kubernetes.io/pvc-protection"],
        },
    ),
    (
        "stateful set",
        f"{APPS}/statefulsets",
        {
            "spec": {
                "selector": SELECTOR,
                "template": TEMPLATE,
                "serviceName": "s",
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "v"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    }
                ],
            }
        },
        {
            "spec.replicas": 1,
            "spec.podManagementPolicy": "OrderedReady",
            "spec.updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "spec.revisionHistoryLimit": 10,
            "spec.persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "spec.volumeClaimTemplates.0.apiVersion": "v1",
            "spec.volumeClaimTemplates.0.kind": "PersistentVolumeClaim",
            "spec.volumeClaimTemplates.0.spec.volumeMode": "Filesystem",
            "spec.volumeClaimTemplates.0.status.phase": "Pending",
            "spec.template.spec.restartPolicy": "Always",
            "spec.template.spec.enableServiceLinks": None,
        },
    ),
    (
        "deployment",
        f"{APPS}/deployments",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
        {
            "spec.replicas": 1,
            "spec.strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
            },
            "spec.revisionHistoryLimit": 10,
            "spec.progressDeadlineSeconds": 600,
        },
    ),
    (
        "daemon set",
        f"{APPS}/daemonsets",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
        {
            "spec.updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
            },
            "spec.revisionHistoryLimit": 10,
        },
    ),
    (
        "job",
        f"{BATCH}/jobs",
        {"spec": JOB},
        {
            "spec.completions": 1,
            "spec.parallelism": 1,
            "spec.backoffLimit": 6,
            "spec.completionMode": "NonIndexed",
            "spec.suspend": False,
            "spec.podReplacementPolicy": "TerminatingOrFailed",
            "spec.template.metadata.labels.job-name": "x",
            "spec.template.metadata.labels.batch~kubernetes~io/job-name": "x",
        },
    ),
    (
        "cron job",
        f"{BATCH}/cronjobs",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}},
        {
            "spec.concurrencyPolicy": "Allow",
            "spec.suspend": False,
            "spec.successfulJobsHistoryLimit": 3,
            "spec.failedJobsHistoryLimit": 1,
        },
    ),
    (
        "autoscaler",
        "/apis/autoscaling/v2/namespaces/d/horizontalpodautoscalers",
        {"spec": {"maxReplicas": 3, "scaleTargetRef": TARGET, "behavior": {}}},
        {
            "spec.minReplicas": 1,
            "spec.metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                }
            ],
            "spec.behavior.scaleUp.stabilizationWindowSeconds": 0,
            "spec.behavior.scaleUp.selectPolicy": "Max",
            "spec.behavior.scaleDown.policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
        },
    ),
    (
        "network policy",
        "/apis/networking.k8s.io/v1/namespaces/d/networkpolicies",
        {"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}},
        {"spec.policyTypes": ["Ingress", "Egress"], "spec.egress.0.ports.0.protocol": "TCP"},
    ),
    (
        "role binding",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/d/rolebindings",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "d"}],
        },
        {
            "roleRef.apiGroup": "rbac.authorization.k8s.io",
            "subjects.0.apiGroup": "rbac.authorization.k8s.io",
            "subjects.1.apiGroup": None,
        },
    ),
    (
        "storage class",
        "/apis/storage.k8s.io/v1/storageclasses",
        {"provisioner": "example.com/p"},
        {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    ),
    (
        "priority class",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"value": 5},
        {"preemptionPolicy": "PreemptLowerPriority"},
    ),
    (
        "csi driver",
        "/apis/storage.k8s.io/v1/csidrivers",
        {"spec": {}},
        {
            "spec.attachRequired": True,
            "spec.podInfoOnMount": False,
            "spec.volumeLifecycleModes": ["Persistent"],
            "spec.fsGroupPolicy": "ReadWriteOnceWithFSType",
        },
    ),
    (
        "endpoint slice",
        "/apis/discovery.k8s.io/v1/namespaces/d/endpointslices",
        {"addressType": "IPv4", "endpoints": [], "ports": [{"port": 80}]},
        {"ports.0": {"name": "", "port": 80, "protocol": "TCP"}},
    ),
    (
        "namespace",
        "/api/v1/namespaces",
        {},
        {
            "metadata.labels": {"kubernetes.io/metadata.name": "x"},
            "spec.finalizers": ["kubernetes"],
            "status.phase": "Active",
        },
    ),
    (
        "node",
        "/api/v1/nodes",
        {"status": {"capacity": {"cpu": "4"}}},
        {
            "spec.taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}],
            "status.capacity": {"cpu": "4"},
        },
    ),
    (
        "lease",
        "/apis/coordination.k8s.io/v1/namespaces/d/leases",
        {"spec": {"renewTime": "2026-01-02T03:04:05.000006Z"}},
        {"spec.renewTime": "2026-01-02T03:04:05.000006Z", "metadata.generation": None},
    ),
]


@pytest.mark.parametrize(("collection", "body", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
async def test_defaults(admitting: Api, collection: str, body: JsonObject, expected: dict[str, Json]) -> None:
    created = await admitting.post(collection, {"metadata": {"name": "x"}, **body})
    assert created.code == 201, created.raw
    assert {path: at(created.json, path) for path in expected} == expected


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("registry:5000/nginx", "Always"),
        (f"nginx@sha256:{'0' * 64}", "IfNotPresent"),
        (f"nginx:latest@sha256:{'0' * 64}", "Always"),
        ("Bad Name!", "IfNotPresent"),
        ("a" * 300, "IfNotPresent"),
    ],
)
async def test_images_that_may_change_are_always_pulled(admitting: Api, image: str, policy: str) -> None:
    spec = {"containers": [{"name": "c", "image": image}]}
    created = await admitting.post(f"{CORE}/pods", {"metadata": {"name": "x"}, "spec": spec})
    assert created.json["spec"]["containers"][0]["imagePullPolicy"] == policy


NOTE: JsonObject = {"metadata": {"annotations": {"x": "y"}}}
GENERATIONS: list[tuple[str, JsonObject, JsonObject, int | None]] = [
    (f"{APPS}/deployments", WORKLOAD, {"spec": {"replicas": 2}}, 2),
    (f"{APPS}/deployments", WORKLOAD, {"metadata": {"labels": {"x": "y"}}}, 1),
    (f"{APPS}/deployments", WORKLOAD, NOTE, 2),
    (f"{APPS}/replicasets", WORKLOAD, NOTE, 1),
    (f"{CORE}/pods", {"spec": POD}, {"spec": {"containers": [{"name": "c", "image": "j"}]}}, 2),
    (f"{CORE}/configmaps", {"data": {"a": "b"}}, {"data": {"a": "c"}}, None),
    (f"{CORE}/services", {"spec": {"ports": [{"port": 1}]}}, {"spec": {"selector": {"a": "b"}}}, None),
    (
        "/apis/networking.k8s.io/v1/namespaces/d/networkpolicies",
        {"spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}},
        {"spec": {"ingress": [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]}},
        2,
    ),
    (
        "/apis/autoscaling/v2/namespaces/d/horizontalpodautoscalers",
        {"spec": {"maxReplicas": 3, "scaleTargetRef": TARGET}},
        {"spec": {"maxReplicas": 4}},
        None,
    ),
]


@pytest.mark.parametrize(("collection", "body", "change", "generation"), GENERATIONS)
async def test_generations(
    admitting: Api, collection: str, body: JsonObject, change: JsonObject, generation: int | None
) -> None:
    """The generation counts changes of what is wanted, not of what is noted (specification 5.4)."""
    await admitting.post(collection, {"metadata": {"name": "x"}, **body})
    media = "application/strategic-merge-patch+json"
    changed = await admitting.patch(f"{collection}/x", change, media)
    assert changed.code == 200, changed.raw
    assert changed.meta.get("generation") == generation
