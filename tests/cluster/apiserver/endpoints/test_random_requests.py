"""Requests that were found by mutating objects at random, with the answers that a real server gave them."""

import pytest
from tests.cluster.apiserver.caller import Answer, Api

from kohort.objects.json_types import Json, JsonObject

STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
NAMED = "/api/v1/namespaces/default"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
FREE_TEXT = {"metadata": {"finalizers": ["TCP"]}}
SPACED = {"metadata": {"labels": {"a b": "c"}}}


def causes(answer: Answer) -> list[tuple[str, str]]:
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


def fields(answer: Answer) -> list[str]:
    return sorted(field for field, _ in causes(answer)) if answer.code == 422 else []


async def applied(api: Api, path: str, obj: JsonObject) -> Answer:
    return await api.patch(path, obj, APPLY, fieldManager="m")


def pod(**spec: Json) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


async def test_an_applied_item_without_its_key_has_an_empty_one(api: Api) -> None:
    refused = await applied(api, f"{NAMED}/pods/p", pod(containers=[{"name": "a", "image": "x"}, {"image": "y"}]))
    assert (refused.code, causes(refused)) == (422, [("spec.containers[1].name", "Required value")])
    twice = await applied(api, f"{NAMED}/pods/p", pod(containers=[{"image": "x"}, {"image": "y"}]))
    assert twice.code == 500
    assert twice.message.endswith('.spec.containers: duplicate entries for key [name=""]')
    container = {"name": "a", "image": "x", "ports": [{"containerPort": 80}]}
    made = await applied(api, f"{NAMED}/pods/p", pod(containers=[container], imagePullSecrets=[{}]))
    owned = made.meta["managedFields"][0]["fieldsV1"]["f:spec"]
    assert owned["f:imagePullSecrets"] == {'k:{"name":""}': {}}


async def test_an_applied_reference_without_a_name_has_no_key(api: Api) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "w"}, "secrets": [{}]}
    refused = await applied(api, f"{NAMED}/serviceaccounts/w", account)
    assert refused.code == 500
    assert ".secrets: element 0: associative list with keys has an element that omits all key fields" in refused.message


@pytest.mark.parametrize(("sent", "seen"), [(2147483648, -2147483648), (2147483648 + 80, -2147483568)])
async def test_a_number_that_is_too_large_wraps_in_a_strategic_patch(api: Api, sent: int, seen: int) -> None:
    made = await api.post(LEASE, {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 10}})
    assert made.code == 201
    refused = await api.patch(f"{LEASE}/l", {"spec": {"leaseDurationSeconds": sent}}, STRATEGIC)
    message = f"Invalid value: {seen}: must be greater than 0"
    assert (refused.code, causes(refused)) == (422, [("spec.leaseDurationSeconds", message)])
    merged = await api.patch(f"{LEASE}/l", {"spec": {"leaseDurationSeconds": sent}})
    assert fields(merged) == ["patch"]


async def test_a_number_that_is_too_large_wraps_when_it_is_applied(api: Api) -> None:
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    made = await applied(api, f"{LEASE}/l", {**lease, "spec": {"leaseDurationSeconds": 4294967297}})
    assert made.json["spec"] == {"leaseDurationSeconds": 1}


QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
TIME = 'parsing time "bad" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "bad" as "2006"'


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (
            f"{NAMED}/persistentvolumeclaims",
            {"metadata": {"ownerReferences": {"a": 1}}, "spec": {"resources": {"limits": {"TCP": "25%"}}}},
            QUANTITY,
        ),
        (
            f"{NAMED}/persistentvolumeclaims",
            {"spec": {"resources": {"requests": [], "limits": {"1": "valid-name"}}}},
            QUANTITY,
        ),
        (LEASE, {"spec": {"leaseTransitions": 2147483648, "renewTime": "bad"}}, TIME),
        (
            LEASE,
            {"spec": {"leaseTransitions": "two", "leaseDurationSeconds": "three"}},
            "json: cannot unmarshal string into Go struct field LeaseSpec.spec.leaseTransitions of type int32",
        ),
    ],
)
async def test_a_type_that_reads_by_itself_has_the_last_word(api: Api, path: str, body: JsonObject, said: str) -> None:
    refused = await api.post(path, body)
    assert refused.code == 400
    assert refused.message.endswith(f": {said}")


POLICY = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
RUNTIME = "/apis/node.k8s.io/v1/runtimeclasses"
CSI_NODE = "/apis/storage.k8s.io/v1/csinodes"


