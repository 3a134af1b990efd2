"""Policies on a whole server: what may be written in one, and what it is shown. Answers as of Kubernetes 1.36.4."""

from collections.abc import AsyncIterator

import pytest

from kohort.kube import errors
from kohort.kube.client import Client
from kohort.kube.resources import CONFIG_MAPS, DEPLOYMENTS, Resource
from kohort.objects.json_types import Json, JsonObject
from kohort.testing import Cluster

GROUP = "admissionregistration.k8s.io"
POLICIES = {
    kind: Resource(GROUP, "v1", f"{kind.lower()}admissionpolicies", f"{kind}AdmissionPolicy", namespaced=False)
    for kind in ("Validating", "Mutating")
}
BINDINGS = {
    kind: Resource(
        GROUP, "v1", f"{kind.lower()}admissionpolicybindings", f"{kind}AdmissionPolicyBinding", namespaced=False
    )
    for kind in ("Validating", "Mutating")
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Cluster() as cluster:
        yield cluster.client


def rules(resource: str, operation: str, group: str = "") -> JsonObject:
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
    return {"resourceRules": [rule]}


async def bind(client: Client, kind: str, spec: JsonObject, **binding: Json) -> None:
    await client.create(POLICIES[kind], {"metadata": {"name": "p"}, "spec": spec})
    await client.create(BINDINGS[kind], {"metadata": {"name": "p"}, "spec": {"policyName": "p", **binding}})


async def refused(client: Client, **spec: Json) -> list[tuple[str, str]]:
    whole = {"matchConstraints": rules("configmaps", "CREATE"), **spec}
    with pytest.raises(errors.Invalid) as raised:
        await client.create(POLICIES["Validating"], {"metadata": {"name": "p"}, "spec": whole})
    assert raised.value.status.details is not None
    return [(cause.field, cause.message) for cause in raised.value.status.details.causes]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("object.a", 'Invalid value: "object.a": must evaluate to bool but got dyn'),
        ("null", 'Invalid value: "null": must evaluate to bool but got null_type'),
        (
            "int('zz') == 5",
            "Internal error: program instantiation failed: type conversion error from 'string' to 'int'",
        ),
        (
            "variables.x == 1",
            'Invalid value: "variables.x == 1": compilation failed: ERROR: <input>:1:1: undeclared reference to '
            "'variables' (in container '')\n | variables.x == 1\n | ^",
        ),
    ],
)
async def test_an_expression_is_of_one_type(client: Client, expression: str, message: str) -> None:
    found = await refused(client, validations=[{"expression": expression}])
    assert found == [("spec.validations[0].expression", message)]


async def test_messages_and_annotations_are_texts(client: Client) -> None:
    found = await refused(
        client,
        validations=[{"expression": "true", "messageExpression": "object.a", "reason": "Unauthorized"}],
        auditAnnotations=[{"key": "k", "valueExpression": "object.a"}],
    )
    assert found == [
        ("spec.validations[0].messageExpression", 'Invalid value: "object.a": must evaluate to string but got dyn'),
        (
            "spec.validations[0].reason",
            'Unsupported value: "Unauthorized": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"',
        ),
        (
            "spec.auditAnnotations[0].valueExpression",
            'Invalid value: "object.a": must evaluate to one of [string null_type] but got dyn',
        ),
    ]


async def test_deleting_a_collection_has_no_name_in_admission(client: Client) -> None:
    spec = {
        "matchConstraints": rules("configmaps", "DELETE"),
        "validations": [{"expression": "request.name != ''", "message": "unnamed"}],
    }
    await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}})
    await bind(client, "Validating", spec, validationActions=["Deny"])
    with pytest.raises(errors.Invalid) as raised:
        await client.delete_collection(CONFIG_MAPS, "default")
    assert raised.value.message.startswith('configmaps "Unknown" is forbidden: ')
    await client.delete(CONFIG_MAPS, "a", "default")


def patching(resource: str, operation: str, patch: str, group: str = "") -> JsonObject:
    return {
        "matchConstraints": rules(resource, operation, group),
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }


async def test_a_patch_whose_test_fails_is_not_for_this_object(client: Client) -> None:
    patch = (
        "[JSONPatch{op: 'add', path: '/data/x', value: 'y'}, JSONPatch{op: 'test', path: '/data/k', value: 'other'}]"
    )
    await bind(client, "Mutating", patching("configmaps", "CREATE", patch))
    made = await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}, "data": {"k": "v"}})
    assert made["data"] == {"k": "v"}
    other = {"metadata": {"name": "b", "namespace": "default"}, "data": {"k": "other"}}
    assert (await client.create(CONFIG_MAPS, other))["data"] == {"k": "other", "x": "y"}


async def test_parameters_that_are_missing(client: Client) -> None:
    spec = patching("configmaps", "CREATE", "[JSONPatch{op: 'add', path: '/data/x', value: params.data.k}]")
    reference = {"name": "nope", "namespace": "default", "parameterNotFoundAction": "Deny"}
    await bind(client, "Mutating", spec | {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}, paramRef=reference)
    with pytest.raises(errors.ApiError) as raised:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}})
    assert (raised.value.code, raised.value.reason) == (403, "Forbidden")
    assert raised.value.message == (
        "policy 'p' with binding 'p' denied request: failed to configure binding: "
        "no params found for policy binding with `Deny` parameterNotFoundAction"
    )


async def test_a_scale_is_shown_as_such_and_may_be_changed(client: Client) -> None:
    labels = {"app": "w"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await client.create(DEPLOYMENTS, {"metadata": {"name": "w", "namespace": "default"}, "spec": spec})
    patch = (
        "object.kind == 'Scale' && object.apiVersion == 'autoscaling/v1' ? "
        "[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas + 10}] : []"
    )
    await bind(client, "Mutating", patching("deployments/scale", "UPDATE", patch, "apps"))
    await client.patch(DEPLOYMENTS, "w", "default", {"spec": {"replicas": 3}}, subresource="scale")
    assert (await client.get(DEPLOYMENTS, "w", "default"))["spec"]["replicas"] == 13
