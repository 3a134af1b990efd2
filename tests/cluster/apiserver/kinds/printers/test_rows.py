"""Rows of all other kinds, as kubectl prints them."""

import pytest
from tests.cluster.apiserver.kinds.printers.rows import ago, cells

from kohort.objects.json_types import Json, JsonObject

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "i:2"}]}}
EXPRESSIONS = [{"key": "z", "operator": "NotIn", "values": ["y", "x"]}, {"key": "q", "operator": "DoesNotExist"}]


def metric(type_: str, **source: Json) -> JsonObject:
    return {"type": type_, type_[0].lower() + type_[1:]: source}


CPU = metric("Resource", name="cpu", target={"averageUtilization": 80})


def autoscaler(*metrics: JsonObject, current: tuple[JsonObject, ...] = ()) -> JsonObject:
    return {"spec": {"metrics": list(metrics)}, "status": {"currentMetrics": list(current)}}


CASES: list[tuple[str, JsonObject, dict[str, Json]]] = [
    (
        "Deployment",
        {
            "spec": {"replicas": 3, "template": TEMPLATE, "selector": {"matchLabels": {"a": "b"}}},
            "status": {"readyReplicas": 1},
        },
        {"Ready": "1/3", "Up-to-date": 0, "Containers": "c,d", "Images": "i:1,i:2", "Selector": "a=b", "Age": "5m"},
    ),
    (
        "ReplicaSet",
        {"spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}, "matchExpressions": EXPRESSIONS}}},
        {"Desired": 3, "Current": 0, "Selector": "a=b,!q,z notin (x,y)"},
    ),
    ("ReplicationController", {"spec": {"selector": {"b": "2", "a": "1"}}}, {"Selector": "a=1,b=2"}),
    ("StatefulSet", {"spec": {"replicas": 2, "template": TEMPLATE}}, {"Ready": "0/2", "Images": "i:1,i:2"}),
    (
        "DaemonSet",
        {"spec": {}, "status": {"numberReady": 4}},
        {"Ready": 4, "Node Selector": "<none>", "Selector": "<none>"},
    ),
    ("ControllerRevision", {"revision": 3}, {"Controller": "<none>", "Revision": 3}),
    (
        "ControllerRevision",
        {
            "metadata": {
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}]
            }
        },
        {"Controller": "statefulset.apps/web"},
    ),
    (
        "Job",
        {"spec": {"completions": 3}, "status": {"succeeded": 1}},
        {"Status": "Running", "Completions": "1/3", "Duration": ""},
    ),
    (
        "Job",
        {"spec": {"parallelism": 4}, "status": {"startTime": ago(minutes=3)}},
        {"Completions": "0/1 of 4", "Duration": "3m"},
    ),
    (
        "Job",
        {
            "spec": {"parallelism": 1},
            "status": {
                "startTime": ago(minutes=3),
                "completionTime": ago(minutes=1),
                "conditions": [
                    {"type": "SuccessCriteriaMet", "status": "True"},
                    {"type": "Complete", "status": "True"},
                ],
            },
        },
        {"Status": "Complete", "Completions": "0/1", "Duration": "2m"},
    ),
    ("Job", {"metadata": {"deletionTimestamp": ago(seconds=1)}}, {"Status": "Terminating"}),
    ("Job", {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}, {"Status": "Suspended"}),
    (
        "CronJob",
        {
            "spec": {"schedule": "* * * * *", "suspend": False},
            "status": {"lastScheduleTime": ago(seconds=30), "active": [{}]},
        },
        {"Schedule": "* * * * *", "Timezone": "<none>", "Suspend": "False", "Active": 1, "Last Schedule": "30s"},
    ),
    ("PodDisruptionBudget", {"spec": {"minAvailable": 1}}, {"Min Available": "1", "Max Unavailable": "N/A"}),
    ("HorizontalPodAutoscaler", autoscaler(), {"Targets": "<none>", "MinPods": "<unset>"}),
    ("HorizontalPodAutoscaler", autoscaler(CPU), {"Targets": "cpu: <unknown>/80%"}),
    (
        "HorizontalPodAutoscaler",
        autoscaler(CPU, current=(metric("Resource", current={"averageUtilization": 10}),)),
        {"Targets": "cpu: 10%/80%"},
    ),
    (
        "HorizontalPodAutoscaler",
        autoscaler(metric("External", target={"averageValue": "5"}), metric("Pods", target={"averageValue": "2"}), CPU),
        {"Targets": "<unknown>/5 (avg), <unknown>/2 + 1 more..."},
    ),
    ("HorizontalPodAutoscaler", autoscaler(metric("Object", target={"value": "7"})), {"Targets": "<unknown>/7"}),
    (
        "Service",
        {"spec": {"type": "ClusterIP", "clusterIPs": ["None"], "ports": [{"port": 80, "protocol": "TCP"}]}},
        {"Cluster-IP": "None", "External-IP": "<none>", "Port(s)": "80/TCP", "Selector": "<none>"},
    ),
    (
        "Service",
        {
            "spec": {
                "type": "NodePort",
                "externalIPs": ["9.9.9.9"],
                "ports": [
                    {"port": 80, "protocol": "TCP", "nodePort": 30001},
                    {"port": 53, "protocol": "UDP", "nodePort": 30002},
                ],
            }
        },
        {"External-IP": "9.9.9.9", "Port(s)": "80:30001/TCP,53:30002/UDP"},
    ),
    (
        "Service",
        {"spec": {"type": "LoadBalancer"}},
        {"External-IP": "<pending>", "Cluster-IP": "<none>", "Port(s)": "<none>"},
    ),
    (
        "Service",
        {
            "spec": {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
            "status": {"loadBalancer": {"ingress": [{"ip": "2.2.2.2"}, {"hostname": "h"}, {"ip": "1.1.1.1"}]}},
        },
        {"External-IP": "1.1.1.1,2.2.2.2,h,9.9.9.9"},
    ),
    ("Service", {"spec": {"type": "ExternalName", "externalName": "x.y"}}, {"External-IP": "x.y"}),
    ("Endpoints", {}, {"Endpoints": "<none>"}),
    (
        "Endpoints",
        {"subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}, {"port": 81}]}]},
        {"Endpoints": "1.1.1.1:80,[fd00::1]:80,1.1.1.1:81 + 1 more..."},
    ),
    ("Endpoints", {"subsets": [{"addresses": [{"ip": "1.1.1.1"}]}]}, {"Endpoints": "1.1.1.1"}),
    ("EndpointSlice", {"addressType": "IPv4"}, {"AddressType": "IPv4", "Ports": "<unset>", "Endpoints": "<unset>"}),
    (
        "EndpointSlice",
        {"ports": [{"port": 80}, {"name": "z"}, {}], "endpoints": [{"addresses": [f"1.1.1.{n}"]} for n in range(1, 6)]},
        {"Ports": "80,z,*", "Endpoints": "1.1.1.1,1.1.1.2,1.1.1.3 + 2 more..."},
    ),
    (
        "Ingress",
        {"spec": {"ingressClassName": "ic", "tls": [{}], "rules": [{"host": "a.b"}]}},
        {"Class": "ic", "Hosts": "a.b", "Address": "", "Ports": "80, 443"},
    ),
    ("Ingress", {"spec": {"rules": [{}]}}, {"Class": "<none>", "Hosts": "*", "Ports": "80"}),
    (
        "Ingress",
        {"spec": {"rules": [{"host": "a"}, {}, {"host": "b"}, {"host": "c"}, {"host": "d"}]}},
        {"Hosts": "a,b,c + 2 more..."},
    ),
    (
        "IngressClass",
        {
            "metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
            "spec": {"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "n"}},
        },
        {"Name": "x (default)", "Parameters": "K.g/n"},
    ),
    ("NetworkPolicy", {"spec": {"podSelector": {}}}, {"Pod-Selector": "<none>"}),
    (
        "Node",
        {
            "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}},
            "spec": {"unschedulable": True},
            "status": {
                "conditions": [{"type": "Ready", "status": "Unknown"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kernelVersion": "6.1", "architecture": "amd64", "kubeletVersion": "v1.36.4"},
            },
        },
        {
            "Status": "NotReady,SchedulingDisabled",
            "Roles": "gpu,worker",
            "Version": "v1.36.4",
            "Internal-IP": "10.0.0.1",
            "External-IP": "<none>",
            "OS-Image": "<unknown>",
            "Kernel-Version": "6.1 (amd64)",
        },
    ),
    ("Node", {}, {"Status": "Unknown", "Roles": "<none>"}),
    ("ConfigMap", {"data": {"a": "1"}, "binaryData": {"b": ""}}, {"Data": 2}),
    (
        "Event",
        {
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
            "firstTimestamp": ago(minutes=4),
            "lastTimestamp": ago(minutes=2),
            "count": 3,
            "message": " text\n",
            "source": {"component": "kubelet", "host": "n1"},
        },
        {
            "Object": "pod/p",
            "Subobject": "spec.containers{c}",
            "First Seen": "4m",
            "Last Seen": "2m",
            "Count": 3,
            "Message": "text",
            "Source": "kubelet, n1",
        },
    ),
    (
        "Event",
        {
            "regarding": {"kind": "Node"},
            "eventTime": ago(minutes=4),
            "series": {"count": 7, "lastObservedTime": ago(minutes=3)},
            "note": "n",
            "reportingController": "c",
        },
        {"Object": "node", "First Seen": "4m", "Last Seen": "3m", "Count": 7, "Message": "n", "Source": "c"},
    ),
    ("Event", {}, {"Last Seen": "<unknown>", "Count": 1}),
    (
        "ResourceQuota",
        {"status": {"hard": {"pods": "10", "limits.cpu": "2", "requests.cpu": "1"}, "used": {"pods": "3"}}},
        {"Request": "pods: 3/10, requests.cpu: 0/1", "Limit": "limits.cpu: 0/2"},
    ),
    (
        "PersistentVolume",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "claimRef": {"namespace": "n", "name": "c"},
            }
        },
        {"Capacity": "1Gi", "Access Modes": "RWO,RWX", "Claim": "n/c", "VolumeAttributesClass": "<unset>"},
    ),
    (
        "PersistentVolumeClaim",
        {
            "spec": {"volumeName": "v", "storageClassName": "s"},
            "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOncePod"]},
        },
        {"Status": "Bound", "Volume": "v", "Capacity": "2Gi", "Access Modes": "RWOP", "StorageClass": "s"},
    ),
    (
        "PersistentVolumeClaim",
        {"metadata": {"deletionTimestamp": ago(seconds=1)}},
        {"Status": "Terminating", "Capacity": ""},
    ),
    (
        "StorageClass",
        {"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"},
        {
            "Name": "x (default)",
            "ReclaimPolicy": "Delete",
            "VolumeBindingMode": "Immediate",
            "AllowVolumeExpansion": False,
        },
    ),
    ("CSIDriver", {"spec": {}}, {"AttachRequired": True, "TokenRequests": "<unset>", "Modes": "<none>"}),
    (
        "RoleBinding",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "User", "name": "v"},
                {"kind": "Group", "name": "g"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
            ],
        },
        {"Role": "Role/r", "Users": "u, v", "Groups": "g", "ServiceAccounts": "n/s"},
    ),
    (
        "CertificateSigningRequest",
        {
            "spec": {"username": "me", "expirationSeconds": 86400},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "x"},
        },
        {"SignerName": "<none>", "Requestor": "me", "RequestedDuration": "24h", "Condition": "Approved,Issued"},
    ),
    ("CertificateSigningRequest", {"status": {"conditions": [{"type": "Denied"}]}}, {"Condition": "Denied"}),
    ("Role", {}, {"Created At": "2025-12-31T23:55:00Z"}),
    ("PriorityClass", {"value": 5}, {"Value": 5, "Global-Default": False, "PreemptionPolicy": ""}),
    ("ResourceClaim", {}, {"State": "pending"}),
    ("ResourceClaim", {"status": {"allocation": {}, "reservedFor": [{}]}}, {"State": "allocated,reserved"}),
    (
        "APIService",
        {
            "spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "R"}]},
        },
        {"Service": "n/s", "Available": "False (R)"},
    ),
    ("Scale", {"spec": {"replicas": 3}}, {"Desired": 3, "Available": 0}),
]


@pytest.mark.parametrize(("kind", "obj", "expected"), CASES, ids=[f"{case[0]}-{n}" for n, case in enumerate(CASES)])
def test_cells(kind: str, obj: JsonObject, expected: dict[str, Json]) -> None:
    shown = cells(kind, obj)
    assert {name: shown[name] for name in expected} == expected
