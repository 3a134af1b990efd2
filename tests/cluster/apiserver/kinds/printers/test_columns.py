"""Which columns the built-in kinds have, and the ages in them."""

from datetime import timedelta

import pytest
from tests.cluster.apiserver.kinds.printers.rows import NOW

from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.kinds.printers import columns_and_cells
from kohort.cluster.apiserver.kinds.printers.cells import human_duration, since
from kohort.kube.resources import Resource


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
