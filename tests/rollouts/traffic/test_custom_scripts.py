"""Objects that scripts change: what a script gets, what it may return, and how the object comes back."""

import copy

import msgspec
import pytest

from kohort.kube.resources import Resource
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.traffic import custom_scripts
from kohort.rollouts.traffic.model import (
    Header,
    HeaderMatch,
    HeaderModifier,
    Match,
    PathMatch,
    QueryParamMatch,
    TrafficStep,
)
from kohort.rollouts.traffic.pending_writes import TrafficPlan, TrafficProblem
from kohort.rules.rollout_labels import ORIGINAL_SPEC, WRITTEN_SPEC

RESOURCE = Resource("networking.istio.io", "v1", "virtualservices", "VirtualService")


def virtual_service(weight: int | None = None, **metadata: Json) -> JsonObject:
    route: list[JsonObject] = [{"destination": {"host": "llm"}}]
    if weight is not None:
        route = [
            {"destination": {"host": "llm"}, "weight": 100 - weight},
            {"destination": {"host": "llm-canary"}, "weight": weight},
        ]
    return {
        "kind": "VirtualService",
        "metadata": {"name": "llm", "namespace": "default", "resourceVersion": "1", **metadata},
        "spec": {"http": [{"route": route}]},
    }


def patched(obj: JsonObject, plan: TrafficPlan) -> JsonObject:
    """The object after the writes of a plan."""
    result = copy.deepcopy(obj)
    for write in plan.writes:
        for name, value in (write.body["metadata"].get("annotations") or {}).items():
            known = result["metadata"].setdefault("annotations", {})
            if value is None:
                known.pop(name, None)
            else:
                known[name] = value
        if "spec" in write.body:
            result["spec"] = {**result["spec"], **write.body["spec"]}
    return result


def routed(weight: int = 20) -> JsonObject:
    before = virtual_service()
    original = custom_scripts.as_it_was(before)
    desired = {"spec": virtual_service(weight)["spec"]}
    return patched(before, custom_scripts.plan_change(before, RESOURCE, original, desired))


# What a script gets


@pytest.mark.parametrize(("weight", "canary", "stable"), [(20, 20, 80), (0, 0, 100), (100, 100, 0), (None, -1, 101)])
def test_weights_for_a_script(weight: int | None, canary: int, stable: int) -> None:
    given = custom_scripts.script_input({}, TrafficStep(weight), "llm", "llm-canary")
    assert (given["canaryWeight"], given["stableWeight"]) == (canary, stable)
    assert (given["stableService"], given["canaryService"]) == ("llm", "llm-canary")
    assert given["data"] == {"spec": {}, "labels": {}, "annotations": {}}
    assert "matches" not in given


def test_a_script_need_not_know_defaults_of_matches() -> None:
    match = Match(PathMatch(), (HeaderMatch("user", "demo"),), (QueryParamMatch("a", "b"),))
    given = custom_scripts.script_input({}, TrafficStep(matches=(match,)), "llm", "llm-canary")
    (found,) = given["matches"]
    assert found["headers"] == [{"type": "Exact", "name": "user", "value": "demo"}]
    assert found["queryParams"] == [{"type": "Exact", "name": "a", "value": "b"}]
    assert found["path"] == {"type": "PathPrefix", "value": "/"}


def test_headers_that_a_step_sets_are_given() -> None:
    step = TrafficStep(10, header_modifier=HeaderModifier(set=(Header("version", "new"),)))
    given = custom_scripts.script_input({}, step, "llm", "llm-canary")
    assert list(given["requestHeaderModifier"]["set"]) == [{"name": "version", "value": "new"}]


# What it may return


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "it returned nothing"),
        ([], "it returned a list"),
        ("x", "it returned a text"),
        (5, "it returned a number or boolean"),
        ({"status": {}}, "the unknown field 'status'"),
        ({"spec": [1]}, "returned a list as spec"),
        ({"labels": {"a": 1}}, "returned labels that are not texts by name"),
        ({"annotations": ["a"]}, "returned annotations that are not texts by name"),
    ],
)
def test_a_result_that_cannot_be_written_is_refused_in_words(result: Json, words: str) -> None:
    with pytest.raises(TrafficProblem, match=words):
        custom_scripts.checked(result, "the script")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"spec": {"a": 1}}, {"spec": {"a": 1}}),
        ({"spec": {"a": 1}, "labels": [], "annotations": {}}, {"spec": {"a": 1}}),
        ({"labels": {"a": "b"}}, {"labels": {"a": "b"}}),
        ({}, {}),
    ],
)
def test_parts_that_are_empty_are_left_out(result: JsonObject, expected: JsonObject) -> None:
    assert custom_scripts.checked(result, "the script") == expected


# Changing and restoring


def test_a_changed_object_knows_how_it_was_and_what_was_written() -> None:
    obj = routed()
    assert custom_scripts.saved(obj) == {"spec": virtual_service()["spec"]}
    assert custom_scripts.saved(obj, WRITTEN_SPEC) == {"spec": virtual_service(20)["spec"]}
    assert custom_scripts.is_as_written(obj)


def test_every_step_starts_from_the_original() -> None:
    assert custom_scripts.as_it_was(routed(20)) == custom_scripts.as_it_was(virtual_service())


def test_an_object_that_is_as_it_should_be_is_not_written() -> None:
    obj = routed(20)
    plan = custom_scripts.plan_change(
        obj, RESOURCE, custom_scripts.as_it_was(obj), {"spec": virtual_service(20)["spec"]}
    )
    assert plan.writes == ()


def test_an_edit_by_another_client_is_noticed() -> None:
    obj = routed()
    obj["spec"]["http"][0]["route"][0]["weight"] = 50
    assert not custom_scripts.is_as_written(obj)


def test_restoring_gives_the_object_back() -> None:
    obj = routed()
    (write,) = custom_scripts.plan_restore(obj, RESOURCE, "llm-canary").writes
    assert write.text == "restore VirtualService llm"
    assert write.body["spec"] == virtual_service()["spec"]
    assert write.body["metadata"]["annotations"] == {ORIGINAL_SPEC: None, WRITTEN_SPEC: None}
    assert write.body["metadata"]["resourceVersion"] == "1"


def test_an_object_that_was_never_changed_is_not_restored() -> None:
    assert custom_scripts.plan_restore(virtual_service(), RESOURCE, "llm-canary").writes == ()


def test_an_edit_of_another_field_survives_the_release() -> None:
    obj = routed()
    obj["spec"]["hosts"] = ["a.example.com"]
    (write,) = custom_scripts.plan_restore(obj, RESOURCE, "llm-canary").writes
    assert "hosts" not in write.body["spec"], "the edit is there already, and stays"


@pytest.mark.parametrize("text", ["{", "[]", "5"])
def test_an_annotation_that_cannot_be_read_is_a_problem_in_words(text: str) -> None:
    obj = virtual_service(annotations={ORIGINAL_SPEC: text})
    with pytest.raises(TrafficProblem, match=r"VirtualService default/llm: annotation .* is not readable"):
        custom_scripts.saved(obj)


def test_what_is_kept_in_annotations_is_json() -> None:
    text = routed()["metadata"]["annotations"][ORIGINAL_SPEC]
    assert msgspec.json.decode(text) == {"spec": virtual_service()["spec"]}
