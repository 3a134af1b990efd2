from datetime import UTC, datetime, timedelta

import pytest

from kohort.cluster.apiserver.kinds.printers import columns_and_cells
from kohort.cluster.apiserver.kinds.printers_common import human_duration, since
from kohort.cluster.apiserver.kinds.printers_pods import row_conditions
from kohort.cluster.apiserver.kinds.registry import builtin_kinds
from kohort.kube.resources import Resource
from kohort.objects.jsontypes import Json, JsonObject

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def ago(**delta: float) -> str:
    return (NOW - timedelta(**delta)).strftime("%Y-%m-%dT%H:%M:%SZ")


def cells(kind: str, obj: JsonObject, group: str = "") -> dict[str, Json]:
    """The cells of a five minutes old object, by column."""
    metadata = {"name": "x", "creationTimestamp": ago(minutes=5), **obj.get("metadata", {})}
    columns, fill = columns_and_cells(Resource(group, "v1", kind.lower() + "s", kind))
    filled = fill({"kind": kind, **obj, "metadata": metadata}, NOW)
    assert len(filled) == len(columns)
    return {column.name: cell for column, cell in zip(columns, filled, strict=True)}


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (timedelta(seconds=-5), "<invalid>"),
        (timedelta(seconds=-1), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10), "10m"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=8, minutes=30), "8h"),
        (timedelta(hours=47), "47h"),
        (timedelta(hours=48), "2d"),
        (timedelta(days=7, hours=23), "7d23h"),
        (timedelta(days=8, hours=1), "8d"),
        (timedelta(days=729), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=731), "2y1d"),
        (timedelta(days=8 * 365 + 40), "8y"),
    ],
)
def test_ages(age: timedelta, text: str) -> None:
    assert human_duration(age.total_seconds()) == text


def test_times_that_are_missing_or_wrong() -> None:
    assert since(None, NOW) == "<unknown>"
    assert since("yesterday", NOW) == "<invalid>"


WIDE = {
    "Pod": "Name Ready Status Restarts Age | IP Node Nominated_Node Readiness_Gates",
    "StatefulSet": "Name Ready Age | Containers Images",
    "Deployment": "Name Ready Up-to-date Available Age | Containers Images Selector",
    "ReplicaSet": "Name Desired Current Ready Age | Containers Images Selector",
    "ReplicationController": "Name Desired Current Ready Age | Containers Images Selector",
    "DaemonSet": "Name Desired Current Ready Up-to-date Available Node_Selector Age | Containers Images Selector",
    "Job": "Name Status Completions Duration Age | Containers Images Selector",
    "CronJob": "Name Schedule Timezone Suspend Active Last_Schedule Age | Containers Images Selector",
    "ControllerRevision": "Name Controller Revision Age",
    "Service": "Name Type Cluster-IP External-IP Port(s) Age | Selector",
    "Endpoints": "Name Endpoints Age",
    "EndpointSlice": "Name AddressType Ports Endpoints Age",
    "Node": "Name Status Roles Age Version | Internal-IP External-IP OS-Image Kernel-Version Container-Runtime",
    "Namespace": "Name Status Age",
    "ConfigMap": "Name Data Age",
    "Secret": "Name Type Data Age",
    "ServiceAccount": "Name Age",
    "Event": "Last_Seen Type Reason Object | Subobject Source | Message | First_Seen Count Name",
    "PersistentVolumeClaim": "Name Status Volume Capacity Access_Modes StorageClass VolumeAttributesClass Age"
    " | VolumeMode",
    "PersistentVolume": "Name Capacity Access_Modes Reclaim_Policy Status Claim StorageClass VolumeAttributesClass"
    " Reason Age | VolumeMode",
    "StorageClass": "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age",
    "PodDisruptionBudget": "Name Min_Available Max_Unavailable Allowed_Disruptions Age",
    "HorizontalPodAutoscaler": "Name Reference Targets MinPods MaxPods Replicas Age",
    "Ingress": "Name Class Hosts Address Ports Age",
    "IngressClass": "Name Controller Parameters Age",
    "NetworkPolicy": "Name Pod-Selector Age",
    "Lease": "Name Holder Age",
    "PriorityClass": "Name Value Global-Default Age PreemptionPolicy",
    "RuntimeClass": "Name Handler Age",
    "CSIDriver": "Name AttachRequired PodInfoOnMount StorageCapacity TokenRequests RequiresRepublish Modes Age",
    "CSINode": "Name Drivers Age",
    "VolumeAttachment": "Name Attacher PV Node Attached Age",
    "ResourceQuota": "Name Request Limit Age",
    "RoleBinding": "Name Role Age | Users Groups ServiceAccounts",
    "ClusterRoleBinding": "Name Role Age | Users Groups ServiceAccounts",
    "Role": "Name Created_At",
    "ClusterRole": "Name Created_At",
    "LimitRange": "Name Created_At",
    "CustomResourceDefinition": "Name Created_At",
    "MutatingWebhookConfiguration": "Name Webhooks Age",
    "ValidatingWebhookConfiguration": "Name Webhooks Age",
    "APIService": "Name Service Available Age",
    "CertificateSigningRequest": "Name Age SignerName Requestor RequestedDuration Condition",
    "ResourceClaim": "Name State Age",
    "ResourceClaimTemplate": "Name Age",
    "DeviceClass": "Name Age",
    "ResourceSlice": "Name Node Driver Pool Age",
    "Scale": "Name Desired Available Age",
    "PodTemplate": "Name Containers Images Pod_Labels",
}


