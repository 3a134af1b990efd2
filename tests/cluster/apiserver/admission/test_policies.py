"""Admission policies and their bindings."""

import pytest

from kohort.cluster.apiserver.admission.chain import Chain
from kohort.cluster.apiserver.admission.model import Attributes, Operation
from kohort.cluster.apiserver.admission.policies import Policies
from kohort.cluster.apiserver.auth.model import AccessDecision, AccessRequest, User
from kohort.cluster.apiserver.kinds.model import Kind, Strategy
from kohort.cluster.apiserver.schema.node import Node
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube import errors
from kohort.kube.resources import CONFIG_MAPS, Resource
from kohort.objects.json_types import Json, JsonObject

WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
ITEM = Node("object", fields={"name": Node("string"), "value": Node("integer")})
SPEC = Node(
    "object",
    fields={
        "size": Node("integer"),
        "owner": Node("string"),
        "tags": Node("array", items=Node("string")),
        "items": Node("array", items=ITEM, list_type="map", list_keys=("name",)),
    },
)
WIDGET = Node("object", fields={"spec": SPEC, "metadata": Node("any", preserve_unknown=True)}, source={})
KINDS = [
    Kind(WIDGETS, lambda: WIDGET, Strategy(), "widget", "WidgetList", custom=True),
    Kind(CONFIG_MAPS, lambda: WIDGET, Strategy(), "configmap", "ConfigMapList"),
]


class Nothing:
    def get(self, bucket: str, namespace: str, name: str) -> JsonObject | None:
        return None

    def list(self, bucket: str, namespace: str = "") -> list[JsonObject]:
        return []


class World:
    def __init__(self) -> None:
        self.store = open_store(None)
        self.policies = Policies(self.store, lambda _: KINDS[:1], self._find, self._allow)
        self.chain = Chain([], self.policies, None)

    def _find(self, api_version: str, kind: str) -> Kind | None:
        return next(
            (one for one in KINDS if (one.resource.api_version, one.resource.kind) == (api_version, kind)), None
        )

    def _allow(self, request: AccessRequest) -> AccessDecision:
        return AccessDecision(request.user.name == "jane" and request.verb == "get")

    async def put(self, bucket: str, namespace: str, name: str, document: JsonObject) -> None:
        labels = document.get("metadata", {}).get("labels") or {}
        document = {**document, "metadata": {"name": name, "labels": labels}}
        await self.store.write(bucket, namespace, name, document, expected=0, labels=labels)

    async def policy(self, kind: str, spec: JsonObject, binding: JsonObject | None = None) -> None:
        group = "admissionregistration.k8s.io"
        constraints = {
            "resourceRules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["widgets"]}]
        }
        whole = {"matchConstraints": constraints, **spec}
        await self.put(f"{kind}admissionpolicies.{group}", "", "p", {"spec": whole})
        bound = {"policyName": "p", "validationActions": ["Deny"], **(binding or {})}
        await self.put(f"{kind}admissionpolicybindings.{group}", "", "b", {"spec": bound})

    async def validating(self, *validations: JsonObject, binding: JsonObject | None = None, **spec: Json) -> None:
        await self.policy("validating", {"validations": list(validations), **spec}, binding)

    async def mutating(self, *mutations: JsonObject, **spec: Json) -> None:
        await self.policy("mutating", {"mutations": list(mutations), **spec}, {"validationActions": None})


def request(
    obj: JsonObject | None = None, old: JsonObject | None = None, operation: Operation = "CREATE"
) -> Attributes:
    return Attributes(
        operation=operation,
        resource=WIDGETS,
        name="w",
        namespace="ns",
        user=User("jane"),
        reader=Nothing(),
        object=obj,
        old_object=old,
    )


def widget(**spec: Json) -> JsonObject:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": dict(spec)}


@pytest.fixture
def world() -> World:
    return World()


