"""Merge rules of built-in types, as the specification lists them."""

import pytest

from kohort.cluster.apiserver.schema.builtin import is_builtin, kind_node, type_node
from kohort.cluster.apiserver.schema.node import Node

CORE = "io.k8s.api.core.v1"


def at(node: Node, path: str) -> Node:
    for step in path.split("."):
        child = node.items if step == "[]" else node.fields[step]
        node = child
    return node


POD_SPEC = [
    # field, merge key, list type, list keys
    ("containers", "name", "map", ("name",)),
    ("initContainers", "name", "map", ("name",)),
    ("ephemeralContainers", "name", "map", ("name",)),
    ("containers.[].env", "name", "map", ("name",)),
    ("containers.[].ports", "containerPort", "map", ("containerPort", "protocol")),
    ("ephemeralContainers.[].ports", "containerPort", "map", ("containerPort", "protocol")),
    ("containers.[].volumeMounts", "mountPath", "map", ("mountPath",)),
    ("containers.[].volumeDevices", "devicePath", "map", ("devicePath",)),
    ("containers.[].args", "", "atomic", ()),
    ("containers.[].envFrom", "", "atomic", ()),
    ("containers.[].resizePolicy", "", "atomic", ()),
    ("containers.[].resources.claims", "", "map", ("name",)),
    ("volumes", "name", "map", ("name",)),
    ("imagePullSecrets", "name", "map", ("name",)),
    ("resourceClaims", "name", "map", ("name",)),
    ("schedulingGates", "name", "map", ("name",)),
    ("hostAliases", "ip", "map", ("ip",)),
    ("topologySpreadConstraints", "topologyKey", "map", ("topologyKey", "whenUnsatisfiable")),
    ("tolerations", "", "atomic", ()),
    ("readinessGates", "", "atomic", ()),
]


@pytest.mark.parametrize(("path", "merge_key", "list_type", "list_keys"), POD_SPEC)
def test_lists_of_a_pod_spec(path: str, merge_key: str, list_type: str, list_keys: tuple[str, ...]) -> None:
    node = at(type_node(f"{CORE}.PodSpec"), path)
    assert (node.type, node.merge_key, node.list_type, node.list_keys) == ("array", merge_key, list_type, list_keys)


OTHERS = [
    (("", "v1", "Service"), "spec.ports", "port", "map", ("port", "protocol")),
    (("", "v1", "Service"), "spec.clusterIPs", "", "atomic", ()),
    (("", "v1", "Pod"), "status.conditions", "type", "map", ("type",)),
    (("", "v1", "Pod"), "status.podIPs", "ip", "map", ("ip",)),
    (("", "v1", "Pod"), "status.hostIPs", "ip", "atomic", ()),
    (("", "v1", "Pod"), "metadata.ownerReferences", "uid", "map", ("uid",)),
    (("", "v1", "Pod"), "metadata.finalizers", "", "set", ()),
    (("", "v1", "Pod"), "metadata.managedFields", "", "atomic", ()),
    (("batch", "v1", "Job"), "status.conditions", "type", "atomic", ()),
    (("apps", "v1", "StatefulSet"), "spec.volumeClaimTemplates", "", "atomic", ()),
    (("", "v1", "Node"), "spec.podCIDRs", "", "set", ()),
    (("", "v1", "Node"), "status.addresses", "type", "map", ("type",)),
    (("", "v1", "ServiceAccount"), "secrets", "name", "map", ("name",)),
    (("", "v1", "ServiceAccount"), "imagePullSecrets", "", "atomic", ()),
    (("discovery.k8s.io", "v1", "EndpointSlice"), "endpoints.[].addresses", "", "set", ()),
    (("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"), "webhooks", "name", "map", ("name",)),
    (("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "spec.versions", "", "atomic", ()),
    (("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "status.conditions", "", "map", ("type",)),
]


@pytest.mark.parametrize(("kind", "path", "merge_key", "list_type", "list_keys"), OTHERS)
def test_lists_of_other_kinds(
    kind: tuple[str, str, str], path: str, merge_key: str, list_type: str, list_keys: tuple[str, ...]
) -> None:
    node = at(kind_node(*kind), path)
    assert (node.merge_key, node.list_type, node.list_keys) == (merge_key, list_type, list_keys)


@pytest.mark.parametrize(
    "name",
    [
        f"{CORE}.NodeSelector",
        f"{CORE}.NodeSelectorTerm",
        f"{CORE}.ObjectReference",
        f"{CORE}.LocalObjectReference",
        f"{CORE}.SecretKeySelector",
        f"{CORE}.ObjectFieldSelector",
        f"{CORE}.ResourceFieldSelector",
        "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
        "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference",
        "io.k8s.api.rbac.v1.RoleRef",
        "io.k8s.api.rbac.v1.Subject",
        "io.k8s.api.networking.v1.ServiceBackendPort",
    ],
)
def test_structs_with_one_owner(name: str) -> None:
    assert type_node(name).atomic


def test_what_a_field_says_about_its_struct_goes_before_what_the_struct_says() -> None:
    assert not at(kind_node("", "v1", "PersistentVolume"), "spec.claimRef").atomic
    assert at(kind_node("", "v1", "Pod"), "spec.nodeSelector").atomic
    assert at(kind_node("", "v1", "Service"), "spec.selector").atomic
    assert not at(kind_node("", "v1", "Pod"), "metadata.labels").atomic


def test_patch_strategies() -> None:
    assert at(kind_node("apps", "v1", "Deployment"), "spec.strategy").patch_strategy == {"retainKeys"}
    assert at(kind_node("", "v1", "Pod"), "spec.volumes").patch_strategy == {"merge", "retainKeys"}
    assert at(kind_node("policy", "v1", "PodDisruptionBudget"), "spec.selector").patch_strategy == {"replace"}


def test_the_protocol_of_a_port_has_a_default_for_building_its_key() -> None:
    assert at(kind_node("", "v1", "Service"), "spec.ports.[].protocol").default == "TCP"
    assert at(type_node(f"{CORE}.Container"), "ports.[].protocol").default == "TCP"


def test_scalars_have_the_formats_that_tell_them_apart() -> None:
    container = type_node(f"{CORE}.Container")
    assert at(container, "resources.limits.[]").format == "quantity"
    assert at(container, "livenessProbe.httpGet.port").format == "int-or-string"
    assert at(kind_node("", "v1", "Pod"), "metadata.creationTimestamp").format == "date-time"
    assert at(kind_node("coordination.k8s.io", "v1", "Lease"), "spec.renewTime").format == "micro-time"
    assert at(kind_node("", "v1", "Secret"), "data.[]").format == "byte"


def test_kinds_are_found_or_not() -> None:
    assert is_builtin("policy", "v1beta1", "Eviction")
    assert kind_node("policy", "v1beta1", "Eviction") is kind_node("policy", "v1", "Eviction")
    assert not is_builtin("example.com", "v1", "Widget")
    with pytest.raises(KeyError):
        kind_node("example.com", "v1", "Widget")
