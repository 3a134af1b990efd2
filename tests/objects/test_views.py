"""Typed views decode what servers really send and hold no more than they need."""

import gc
import importlib
import pkgutil

import msgspec
import pytest

import kohort.objects
from kohort.objects import view
from kohort.objects.core import Node, Pod, Service
from kohort.objects.discovery import EndpointSlice
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, ObjectMeta, OwnerReference, Selector, compiled, condition_is, find_condition
from kohort.objects.node_pods import NodePod
from kohort.objects.placement import Taint, Toleration
from kohort.objects.view import View, without_nulls
from kohort.objects.volumes import Volume

POD: JsonObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-0",
        "namespace": "team",
        "uid": "u1",
        "resourceVersion": "12",
        "generation": 2,
        "creationTimestamp": None,
        "labels": {"app": "web"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "x"},
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "y", "controller": True},
        ],
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "nodeName": "n1",
        "containers": [
            {
                "name": "c",
                "image": "i",
                "command": ["sh"],
                "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}],
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
                "readinessProbe": {"httpGet": {"port": "http", "path": "/"}},
            }
        ],
        "initContainers": [{"name": "s", "restartPolicy": "Always"}],
        "hostPID": True,
        "unknownField": {"a": 1},
    },
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}],
    },
}


def decoded(type: type[msgspec.Struct], document: JsonObject) -> msgspec.Struct:
    return msgspec.json.decode(msgspec.json.encode(document), type=type)


def test_a_pod_is_read_with_the_fields_that_controllers_use() -> None:
    pod = decoded(Pod, POD)
    assert isinstance(pod, Pod)
    assert (pod.metadata.name, pod.metadata.generation, pod.metadata.creation_timestamp) == ("web-0", 2, None)
    assert pod.metadata.controller == OwnerReference("apps/v1", "StatefulSet", "web", "y", True)
    assert pod.spec.main_containers[0].ports[0].host_ip == "127.0.0.1"
    assert pod.spec.main_containers[0].resources.requests == {"cpu": "100m", "memory": "1Gi"}
    assert [container.name for container in pod.spec.all_containers if container.sidecar] == ["s"]
    assert (pod.status.pod_ip, pod.status.pod_ips[0].ip) == ("10.0.0.1", "10.0.0.1")
    assert pod.ready and pod.active and not pod.finished


def test_a_node_sees_more_of_the_same_pod() -> None:
    pod = decoded(NodePod, POD)
    assert isinstance(pod, NodePod)
    container = pod.spec.containers[0] if pod.spec.containers else None
    assert container is not None and container.command == ("sh",)
    assert container.readiness_probe is not None and container.readiness_probe.period_seconds == 10
    assert pod.spec.host_pid


def test_null_lists_that_servers_write_are_read() -> None:
    piece = decoded(EndpointSlice, {"metadata": {"name": "a"}, "endpoints": None, "ports": None})
    assert isinstance(piece, EndpointSlice) and piece.endpoints is None
    pod = decoded(Pod, {"spec": {"containers": None}})
    assert isinstance(pod, Pod) and pod.spec.main_containers == ()


def test_any_other_null_goes_away_with_without_nulls() -> None:
    raw = b'{"metadata":{"name":"a","labels":null,"finalizers":null},"spec":{"volumes":null}}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(raw, type=Pod)
    assert msgspec.json.decode(without_nulls(raw), type=Pod) == Pod(ObjectMeta(name="a"))


def test_writing_a_view_leaves_out_what_was_never_set() -> None:
    assert msgspec.to_builtins(ObjectMeta(name="a", labels={"x": "y"})) == {"name": "a", "labels": {"x": "y"}}


def test_a_service_and_a_node_keep_their_capital_letters() -> None:
    service = decoded(
        Service, {"spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"targetPort": "http"}]}}
    )
    assert isinstance(service, Service) and service.headless and service.spec.ports[0].target_port == "http"
    node = decoded(
        Node,
        {
            "status": {
                "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
                "conditions": [{"type": "Ready", "status": "True"}],
            }
        },
    )
    assert isinstance(node, Node) and node.ready and node.address("InternalIP") == "1.2.3.4"


def test_conditions_are_found_by_type() -> None:
    conditions = (Condition("Ready", "False", reason="X"), Condition("Other", "True"))
    assert find_condition(conditions, "Ready") == conditions[0]
    assert find_condition(conditions, "Missing") is None
    assert condition_is(conditions, "Other") and not condition_is(conditions, "Ready")
    assert not condition_is(conditions, "Missing", "False")


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not compiled(None).matches({"a": "b"})
    assert compiled(Selector()).matches({"a": "b"})
    assert compiled(Selector(match_labels={"a": "b"})).matches({"a": "b"})


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerated"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), Taint("k", "NoSchedule", "v"), True),
        (Toleration("k", "", "v"), Taint("k", "NoExecute", "v"), True),
        (Toleration("k", "Equal", "w"), Taint("k", "NoSchedule", "v"), False),
        (Toleration("k", "Exists"), Taint("k", "NoSchedule", "v"), True),
        (Toleration("", "Exists"), Taint("anything", "NoExecute"), True),
        (Toleration("k", "Exists", effect="NoSchedule"), Taint("k", "NoExecute"), False),
        (Toleration("j", "Exists"), Taint("k", "NoSchedule"), False),
    ],
)
def test_tolerations(toleration: Toleration, taint: Taint, tolerated: bool) -> None:
    assert toleration.tolerates(taint) is tolerated


def test_an_ephemeral_volume_has_a_claim_named_after_the_pod() -> None:
    volume = msgspec.convert({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, Volume)
    assert volume.claim_name("web-0") == "web-0-scratch"
    assert Volume(name="x").claim_name("web-0") == ""


def all_views() -> list[type[View]]:
    for module in pkgutil.iter_modules(kohort.objects.__path__):
        importlib.import_module(f"kohort.objects.{module.name}")
    found, pending = [], [View]
    while pending:
        children = pending.pop().__subclasses__()
        found += children
        pending += children
    return found


@pytest.mark.parametrize("type", all_views(), ids=lambda type: type.__name__)
def test_every_view_decodes_an_empty_document_and_is_frozen(type: type[View]) -> None:
    needed: JsonObject = {
        field.encode_name: ""
        for field in msgspec.structs.fields(type)
        if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    }
    instance = msgspec.convert(needed, type)
    name = next((field.name for field in msgspec.structs.fields(type)), "anything")
    with pytest.raises(AttributeError):
        setattr(instance, name, "changed")
    assert not gc.is_tracked(instance)


def test_the_example_in_the_documentation_holds() -> None:
    import doctest

    assert doctest.testmod(view).failed == 0