@pytest.mark.parametrize("kind", WIDE)
def test_columns_and_which_of_them_are_wide(kind: str) -> None:
    columns, _ = columns_and_cells(Resource("", "v1", "things", kind))
    words: list[str] = []
    for index, column in enumerate(columns):
        if (columns[index - 1].priority if index else 0) != column.priority:
            words.append("|")
        words.append(column.name.replace(" ", "_"))
    assert " ".join(words) == WIDE[kind]


INTEGERS = {
    ("ReplicaSet", "Desired"),
    ("DaemonSet", "Up-to-date"),
    ("CronJob", "Active"),
    ("PodDisruptionBudget", "Allowed Disruptions"),
    ("PriorityClass", "Value"),
    ("CSINode", "Drivers"),
    ("MutatingWebhookConfiguration", "Webhooks"),
    ("Scale", "Available"),
}


@pytest.mark.parametrize(("kind", "name"), sorted(INTEGERS))
def test_columns_of_numbers(kind: str, name: str) -> None:
    columns, _ = columns_and_cells(Resource("", "v1", "things", kind))
    assert {column.name: column.type for column in columns}[name] == "integer"


def test_every_kind_has_described_columns_and_cells_for_an_object_that_has_only_a_name() -> None:
    for kind in builtin_kinds():
        undescribed = [column.name for column in kind.columns if not column.description]
        assert undescribed == (["Handler"] if kind.resource.kind == "RuntimeClass" else []), kind.resource
        assert kind.cells is not None
        filled = kind.cells({"kind": kind.resource.kind, "metadata": {"name": "x"}}, NOW)
        shown = {column.name: cell for column, cell in zip(kind.columns, filled, strict=False)}
        assert shown["Name"] == "x", kind.resource


# --- pods ---


def pod(*states: JsonObject, inits: tuple[JsonObject, ...] = (), **status: Json) -> JsonObject:
    """A pod with a container for each state. A state may have further fields of a container status beside it."""
    return {
        "spec": {
            "containers": [{"name": f"c{n}"} for n, _ in enumerate(states)],
            "initContainers": [{"name": f"i{n}", **init.get("spec", {})} for n, init in enumerate(inits)],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": f"c{n}", **state} for n, state in enumerate(states)],
            "initContainerStatuses": [
                {"name": f"i{n}", **{k: v for k, v in init.items() if k != "spec"}} for n, init in enumerate(inits)
            ],
            **status,
        },
    }