@pytest.mark.parametrize(
    ("path", "obj", "finalizers", "labels"),
    [
        (POLICY, {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}, 0, 2),
        (HOOKS, {"webhooks": []}, 0, 3),
        (RUNTIME, {"handler": "h"}, 0, 4),
        (CSI_NODE, {"spec": {"drivers": []}}, 1, 3),
        (LEASE, {"spec": {}}, 0, 3),
    ],
)
async def test_metadata_is_looked_at_as_often_as_upstream(
    api: Api, path: str, obj: JsonObject, finalizers: int, labels: int
) -> None:
    assert (await api.post(path, {"metadata": {"name": "x"}, **obj})).code == 201
    assert fields(await api.patch(f"{path}/x", SPACED)) == ["metadata.labels"] * labels
    assert fields(await api.patch(f"{path}/x", FREE_TEXT)) == ["metadata.finalizers[0]"] * finalizers


async def test_a_runtime_class_keeps_its_rules_when_it_changes(api: Api) -> None:
    await api.post(RUNTIME, {"metadata": {"name": "r"}, "handler": "h"})
    change = {
        "scheduling": {
            "nodeSelector": {"-1": "1Gi"},
            "tolerations": [{"operator": "Lt", "effect": "NoSchedule", "key": "a.b.c"}],
        }
    }
    refused = await api.patch(f"{RUNTIME}/r", change)
    assert fields(refused) == ["scheduling.nodeSelector", "scheduling.tolerations[0].operator"]


ATTACHMENT = "/apis/storage.k8s.io/v1/volumeattachments"


@pytest.mark.parametrize(
    ("inline", "wrong"),
    [
        ({}, ["", ".accessModes", ".csi"]),
        ({"portworxVolume": {}}, [".accessModes", ".csi", ".portworxVolume.volumeID"]),
        (
            {"glusterfs": {"endpoints": "UDP", "path": "A", "endpointsNamespace": "Never"}},
            [".accessModes", ".csi", ".glusterfs.endpointsNamespace"],
        ),
    ],
)
async def test_an_inline_volume_is_a_csi_volume(api: Api, inline: JsonObject, wrong: list[str]) -> None:
    spec = {"attacher": "a.example.com", "nodeName": "n", "source": {"inlineVolumeSpec": inline}}
    refused = await api.post(ATTACHMENT, {"metadata": {"name": "v"}, "spec": spec})
    assert fields(refused) == [f"spec.source.inlineVolumeSpec{field}" for field in wrong]


async def test_host_addresses_without_a_port_are_warned_about(api: Api) -> None:
    container = {"name": "c", "image": "i", "ports": [{"name": "http", "containerPort": 80, "hostIP": "a"}]}
    warned = await api.post(f"{NAMED}/pods", pod(containers=[container]))
    text = "{Name:http HostPort:0 ContainerPort:80 Protocol:TCP HostIP:a}"
    assert warned.warnings == [f'299 - "spec.containers[0].ports[0]: hostIP set without hostPort: {text}"']


async def test_ranges_of_a_node_that_cannot_be_read(api: Api) -> None:
    refused = await api.post("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"podCIDRs": ["foo bar", "x"]}})
    error = "invalid CIDR[0]: <nil> (invalid CIDR address: foo bar)"
    detail = f"Internal error: invalid PodCIDRs. failed to check with dual stack with error:{error}"
    assert ("spec.podCIDRs", detail) in causes(refused)


async def test_a_driver_is_counted_from_its_first_change(api: Api) -> None:
    drivers = "/apis/storage.k8s.io/v1/csidrivers"
    made = await api.post(drivers, {"metadata": {"name": "d"}, "spec": {}})
    changed = await api.patch(f"{drivers}/d", {"spec": {"requiresRepublish": True}})
    assert ("generation" in made.meta, changed.meta["generation"]) == (False, 1)


async def test_a_name_of_an_endpoint_has_two_parts_before_it_is_too_long(api: Api) -> None:
    slice_ = {"metadata": {"name": "e"}, "addressType": "FQDN", "endpoints": [{"addresses": ["x" * 64]}]}
    refused = await api.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)
    detail = "should be a domain with at least two segments separated by dots"
    assert causes(refused) == [("endpoints[0].addresses[0]", f'Invalid value: "{"x" * 64}": {detail}')]


