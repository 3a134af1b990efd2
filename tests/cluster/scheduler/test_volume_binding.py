"""Claims and volumes as the scheduler plans with them."""

import msgspec
import pytest
from tests.cluster.scheduler.scenery import HOST, ZONE, cluster, node, pod

from kohort.cluster.scheduler.decision import NodeChooser, Placement, Unschedulable
from kohort.cluster.scheduler.messages import unschedulable_message
from kohort.objects.json_types import JsonObject
from kohort.objects.storage import StorageClass
from kohort.objects.volumes import PersistentVolume, PersistentVolumeClaim
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters.volumes import claims_of
from kohort.rules.scheduling.pod_and_node_info import PodInfo
from kohort.rules.scheduling.volume_binding import VolumePlan

LATER = "WaitForFirstConsumer"


def claim(name: str = "data", *, bound_to: str = "", size: str = "1Gi", **more: object) -> PersistentVolumeClaim:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound_to else {}
    document: JsonObject = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "volumeName": bound_to,
            "resources": {"requests": {"storage": size}},
        },
    }
    for part, values in more.items():
        document[part] = document.get(part, {}) | values
    return msgspec.convert(document, PersistentVolumeClaim)


def volume(name: str, on: str = "", size: str = "1Gi", **more: object) -> PersistentVolume:
    spec: JsonObject = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        **more,
    }
    if on:
        match = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [on]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [match]}}
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}, PersistentVolume
    )


def storage_class(provisioner: str = "kohort.io/local", mode: str = LATER, **more: object) -> StorageClass:
    document = {"metadata": {"name": "local"}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
    return msgspec.convert(document, StorageClass)


def using(*claims: str, name: str = "p") -> PodInfo:
    volumes = [{"name": entry, "persistentVolumeClaim": {"claimName": entry}} for entry in claims]
    return pod(name, volumes=volumes)


def store(
    *objects: PersistentVolumeClaim | PersistentVolume | StorageClass, state: ClusterState | None = None
) -> ClusterState:
    state = state or cluster(node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "b"}))
    for entry in objects:
        if isinstance(entry, PersistentVolumeClaim):
            state.storage.claims["default", entry.metadata.name] = entry
        elif isinstance(entry, PersistentVolume):
            state.storage.volumes[entry.metadata.name] = entry
        else:
            state.storage.classes[entry.metadata.name] = entry
    return state


def outcome(info: PodInfo, state: ClusterState) -> str:
    found = NodeChooser().choose(info, state)
    return found.node if isinstance(found, Placement) else unschedulable_message(found)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], '0/2 nodes are available: persistentvolumeclaim "data" not found.'),
        (
            [claim(metadata={"name": "data", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"})],
            '0/2 nodes are available: persistentvolumeclaim "data" is being deleted.',
        ),
        (
            [claim(), storage_class(mode="Immediate")],
            "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        ),
        ([claim()], "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
        ([claim(bound_to="gone")], '0/2 nodes are available: persistentvolume "gone" not found.'),
        ([claim(bound_to="v"), volume("v", on="n2")], "n2"),
        (
            [claim(bound_to="v"), volume("v", on="n9")],
            "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.",
        ),
        ([claim(), storage_class("kubernetes.io/no-provisioner"), volume("v", on="n1")], "n1"),
        (
            [claim(size="2Gi"), storage_class("kubernetes.io/no-provisioner"), volume("v", on="n1")],
            "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.",
        ),
        (
            [
                claim(),
                storage_class(
                    allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}],
                ),
            ],
            "n2",
        ),
        (
            [
                claim(
                    metadata={
                        "name": "data",
                        "namespace": "default",
                        "annotations": {"volume.kubernetes.io/selected-node": "n1"},
                    }
                ),
                storage_class(),
            ],
            "n1",
        ),
        (
            [
                claim(bound_to="v"),
                msgspec.convert(
                    {"metadata": {"name": "v", "labels": {ZONE: "b__c"}}, "spec": {"capacity": {"storage": "1Gi"}}},
                    PersistentVolume,
                ),
            ],
            "n2",
        ),
    ],
)
def test_where_a_pod_with_a_claim_can_run(
    objects: list[PersistentVolumeClaim | PersistentVolume | StorageClass], expected: str
) -> None:
    assert outcome(using("data"), store(*objects)) == expected


def test_an_exclusive_claim_has_one_user_in_the_whole_cluster() -> None:
    exclusive = claim(bound_to="v", spec={"accessModes": ["ReadWriteOncePod"], "volumeName": "v"})
    state = store(exclusive, volume("v"))
    state.add_pod(using("data", name="first"), "n1")
    found = NodeChooser().choose(using("data", name="second"), state)
    assert isinstance(found, Unschedulable)
    assert unschedulable_message(found) == (
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access "
        "mode already in-use by another pod."
    )
    assert found.preemptible == ["n1", "n2"]


def test_the_smallest_volume_that_fits_is_taken_and_the_rest_is_made() -> None:
    state = store(
        claim("small"),
        claim("large", size="5Gi"),
        storage_class(),
        volume("v8", on="n1", size="8Gi"),
        volume("v2", size="2Gi"),
    )
    info = using("small", "large", "data")
    state.storage.claims["default", "data"] = claim("data", size="50Gi")
    plan = state.storage.plan(claims_of(info, state), "n1", state.nodes["n1"].labels)
    assert plan == VolumePlan(
        take=((("default", "small"), "v2"), (("default", "large"), "v8")), make=(("default", "data"),)
    )


def test_what_is_reserved_is_not_planned_with_again() -> None:
    state = store(claim("a"), claim("b"), storage_class("kubernetes.io/no-provisioner"), volume("v", on="n1"))
    labels = state.nodes["n1"].labels
    first = state.storage.plan(claims_of(using("a"), state), "n1", labels)
    assert first is not None
    state.storage.reserve(first, "n1")
    assert state.storage.plan(claims_of(using("b"), state), "n1", labels) is None
    state.storage.release(first)
    assert state.storage.plan(claims_of(using("b"), state), "n1", labels) is not None


def test_an_ephemeral_volume_waits_for_its_own_claim() -> None:
    info = pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    expected = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert outcome(info, store()) == f"0/2 nodes are available: {expected}."
    assert "was not created for pod" in outcome(info, store(claim("p-scratch")))