RUNNING: JsonObject = {"ready": True, "state": {"running": {}}}
COMPLETED: JsonObject = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
ERROR: JsonObject = {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
SIDECAR: JsonObject = {"spec": {"restartPolicy": "Always"}, "started": True, "ready": True, "state": {"running": {}}}
READY = [{"type": "Ready", "status": "True"}]


def terminated(**state: Json) -> JsonObject:
    return {"state": {"terminated": state}}


def waiting(reason: str) -> JsonObject:
    return {"state": {"waiting": {"reason": reason}}}


@pytest.mark.parametrize(
    ("obj", "status", "ready"),
    [
        ({"status": {"phase": "Pending"}}, "Pending", "0/0"),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted", "0/0"),
        (
            {"status": {"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
            "SchedulingGated",
            "0/0",
        ),
        (pod(RUNNING, RUNNING), "Running", "2/2"),
        (pod(waiting("CrashLoopBackOff"), RUNNING), "CrashLoopBackOff", "1/2"),
        (pod(RUNNING, waiting("ImagePullBackOff")), "ImagePullBackOff", "1/2"),
        (pod(waiting("A"), waiting("B")), "A", "0/2"),
        (pod(ERROR), "Error", "0/1"),
        (pod(terminated(exitCode=3)), "ExitCode:3", "0/1"),
        (pod(terminated(exitCode=137, signal=9)), "Signal:9", "0/1"),
        (pod(COMPLETED), "Completed", "0/1"),
        (pod(COMPLETED, RUNNING, conditions=READY), "Running", "1/2"),
        (pod(COMPLETED, RUNNING), "NotReady", "1/2"),
        (pod(COMPLETED, ERROR, RUNNING), "Error", "1/3"),
        (pod({}, inits=(COMPLETED, {"state": {"running": {}}})), "Init:1/2", "0/1"),
        (pod({}, inits=(waiting("PodInitializing"),)), "Init:0/1", "0/1"),
        (pod({}, inits=(waiting("ErrImagePull"),)), "Init:ErrImagePull", "0/1"),
        (pod({}, inits=(terminated(exitCode=2),)), "Init:ExitCode:2", "0/1"),
        (pod({}, inits=(terminated(exitCode=2, signal=15),)), "Init:Signal:15", "0/1"),
        (pod({}, inits=(ERROR,)), "Init:Error", "0/1"),
        (pod(RUNNING, inits=(ERROR,), conditions=[{"type": "Initialized", "status": "True"}]), "Init:Error", "1/1"),
        (pod(RUNNING, inits=(SIDECAR, COMPLETED)), "Running", "2/2"),
        (pod(RUNNING, inits=({**SIDECAR, "ready": False},)), "Running", "1/2"),
        (pod(RUNNING) | {"metadata": {"deletionTimestamp": ago(seconds=1)}}, "Terminating", "1/1"),
        (pod(RUNNING, reason="NodeLost") | {"metadata": {"deletionTimestamp": ago(seconds=1)}}, "Unknown", "1/1"),
        (pod(COMPLETED, phase="Succeeded") | {"metadata": {"deletionTimestamp": ago(seconds=1)}}, "Completed", "0/1"),
    ],
)
def test_the_status_of_a_pod_in_one_word(obj: JsonObject, status: str, ready: str) -> None:
    shown = cells("Pod", obj)
    assert (shown["Status"], shown["Ready"]) == (status, ready)


def restarted(count: int, when: str | None = None, **rest: Json) -> JsonObject:
    last = {"lastState": {"terminated": {"finishedAt": when}}} if when else {}
    return {**RUNNING, "restartCount": count, **last, **rest}


@pytest.mark.parametrize(
    ("obj", "restarts"),
    [
        (pod(RUNNING), "0"),
        (pod(restarted(2), restarted(1)), "3"),
        (pod(restarted(2, ago(hours=9)), restarted(1, ago(minutes=5))), "3 (5m ago)"),
        (pod(restarted(0, ago(minutes=5))), "0"),
        (pod(restarted(1), inits=({**COMPLETED, "restartCount": 4},)), "1"),
        (pod(restarted(1), inits=({**SIDECAR, **restarted(4, ago(minutes=3))},)), "5 (3m ago)"),
        (pod({}, inits=({**ERROR, "restartCount": 4},)), "4"),
    ],
)
def test_restarts_of_a_pod(obj: JsonObject, restarts: str) -> None:
    assert cells("Pod", obj)["Restarts"] == restarts


def test_wide_columns_of_a_pod() -> None:
    obj = pod(
        RUNNING, podIPs=[{"ip": "1.2.3.4"}], nominatedNodeName="n2", conditions=[{"type": "g1", "status": "True"}]
    )
    obj["spec"] |= {"nodeName": "n1", "readinessGates": [{"conditionType": "g1"}, {"conditionType": "g2"}]}
    shown = cells("Pod", obj)
    assert [shown[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")] == [
        "1.2.3.4",
        "n1",
        "n2",
        "1/2",
    ]
    shown = cells("Pod", {})
    assert {shown[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")} == {"<none>"}


def test_rows_of_finished_pods_say_so() -> None:
    assert row_conditions({"kind": "Pod", "status": {"phase": "Failed"}}) == [
        {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    ]
    assert row_conditions({"kind": "Pod", "status": {"phase": "Running"}}) == []
    assert row_conditions({"kind": "Other", "status": {"phase": "Failed"}}) == []


# --- the others ---

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