async def test_holes_are_not_looked_at_when_there_is_no_network(api: Api) -> None:
    block = {"cidr": "192.168.1.1", "except": ["500m"]}
    policy = {"metadata": {"name": "n"}, "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}}
    refused = await api.post("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", policy)
    assert fields(refused) == ["spec.ingress[0].from[0].ipBlock.cidr"]


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(properties: JsonObject, **spec: Json) -> JsonObject:
    version = {"name": "v1", "served": True, "storage": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    names = {"plural": "fzs", "kind": "Fz"}
    body = {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [{**version, "schema": schema}]}
    return {"metadata": {"name": "fzs.example.com"}, "spec": {**body, **spec}}


@pytest.mark.parametrize(
    ("inner", "wrong"),
    [
        ({"id": "A"}, "spec.validation.openAPIV3Schema.properties[x].id"),
        ({"additionalItems": {}}, "spec.validation.openAPIV3Schema.properties[x].additionalItems"),
        ({"$schema": "UDP"}, "spec.validation.openAPIV3Schema"),
        ({"type": "string", "$schema": "/abs/path"}, "spec.validation.openAPIV3Schema"),
    ],
)
async def test_of_a_schema_with_foreign_keywords_only_those_are_reported(
    api: Api, inner: JsonObject, wrong: str
) -> None:
    assert fields(await api.post(DEFINITIONS, definition({"x": inner}))) == [wrong]


async def test_a_definition_that_keeps_unknown_fields_cannot_convert(api: Api) -> None:
    refused = await api.post(
        DEFINITIONS, definition({}, preserveUnknownFields=True, conversion={"strategy": "Elsewhere"})
    )
    detail = 'Invalid value: "Elsewhere": must be None if spec.preserveUnknownFields is true'
    assert ("spec.conversion.strategy", detail) in causes(refused)


async def test_a_flag_is_no_number(api: Api) -> None:
    """Python takes `true` for 1: errors in what did not change are forgiven, but this changed."""
    fields_ = {"c": {"type": "integer"}, "i": {"x-kubernetes-int-or-string": True}}
    spec = {"type": "object", "properties": {"in": {"type": "object", "properties": fields_}}}
    assert (await api.post(DEFINITIONS, definition({"spec": spec}))).code == 201
    await api.settle()
    path = "/apis/example.com/v1/namespaces/default/fzs"
    made = await api.post(
        path, {"apiVersion": "example.com/v1", "kind": "Fz", "metadata": {"name": "f"}, "spec": {"in": {"c": 1}}}
    )
    assert made.code == 201, made.raw
    refused = await api.patch(f"{path}/f", {"spec": {"in": {"c": True}}})
    detail = 'Invalid value: "boolean": spec.in.c in body must be of type integer: "boolean"'
    assert (refused.code, causes(refused)) == (422, [("spec.in.c", detail)])
    body = {"apiVersion": "example.com/v1", "kind": "Fz", "metadata": {"name": "f"}, "spec": {"in": {"i": {"a": 1}}}}
    refused = await applied(api, f"{path}/f", body)
    detail = 'Invalid value: "object": spec.in.i in body must be of type integer,string: "object"'
    assert (refused.code, causes(refused)) == (422, [("spec.in.i", detail)])


async def test_selectors_that_cannot_be_parsed_are_reported_first(api: Api) -> None:
    refused = await api.get(LEASE, sendInitialEvents="false", labelSelector="a b")
    assert (refused.code, refused.message) == (
        400,
        "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    )
    assert (await api.get(LEASE, sendInitialEvents="false", labelSelector="a")).code == 422


async def test_no_metadata_at_all_is_null(api: Api) -> None:
    accept = {"accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    assert (await api.get(LEASE, accept)).json["items"] is None


async def test_an_autoscaler_of_the_old_version_counts_nothing_in_the_new_one(api: Api) -> None:
    path = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
    spec = {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
    made = await api.post(path.format("v1"), {"metadata": {"name": "h"}, "spec": spec})
    assert made.json["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    seen = await api.get(path.format("v2") + "/h")
    assert seen.json["status"] == {"desiredReplicas": 0, "currentMetrics": None}


async def test_the_number_of_a_daemon_sets_template_is_its_writers(api: Api) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = await api.post("/apis/apps/v1/namespaces/default/daemonsets", {"metadata": {"name": "d"}, "spec": spec})
    number = "deprecated.daemonset.template.generation"
    assert made.meta["annotations"] == {number: "1"}
    owned = made.meta["managedFields"][0]["fieldsV1"]["f:metadata"]
    assert owned == {"f:annotations": {".": {}, f"f:{number}": {}}}
