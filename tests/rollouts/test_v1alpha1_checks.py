"""What is wrong with a Rollout of v1alpha1, before it is converted."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.v1alpha1_checks import errors
from kohort.rules.rollout_labels import ROLLING_STYLE

WORKLOAD: JsonObject = {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
ROUTES: JsonObject = {"trafficRoutings": [{"service": "web"}]}


def rollout(*steps: JsonObject, style: str | None = None, routed: bool = False) -> JsonObject:
    canary: JsonObject = {"steps": list(steps), **(ROUTES if routed else {})}
    annotations = {} if style is None else {"annotations": {ROLLING_STYLE: style}}
    return {"metadata": {"name": "r", **annotations}, "spec": {"objectRef": WORKLOAD, "strategy": {"canary": canary}}}


def fields(document: JsonObject) -> list[str]:
    return [one.field for one in errors(document)]


@pytest.mark.parametrize(
    ("steps", "routed", "found"),
    [
        ([], False, []),
        ([{"weight": 1}, {"weight": 100}], True, []),
        ([{"weight": 20}, {"weight": 20}], True, []),
        ([{"replicas": 1}, {"replicas": "50%"}], False, []),
        ([{}], False, ["Spec.Strategy.Canary.Steps[0].steps"]),
        ([{"weight": 5}, {"pause": {}}], False, ["Spec.Strategy.Canary.Steps[1].steps"]),
        ([{"weight": 0}], False, ["Spec.Strategy.Canary.Steps[0].Weight"]),
        ([{"weight": -1}], False, ["Spec.Strategy.Canary.Steps[0].Weight"]),
        ([{"weight": 101}], False, ["Spec.Strategy.Canary.Steps[0].Weight"]),
        ([{"weight": 0, "replicas": 1}], False, []),
        ([{"weight": 500, "replicas": 1}], False, []),
        ([{"weight": 50}, {"weight": 20}], True, ["Spec.Strategy.Canary.Steps.Weight"]),
        ([{"weight": 50}, {"weight": 20}], False, []),
        ([{"weight": 50}, {"replicas": 1}, {"weight": 20}], True, []),
        ([{}, {"weight": 0}], False, ["Spec.Strategy.Canary.Steps[0].steps"]),
    ],
)
def test_steps(steps: list[JsonObject], routed: bool, found: list[str]) -> None:
    """Weights must grow only where they are those of routes."""
    assert fields(rollout(*steps, routed=routed)) == found


@pytest.mark.parametrize("style", [None, "", "canary", "Canary", "CANARY", "partition", "Partition"])
def test_styles_that_there_are(style: str | None) -> None:
    assert fields(rollout({"weight": 20}, style=style)) == []


@pytest.mark.parametrize("style", ["blueGreen", "canary ", "x"])
def test_styles_that_there_are_not(style: str) -> None:
    (error,) = errors(rollout({"weight": 20}, style=style))
    assert error.field == "RollingStyle"
    assert "Rolling style must be 'Canary', 'Partition' or empty" in str(error)
    assert style in str(error)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, ["Spec.ObjectRef.WorkloadRef", "Spec.Strategy.Canary"]),
        (None, ["Spec.ObjectRef.WorkloadRef", "Spec.Strategy.Canary"]),
        ({"objectRef": WORKLOAD}, ["Spec.Strategy.Canary"]),
        ({"objectRef": WORKLOAD, "strategy": {"canary": None}}, ["Spec.Strategy.Canary"]),
        ({"objectRef": {}, "strategy": {"canary": {}}}, ["Spec.ObjectRef.WorkloadRef"]),
        ({"objectRef": {"workloadRef": None}, "strategy": {"canary": {}}}, ["Spec.ObjectRef.WorkloadRef"]),
        ({"objectRef": WORKLOAD, "strategy": {"canary": {"steps": None}}}, []),
    ],
)
def test_what_must_be_there(spec: Json, found: list[str]) -> None:
    assert fields({"metadata": {}, "spec": spec}) == found


def test_mistakes_of_different_kinds_are_all_named() -> None:
    document = rollout({}, style="x")
    document["spec"]["objectRef"] = None
    assert fields(document) == [
        "Spec.ObjectRef.WorkloadRef",
        "RollingStyle",
        "Spec.Strategy.Canary.Steps[0].steps",
    ]


amounts = st.one_of(st.integers(-1, 120), st.none())
steps_of_users = st.lists(st.fixed_dictionaries({}, optional={"weight": amounts, "replicas": amounts}), max_size=4)


@given(steps_of_users, st.booleans())
def test_at_most_the_first_wrong_step_is_named(steps: list[JsonObject], routed: bool) -> None:
    document = rollout(*steps, routed=routed)
    before = copy.deepcopy(document)
    assert len(fields(document)) <= 1
    assert document == before, "only looked at"


@given(st.lists(st.integers(1, 100), max_size=5))
def test_weights_of_routes_must_not_fall(weights: list[int]) -> None:
    found = fields(rollout(*({"weight": weight} for weight in weights), routed=True))
    assert (found == []) == (weights == sorted(weights))