async def test_a_violation_denies_with_the_expression(world: World) -> None:
    await world.validating({"expression": "object.spec.size <= 3"})
    await world.chain.validate(request(widget(size=3)))
    with pytest.raises(errors.Invalid) as caught:
        await world.chain.validate(request(widget(size=4)))
    message = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: object.spec.size <= 3"
    status = caught.value.status
    assert caught.value.message == f'widgets.example.com "w" is forbidden: {message}'
    assert (status.code, status.reason) == (422, "Invalid")
    assert status.details is not None
    assert [cause.message for cause in status.details.causes] == [message]


@pytest.mark.parametrize(
    ("validation", "code", "text"),
    [
        ({"message": "too big", "reason": "Forbidden"}, 403, "denied request: too big"),
        (
            {"message": "fixed", "messageExpression": "'size is ' + string(object.spec.size)"},
            422,
            "denied request: size is 9",
        ),
        ({"message": "fixed", "messageExpression": "object.spec.nope"}, 422, "denied request: fixed"),
        ({"message": "fixed", "messageExpression": "'two' + '\\nlines'"}, 422, "denied request: fixed"),
    ],
)
async def test_messages_and_reasons(world: World, validation: JsonObject, code: int, text: str) -> None:
    await world.validating({"expression": "object.spec.size <= 3", **validation})
    with pytest.raises(errors.ApiError) as caught:
        await world.chain.validate(request(widget(size=9)))
    assert caught.value.code == code
    assert caught.value.message.endswith(text)


async def test_expressions_see_the_whole_request(world: World) -> None:
    await world.put("namespaces", "", "ns", {"metadata": {"labels": {"team": "blue"}}})
    await world.validating(
        {"expression": "oldObject == null || object.spec.size >= oldObject.spec.size"},
        {"expression": "request.operation in ['CREATE', 'UPDATE'] && request.userInfo.username == 'jane'"},
        {"expression": "namespaceObject.metadata.labels.team == 'blue'"},
        {"expression": "authorizer.group('').resource('pods').namespace('ns').check('get').allowed()"},
        {"expression": "!authorizer.serviceAccount('ns', 'default').path('/x').check('get').allowed()"},
        {"expression": "variables.double == 2 * object.spec.size && variables.big"},
        variables=[
            {"name": "double", "expression": "object.spec.size * 2"},
            {"name": "big", "expression": "variables.double > 1"},
        ],
    )
    await world.chain.validate(request(widget(size=1)))
    await world.chain.validate(request(widget(size=2), widget(size=1), "UPDATE"))
    with pytest.raises(errors.ApiError, match=r"object.spec.size >= oldObject.spec.size"):
        await world.chain.validate(request(widget(size=1), widget(size=2), "UPDATE"))


async def test_a_failed_evaluation_denies_unless_failures_are_ignored(world: World) -> None:
    await world.validating({"expression": "object.spec.nope > 1"})
    with pytest.raises(errors.ApiError) as caught:
        await world.chain.validate(request(widget()))
    assert caught.value.message.endswith("expression 'object.spec.nope > 1' resulted in error: no such key: nope")
    other = World()
    await other.validating({"expression": "object.spec.nope > 1"}, failurePolicy="Ignore")
    await other.chain.validate(request(widget()))


async def test_warnings_instead_of_denial(world: World) -> None:
    await world.validating({"expression": "false", "message": "mind"}, binding={"validationActions": ["Warn", "Audit"]})
    attributes = request(widget())
    await world.chain.validate(attributes)
    assert attributes.warnings == ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': mind"]


async def test_match_conditions_and_excluded_rules_exempt(world: World) -> None:
    await world.validating(
        {"expression": "false"}, matchConditions=[{"name": "c", "expression": "object.spec.size > 5"}]
    )
    await world.chain.validate(request(widget(size=1)))
    with pytest.raises(errors.ApiError):
        await world.chain.validate(request(widget(size=9)))
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    other = World()
    constraints = {"resourceRules": [rule], "excludeResourceRules": [{**rule, "resourceNames": ["w"]}]}
    await other.validating({"expression": "false"}, matchConstraints=constraints)
    await other.chain.validate(request(widget()))


