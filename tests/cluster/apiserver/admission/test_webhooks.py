"""Webhooks: who is asked, what they are shown, what their answers do."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from tests.cluster.apiserver.admission.webhookworld import Answer, World, allowing, hook, patching, widget

from kohort.cluster.apiserver.admission.chain import Chain
from kohort.kube import errors
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject


@pytest.fixture
def world() -> World:
    return World()


# -- what they are shown


async def test_the_review_says_everything_about_the_request(world: World) -> None:
    world.service("a", allowing)
    await world.configure("validating", "c", hook("a"))
    await world.webhooks.validate(world.request("UPDATE", widget(size=2), widget(size=1)))
    ((_, review),) = world.asked
    request = review["request"]
    uid = request.pop("uid")
    assert len(uid) == 36
    assert review["apiVersion"] == "admission.k8s.io/v1"
    assert request == {
        "kind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "resource": {"group": "example.com", "version": "v1", "resource": "widgets"},
        "requestKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
        "requestResource": {"group": "example.com", "version": "v1", "resource": "widgets"},
        "name": "w",
        "namespace": "ns",
        "operation": "UPDATE",
        "userInfo": {"username": "jane", "uid": "u1", "groups": ["devs"], "extra": {"scope": ["a"]}},
        "object": widget(size=2),
        "oldObject": widget(size=1),
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }


async def test_a_deletion_shows_only_the_old_object(world: World) -> None:
    world.service("a", allowing)
    await world.configure("validating", "c", hook("a"))
    await world.webhooks.validate(world.request("DELETE", None, widget()))
    request = world.asked[0][1]["request"]
    assert (request["object"], request["oldObject"]) == (None, widget())


async def test_a_subresource_is_shown_as_what_it_is(world: World) -> None:
    world.service("a", allowing)
    rule = {"operations": ["UPDATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/scale"]}
    await world.configure("validating", "c", hook("a", rules=[rule]))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 2}}
    await world.webhooks.validate(world.request("UPDATE", scale, scale, subresource="scale"))
    request = world.asked[0][1]["request"]
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (request["subResource"], request["requestSubResource"]) == ("scale", "scale")


async def test_an_equivalent_version_is_converted_for_the_webhook_and_back(world: World) -> None:
    world.service("a", patching({"op": "add", "path": "/spec/size", "value": 7}))
    rule = {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["widgets"]}
    await world.configure("mutating", "c", hook("a", rules=[rule]), hook("exact", rules=[rule], matchPolicy="Exact"))
    attributes = world.request()
    await world.webhooks.mutate(attributes)
    request = world.asked[0][1]["request"]
    assert world.names_asked() == ["a"]
    assert request["kind"]["version"] == request["resource"]["version"] == "v2"
    assert request["requestKind"]["version"] == "v1"
    assert request["object"]["apiVersion"] == "example.com/v2"
    assert attributes.object is not None
    assert attributes.object["apiVersion"] == "example.com/v1"
    assert attributes.object["spec"] == {"size": 7, "defaulted": True}


async def test_a_webhook_may_ask_for_the_older_review(world: World) -> None:
    world.service("a", lambda request: {"allowed": True, "uid": "not checked"})
    await world.configure("validating", "c", hook("a", admissionReviewVersions=["v9", "v1beta1"]))
    await world.webhooks.validate(world.request())
    assert world.asked[0][1]["apiVersion"] == "admission.k8s.io/v1beta1"


# -- who is asked

RULES: list[tuple[JsonObject, JsonObject, bool]] = [
    ({"operations": ["CREATE"]}, {}, True),
    ({"operations": ["DELETE"]}, {}, False),
    ({"apiGroups": ["example.com"]}, {}, True),
    ({"apiGroups": [""]}, {}, False),
    ({"apiVersions": ["v1"]}, {}, True),
    ({"resources": ["*"]}, {}, True),
    ({"resources": ["*/*"]}, {}, True),
    ({"resources": ["widgets/status"]}, {}, False),
    ({"resources": ["widgets"]}, {"subresource": "status"}, False),
    ({"resources": ["widgets/*"]}, {"subresource": "status"}, True),
    ({"resources": ["*/status"]}, {"subresource": "status"}, True),
    ({"scope": "Namespaced"}, {}, True),
    ({"scope": "Cluster"}, {}, False),
]


@pytest.mark.parametrize(("rule", "request_fields", "expected"), RULES)
async def test_rules(world: World, rule: JsonObject, request_fields: JsonObject, expected: bool) -> None:
    world.service("a", allowing)
    whole = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], **rule}
    await world.configure("validating", "c", hook("a", rules=[whole]))
    await world.webhooks.validate(world.request(**request_fields))
    assert bool(world.asked) == expected


async def test_selectors_look_at_the_namespace_and_at_either_object(world: World) -> None:
    world.service("a", allowing)
    await world.namespace("ns", team="blue")
    chosen = {"matchLabels": {"team": "blue"}}
    other = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]}
    await world.configure(
        "validating",
        "c",
        hook("blue", "a", namespaceSelector=chosen),
        hook("others", "nobody", namespaceSelector=other),
        hook("app", "a", objectSelector={"matchLabels": {"app": "x"}}),
        hook("none", "nobody", objectSelector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
    )
    without = widget()
    del without["metadata"]["labels"]
    await world.webhooks.validate(world.request())
    assert world.names_asked() == ["a", "a"]
    with pytest.raises(errors.ApiError, match='failed calling webhook "none"'):
        await world.webhooks.validate(world.request("UPDATE", without, widget()))


async def test_match_conditions_see_the_request_and_the_authorizer(world: World) -> None:
    world.service("a", allowing)

    def conditions(*expressions: str) -> list[JsonObject]:
        return [{"name": f"c{place}", "expression": text} for place, text in enumerate(expressions)]

    await world.configure(
        "validating",
        "c",
        hook("yes", "a", matchConditions=conditions("object.spec.size > 1", "request.userInfo.username == 'jane'")),
        hook("no", "nobody", matchConditions=conditions("object.spec.size > 1", "request.operation == 'DELETE'")),
        hook("may", "a", matchConditions=conditions("authorizer.group('').resource('pods').check('get').allowed()")),
        hook("not", "nobody", matchConditions=conditions("authorizer.requestResource.check('delete').allowed()")),
        hook("new", "a", matchConditions=conditions("oldObject == null")),
    )
    await world.webhooks.validate(world.request(obj=widget(size=2)))
    assert world.names_asked() == ["a", "a", "a"]


async def test_a_failing_condition_fails_the_request_unless_failures_are_ignored(world: World) -> None:
    condition = [{"name": "c", "expression": "object.spec.nope > 1"}]
    await world.configure("validating", "c", hook("a", matchConditions=condition, failurePolicy="Ignore"))
    await world.webhooks.validate(world.request())
    await world.configure("validating", "d", hook("b", matchConditions=condition))
    with pytest.raises(errors.Forbidden, match="no such key: nope"):
        await world.webhooks.validate(world.request())


# -- what their answers do


async def test_patches_apply_one_after_the_other_and_defaults_follow(world: World) -> None:
    world.service("first", patching({"op": "add", "path": "/spec/size", "value": 1}))

    def second(request: JsonObject) -> JsonObject:
        assert request["object"]["spec"] == {"size": 1, "defaulted": True}
        return patching({"op": "replace", "path": "/spec/size", "value": 2})(request)

    world.service("second", second)
    await world.configure("mutating", "b", hook("second"))
    await world.configure("mutating", "a", hook("first"))
    attributes = world.request()
    before = attributes.object
    await world.webhooks.mutate(attributes)
    assert attributes.object is before
    assert attributes.object is not None
    assert attributes.object["spec"] == {"size": 2, "defaulted": True}


async def test_warnings_reach_the_client(world: World) -> None:
    world.service("a", lambda request: {"allowed": True, "warnings": ["careful", ""]})
    await world.configure("validating", "c", hook("a"))
    attributes = world.request()
    await world.webhooks.validate(attributes)
    assert attributes.warnings == ["careful"]


DENIALS: list[tuple[JsonObject, int, str, str]] = [
    ({"message": "no"}, 400, "", 'admission webhook "a" denied the request: no'),
    (
        {"message": "no", "code": 403, "reason": "Forbidden"},
        403,
        "Forbidden",
        'admission webhook "a" denied the request: no',
    ),
    ({"reason": "Bad"}, 400, "Bad", 'admission webhook "a" denied the request: Bad'),
    ({"code": 200}, 400, "", 'admission webhook "a" denied the request without explanation'),
    ({}, 400, "", 'admission webhook "a" denied the request without explanation'),
]


@pytest.mark.parametrize(("result", "code", "reason", "message"), DENIALS)
async def test_denials(world: World, result: JsonObject, code: int, reason: str, message: str) -> None:
    world.service("a", lambda request: {"allowed": False, "status": result})
    await world.configure("validating", "c", hook("a", failurePolicy="Ignore"))
    with pytest.raises(errors.ApiError) as caught:
        await world.webhooks.validate(world.request())
    assert (caught.value.code, caught.value.reason, caught.value.message) == (code, reason, message)


BROKEN: list[tuple[Answer, str]] = [
    (lambda request: {"uid": "other"}, "expected response.uid="),
    (lambda request: {"allowed": True, "patch": "W10="}, "webhook returned response.patch but not response.patchType"),
    (
        lambda request: {"allowed": True, "patchType": "JSONPatch"},
        "webhook returned response.patchType but not response.patch",
    ),
    (lambda request: {"allowed": True, "patch": "%%", "patchType": "JSONPatch"}, "received undecodable patch"),
    (lambda request: {"allowed": True, "patch": "W10=", "patchType": "Merge"}, 'unsupported patch type "Merge"'),
]


@pytest.mark.parametrize(("answer", "problem"), BROKEN)
async def test_an_answer_that_is_none_counts_as_a_failed_call(world: World, answer: Answer, problem: str) -> None:
    world.service("a", answer)
    await world.configure("mutating", "c", hook("a"))
    with pytest.raises(errors.InternalError) as caught:
        await world.webhooks.mutate(world.request())
    assert caught.value.message.startswith('Internal error occurred: failed calling webhook "a": received ')
    assert problem in caught.value.message


async def test_a_validating_webhook_may_not_patch(world: World) -> None:
    world.service("a", patching({"op": "add", "path": "/spec/a", "value": 1}))
    await world.configure("validating", "c", hook("a"))
    with pytest.raises(errors.InternalError, match=r"validating webhook may not return response.patch"):
        await world.webhooks.validate(world.request())


async def test_unreachable_webhooks_fail_the_request_or_are_skipped(world: World) -> None:
    await world.configure("mutating", "c", hook("a", "nobody", failurePolicy="Ignore"))
    await world.webhooks.mutate(world.request())
    await world.configure("mutating", "d", hook("b", "nobody"))
    with pytest.raises(errors.InternalError) as caught:
        await world.webhooks.mutate(world.request())
    assert caught.value.message == (
        'Internal error occurred: failed calling webhook "b": failed to call webhook: '
        'Post "https://nobody.hooks.svc:443/check?timeout=10s": service "nobody" not found'
    )


async def test_a_webhook_that_does_not_answer_in_time_has_failed(world: World) -> None:
    async def silence(path: str, body: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    world.client.register_local("hooks", "a", silence)
    await world.configure("validating", "c", hook("a", timeoutSeconds=0.01))
    with pytest.raises(errors.InternalError, match="context deadline exceeded"):
        await world.webhooks.validate(world.request())


async def test_a_patch_that_does_not_apply_is_an_internal_error(world: World) -> None:
    world.service("a", patching({"op": "remove", "path": "/spec/nope"}))
    await world.configure("mutating", "c", hook("a", failurePolicy="Ignore"))
    with pytest.raises(errors.InternalError):
        await world.webhooks.mutate(world.request())


async def test_side_effects_forbid_dry_runs(world: World) -> None:
    world.service("a", allowing)
    await world.configure("validating", "c", hook("safe", "a", sideEffects="NoneOnDryRun"))
    await world.webhooks.validate(world.request(dry_run=True))
    assert world.asked[0][1]["request"]["dryRun"] is True
    await world.configure("validating", "d", hook("unsafe", "a", sideEffects="Some"))
    with pytest.raises(errors.BadRequest, match='admission webhook "unsafe" does not support dry run'):
        await world.webhooks.validate(world.request(dry_run=True))


async def test_validating_webhooks_run_together_and_the_first_refusal_counts(world: World) -> None:
    both = asyncio.Barrier(2)

    def refusing(text: str) -> Callable[[str, bytes], Awaitable[bytes]]:
        async def handler(path: str, body: bytes) -> bytes:
            await both.wait()
            request = msgspec.json.decode(body)["request"]
            response = {"uid": request["uid"], "allowed": False, "status": {"message": text}}
            return msgspec.json.encode(
                {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response}
            )

        return handler

    world.client.register_local("hooks", "a", refusing("one"))
    world.client.register_local("hooks", "b", refusing("two"))
    await world.configure("validating", "c", hook("a"), hook("b"))
    with pytest.raises(errors.ApiError, match="one"):
        await world.webhooks.validate(world.request())


async def test_a_changed_configuration_is_used_at_once(world: World) -> None:
    world.service("a", allowing)
    await world.configure("validating", "c", hook("a"))
    await world.webhooks.validate(world.request())
    bucket = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    stored = world.store.get(bucket, "", "c")
    assert stored is not None
    await world.store.write(bucket, "", "c", None, expected=stored.revision)
    await world.webhooks.validate(world.request())
    assert len(world.asked) == 1


async def test_configurations_are_not_sent_to_webhooks(world: World) -> None:
    world.service("a", lambda request: {"allowed": False})
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    await world.configure("validating", "c", hook("a", rules=[rule]))
    await world.configure("mutating", "c", hook("a", rules=[rule]))
    resource = Resource(
        "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
    )
    chain = Chain([], None, world.webhooks)
    await chain.mutate(world.request(resource=resource))
    await chain.validate(world.request(resource=resource))
    assert world.asked == []