async def test_a_policy_without_binding_is_not_in_force(world: World) -> None:
    await world.validating({"expression": "false"}, binding={"policyName": "another"})
    await world.chain.validate(request(widget()))


async def test_each_parameter_is_evaluated(world: World) -> None:
    params = {"apiVersion": "v1", "kind": "ConfigMap"}
    await world.validating(
        {"expression": "object.spec.size <= int(params.data.max)", "messageExpression": "'max ' + params.data.max"},
        paramKind=params,
        binding={"paramRef": {"selector": {"matchLabels": {"limit": "yes"}}, "parameterNotFoundAction": "Deny"}},
    )
    with pytest.raises(errors.ApiError, match="no params found for policy binding"):
        await world.chain.validate(request(widget(size=1)))
    await world.put("configmaps", "ns", "a", {"metadata": {"labels": {"limit": "yes"}}, "data": {"max": "5"}})
    await world.put("configmaps", "ns", "b", {"metadata": {"labels": {"limit": "yes"}}, "data": {"max": "3"}})
    await world.put("configmaps", "other", "c", {"metadata": {"labels": {"limit": "yes"}}, "data": {"max": "0"}})
    await world.chain.validate(request(widget(size=3)))
    with pytest.raises(errors.ApiError, match="denied request: max 3"):
        await world.chain.validate(request(widget(size=4)))


async def test_a_policy_that_does_not_compile_denies(world: World) -> None:
    await world.validating({"expression": "request.nope == 1"})
    with pytest.raises(errors.ApiError, match="undefined field 'nope'"):
        await world.chain.validate(request(widget()))


# -- mutating


async def test_a_json_patch_is_computed(world: World) -> None:
    patch = "[JSONPatch{op: 'add', path: '/spec/owner', value: request.userInfo.username}]"
    await world.mutating({"patchType": "JSONPatch", "jsonPatch": {"expression": patch}})
    attributes = request(widget(size=1))
    await world.chain.mutate(attributes)
    assert attributes.object == widget(size=1, owner="jane")


async def test_an_apply_configuration_is_merged_by_the_schema(world: World) -> None:
    configuration = "Object{spec: Object.spec{size: 5, items: [Object.spec.items{name: 'b', value: 2}]}}"
    await world.mutating({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": configuration}})
    attributes = request(widget(size=1, items=[{"name": "a", "value": 1}, {"name": "b", "value": 0}]))
    await world.chain.mutate(attributes)
    assert attributes.object == widget(size=5, items=[{"name": "a", "value": 1}, {"name": "b", "value": 2}])


async def test_a_mutation_that_fails_denies_unless_failures_are_ignored(world: World) -> None:
    broken = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/spec/nope'}]"}}
    await world.mutating(broken)
    with pytest.raises(
        errors.ApiError,
        match="policy 'p' with binding 'b' denied request: JSON Patch: error in remove for path: '/spec/nope'",
    ):
        await world.chain.mutate(request(widget()))
    other = World()
    await other.mutating(broken, failurePolicy="Ignore")
    await other.chain.mutate(request(widget()))


@pytest.mark.parametrize(
    ("configuration", "problem"),
    [
        ("Object{spec: Object.spec{tags: ['a']}}", "may not mutate atomic arrays, maps or structs: .spec.tags"),
        ("Object{spec: Object.spec{nope: 1}}", ".spec.nope: field not declared in schema"),
        ("Object{spec: Object.spec{size: object.spec.nope}}", "resulted in error: no such key: nope"),
    ],
)
async def test_what_an_apply_configuration_cannot_do(world: World, configuration: str, problem: str) -> None:
    await world.mutating({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": configuration}})
    with pytest.raises(errors.ApiError) as caught:
        await world.chain.mutate(request(widget()))
    assert (caught.value.code, caught.value.reason) == (403, "Invalid")
    assert problem in caught.value.message
