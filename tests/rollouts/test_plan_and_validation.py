"""Plan hash, arithmetic, validation, and what happens to a template on its way into the store."""

import copy
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.releases import V2, group_set, rollout

from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts import step_arithmetic, validation
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.workloads import canary_set, group_hold
from kohort.rollouts.workloads.batch_labels import assign
from kohort.rollouts.workloads.update_admission import AdmissionContext, admit_group_set
from kohort.rules import rollout_labels

# Group arithmetic, from the table of the specification


def planned_groups(wanted: int | str, replicas: int) -> int:
    return step_arithmetic.planned(wanted, replicas, LEADER_WORKER_SETS.group_kind, rollout_labels.CANARY)


@pytest.mark.parametrize(
    ("replicas", "counts"),
    [
        (1, [1, 1, 1, 1, 1, 1]),
        (2, [1, 1, 1, 2, 2, 2]),
        (3, [1, 1, 2, 3, 3, 3]),
        (4, [1, 1, 2, 4, 4, 4]),
        (8, [1, 2, 4, 8, 8, 5]),
    ],
)
def test_groups_of_a_step(replicas: int, counts: list[int]) -> None:
    wanted: list[int | str] = ["1%", "20%", "50%", "90%", "100%", 5]
    assert [planned_groups(one, replicas) for one in wanted] == counts


@given(st.integers(0, 1000), st.integers(1, 100), st.integers(1, 100))
def test_a_larger_share_never_means_fewer_groups(replicas: int, one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert planned_groups(f"{low}%", replicas) <= planned_groups(f"{high}%", replicas) <= replicas


def test_a_failure_threshold_is_a_share_of_the_updated() -> None:
    assert [step_arithmetic.allowed_failures("20%", updated) for updated in (0, 1, 5, 6, 10)] == [0, 1, 1, 2, 2]
    assert step_arithmetic.allowed_failures(None, 10) == 0


# Validation


def errors(document: JsonObject, *others: JsonObject) -> str:
    found = validation.create_errors(validation.parse(document), [validation.parse(one) for one in others])
    return "; ".join(str(one) for one in found)


def with_steps(*steps: JsonObject, blue_green: bool = False) -> JsonObject:
    return rollout(steps=list(steps), blue_green=blue_green)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (with_steps({"traffic": "5%"}), "replicas cannot be empty"),
        (with_steps({"replicas": 0}), "replicas must be positive number, or a percentage"),
        (with_steps({"replicas": "101%"}), "replicas must be positive number, or a percentage"),
        (with_steps({"replicas": "half"}), "replicas must be positive number, or a percentage"),
        (with_steps({"replicas": 1, "traffic": "0%"}), '"0%" < traffic <= "100%" in canary strategy'),
        (with_steps({"replicas": 1, "traffic": "101%"}, blue_green=True), '"0%" <= traffic <= "100%" in blueGreen'),
        (with_steps({"replicas": 2}, {"replicas": 1}), "Steps.CanaryReplicas must be a non decreasing sequence"),
        (with_steps({"replicas": "50%"}, {"replicas": "20%"}), "must be a non decreasing sequence"),
        (with_steps({"replicas": 1, "matches": [{}]}), "Matches[0]: Invalid value: {}: a match must have headers"),
    ],
)
def test_messages_about_steps(document: JsonObject, message: str) -> None:
    assert message in errors(document)


def changed(path: str, value: Json) -> JsonObject:
    document = rollout()
    target = document["spec"]
    *parents, last = path.split(".")
    for name in parents:
        target = target[int(name)] if name.isdigit() else target[name]
    target[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("workloadRef.kind", "CronJob", "WorkloadRef kind is not supported"),
        ("workloadRef.apiVersion", "example.com/v1", "WorkloadRef kind is not supported"),
        ("workloadRef.name", "", "name the workload"),
        ("strategy.canary", None, "Canary and BlueGreen cannot both be empty"),
        ("strategy.canary.steps", [], "The number of Canary.Steps cannot be empty"),
        (
            "strategy.canary.enableExtraWorkloadForCanary",
            False,
            "LeaderWorkerSet does not support partition style, set enableExtraWorkloadForCanary=true or use blueGreen",
        ),
        ("strategy.canary.trafficRoutings.0.service", "", "TrafficRouting.Service cannot be empty"),
        ("strategy.canary.trafficRoutings.0.gracePeriodSeconds", -1, "GracePeriodSeconds cannot be negative"),
        ("strategy.canary.trafficRoutings.0.ingress", None, "TrafficRoutings are not set"),
        ("strategy.canary.trafficRoutings.0.ingress.name", "", "TrafficRouting.Ingress.Ingress cannot be empty"),
        ("strategy.canary.trafficRoutings.0.gateway", {}, "TrafficRouting.Gateway must set the name of HTTPRoute"),
        (
            "strategy.canary.trafficRoutings",
            [{"service": "a", "ingress": {"name": "a"}}, {"service": "b", "ingress": {"name": "b"}}],
            "Rollout currently only support single TrafficRouting.",
        ),
    ],
)
def test_messages_about_fields(path: str, value: Json, message: str) -> None:
    assert message in errors(changed(path, value))


def test_the_proposed_api_group_means_the_real_one() -> None:
    alias = changed("workloadRef.apiVersion", "workload.kubernetes.io/v1alpha1")
    assert errors(alias) == ""
    other = rollout()
    other["metadata"]["name"] = "other"
    assert "This rollout conflict with Rollout(default/other)" in errors(alias, other)


def test_what_is_frozen_while_progressing() -> None:
    old = rollout() | {"status": {"phase": "Progressing"}}
    cases = {
        "Rollout 'ObjectRef' field is immutable": changed("workloadRef.name", "other"),
        "Amount of Rollout steps are immutable": changed("strategy.canary.steps", [{"replicas": 1}]),
        "Rollout style and enableExtraWorkloadForCanary are immutable": rollout(blue_green=True),
        "Rollout 'Strategy.Canary|BlueGreen.TrafficRoutings' field is immutable": changed(
            "strategy.canary.trafficRoutings.0.service", "x"
        ),
    }
    for message, new in cases.items():
        found = validation.update_errors(validation.parse(new), validation.parse(old), [])
        assert message in str([str(one) for one in found])
    assert not validation.update_errors(validation.parse(rollout()), validation.parse(old), [])


def partitioned(*steps: JsonObject, kind: str = "Deployment", extra: bool = False) -> JsonObject:
    document = with_steps(*steps)
    document["spec"]["workloadRef"] = {"apiVersion": "apps/v1", "kind": kind, "name": "llm"}
    document["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = extra
    return document


HEADER_MATCH: JsonObject = {"matches": [{"headers": [{"name": "x", "value": "1"}]}]}


@pytest.mark.parametrize(
    ("document", "limit", "refused"),
    [
        (partitioned({"replicas": "50%", "traffic": "50%"}), 50, []),
        (partitioned({"replicas": "51%", "traffic": "1%"}), 50, [0]),
        (partitioned({"replicas": "10%"}, {"replicas": "60%", **HEADER_MATCH}), 50, [1]),
        (partitioned({"replicas": "20%"}, {"replicas": "100%"}), 50, []),
        (partitioned({"replicas": 9, "traffic": "90%"}), 50, []),
        (partitioned({"replicas": "60%", "traffic": "60%"}, {"replicas": "100%", "traffic": "100%"}), 100, []),
        (partitioned({"replicas": "1%", "traffic": "1%"}), 0, [0]),
        (partitioned({"replicas": "60%", "traffic": "60%"}, extra=True), 50, []),
        (partitioned({"replicas": "60%", "traffic": "60%"}, kind="StatefulSet", extra=True), 50, [0]),
        (with_steps({"replicas": "100%", "traffic": "100%"}), 50, []),
        (with_steps({"replicas": "100%", "traffic": "100%"}, blue_green=True), 50, []),
    ],
)
def test_steps_in_partition_style_leave_stable_pods_enough_for_a_rollback(
    document: JsonObject, limit: int, refused: list[int]
) -> None:
    """A StatefulSet is always released in partition style; canaries and blue-green keep every stable pod."""
    found = validation.create_errors(validation.parse(document), [], partition_limit=limit)
    assert [one.field for one in found] == [f"Spec.Strategy.Canary.Steps[{index}].Replicas" for index in refused]
    words = "step[x].replicas must not greater than partition-percent-limit if traffic specified"
    assert all(words in str(one) and f"at most {limit}%" in str(one) for one in found)


def test_steps_admitted_under_a_higher_limit_do_not_block_other_edits() -> None:
    old = validation.parse(partitioned({"replicas": "80%", "traffic": "80%"}, {"replicas": "100%"}))
    paused = partitioned({"replicas": "80%", "traffic": "80%"}, {"replicas": "100%"})
    paused["spec"]["strategy"]["paused"] = True
    assert validation.update_errors(validation.parse(paused), old, []) == []
    more = validation.parse(partitioned({"replicas": "90%", "traffic": "80%"}, {"replicas": "100%"}))
    assert [one.field for one in validation.update_errors(more, old, [])] == ["Spec.Strategy.Canary.Steps[0].Replicas"]


def test_warnings() -> None:
    silent = validation.parse(rollout(routed=False))
    assert "traffic is ignored without trafficRoutings (steps 1, 2, 3)" in validation.warnings(silent, 4)
    found = validation.warnings(
        validation.parse(with_steps({"replicas": "1%"}, {"replicas": "20%"}, {"replicas": 9})), 4
    )
    assert "step 1 and 2 both resolve to 1 of 4 groups" in found
    assert "step 3: replicas 9 is more than the 4 that the workload has" in found
    (falls,) = validation.warnings(validation.parse(with_steps({"replicas": "50%"}, {"replicas": 1})), 4)
    assert falls.startswith("step 2 resolves to 1 of 4 groups, fewer than the 2 of the step before")


def test_warnings_count_pods_of_a_deployment_as_its_steps_do() -> None:
    """Both versions live in one Deployment: of two pods, a step of 90 % leaves an old one."""
    document = with_steps({"replicas": 1}, {"replicas": "90%"}, {"replicas": "100%"})
    document["spec"]["workloadRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llm"}
    document["spec"]["strategy"]["canary"]["enableExtraWorkloadForCanary"] = False
    assert "step 1 and 2 both resolve to 1 of 2 pods" in validation.warnings(validation.parse(document), 2)


def test_steps_with_the_same_groups_and_other_requests_are_in_order() -> None:
    """All groups of the new version first, the switch later: that is what blue-green is."""
    steps = (
        {"replicas": 1, "matches": [{"headers": [{"name": "x", "value": "1"}]}]},
        {"replicas": 1, "traffic": "20%"},
    )
    switch = ({"replicas": "100%", "traffic": "50%"}, {"replicas": "100%", "traffic": "100%"})
    assert validation.warnings(validation.parse(with_steps(*steps, *switch)), 2) == []


# The hold

OLD = group_set() | {
    "metadata": {"name": "llm", "namespace": "default", "labels": {rollout_labels.WORKLOAD_TYPE: "leaderworkerset"}},
    "status": {"replicas": 2, "updatedReplicas": 2},
}
SITUATION = AdmissionContext(msgspec.convert(rollout(), Rollout), "aaa", frozenset({"token"}))


def with_image(document: JsonObject, image: str = V2) -> JsonObject:
    result = copy.deepcopy(document)
    result["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0]["image"] = image
    return result


def rolling(document: JsonObject) -> JsonObject:
    found: JsonObject = document["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
    return found


def test_a_new_template_is_held_in_the_same_answer() -> None:
    held = admit_group_set(with_image(OLD), OLD, SITUATION).document
    assert rolling(held) == {"partition": 1_000_000, "maxUnavailable": 1, "maxSurge": 0}
    assert held["metadata"]["labels"][rollout_labels.STABLE_REVISION] == "aaa"
    assert held["metadata"]["annotations"][rollout_labels.IN_PROGRESSING] == '{"rolloutName":"llm"}'
    saved = held["metadata"]["annotations"][rollout_labels.ORIGINAL_LWS_STRATEGY]
    assert msgspec.json.decode(saved) == {"partition": None, "maxUnavailable": None, "maxSurge": None}


@pytest.mark.parametrize(
    ("new", "old", "context"),
    [
        (OLD, OLD, SITUATION),
        (with_image(OLD), OLD, AdmissionContext(None)),
        (with_image(OLD), OLD | {"status": {"replicas": 2, "updatedReplicas": 1}}, SITUATION),
        (with_image(OLD), OLD, AdmissionContext(SITUATION.rollout, "")),
        (with_image(OLD) | {"spec": {**with_image(OLD)["spec"], "replicas": 0}}, OLD, SITUATION),
    ],
)
def test_what_is_not_held(new: JsonObject, old: JsonObject, context: AdmissionContext) -> None:
    admitted = admit_group_set(new, old, context)
    assert admitted.document == new
    assert bool(admitted.warnings) == (new != old and context.rollout is not None)


def test_edits_under_the_hold_go_to_the_annotation() -> None:
    held = admit_group_set(with_image(OLD), OLD, SITUATION).document
    edited = copy.deepcopy(held)
    rolling(edited)["maxSurge"] = 2
    kept = admit_group_set(edited, held, SITUATION).document
    assert rolling(kept)["maxSurge"] == 0
    assert msgspec.json.decode(kept["metadata"]["annotations"][rollout_labels.ORIGINAL_LWS_STRATEGY])["maxSurge"] == 2
    bare = copy.deepcopy(held)
    del bare["metadata"]["annotations"]
    assert admit_group_set(bare, held, SITUATION).document["metadata"]["annotations"].keys() >= {
        rollout_labels.IN_PROGRESSING,
        rollout_labels.ORIGINAL_LWS_STRATEGY,
        rollout_labels.STABLE_FINGERPRINT,
    }


def test_only_a_known_token_lifts_the_hold() -> None:
    held = admit_group_set(with_image(OLD), OLD, SITUATION).document
    for token, lifted in (("token", True), ("guess", False)):
        free = copy.deepcopy(held)
        rolling(free)["partition"] = 0
        free["metadata"]["annotations"] = {rollout_labels.HOLD_RELEASE: token}
        document = admit_group_set(free, held, SITUATION).document
        assert (rolling(document)["partition"] == 0) == lifted
        assert (rollout_labels.HOLD_RELEASE in document["metadata"]["annotations"]) != lifted


def test_an_unavailability_of_no_group_becomes_one_under_the_hold() -> None:
    assert group_hold.held_values({"replicas": 2}, {"maxUnavailable": "10%"})["maxUnavailable"] == 1
    assert group_hold.held_values({"replicas": 20}, {"maxUnavailable": "10%"})["maxUnavailable"] == "10%"


# Names and labels


SERVICE = "strategy.canary.trafficRoutings.0.service"
DEPLOYMENT: JsonObject = {"apiVersion": "apps/v1", "kind": "Deployment"}


@pytest.mark.parametrize(
    ("path", "most", "around"),
    [
        (SERVICE, 56, lambda name: name),
        ("strategy.canary.trafficRoutings.0.ingress.name", 246, lambda name: name),
        ("workloadRef", 63, lambda name: {**DEPLOYMENT, "name": name}),
    ],
)
def test_names_leave_room_for_what_is_made_beside_them(path: str, most: int, around: Callable[[str], Json]) -> None:
    """A canary Service, a canary Ingress, and the label of a canary Deployment."""
    assert errors(changed(path, around("n" * most))) == ""
    assert f"must have at most {most} characters, it has {most + 1}" in errors(changed(path, around("n" * (most + 1))))


def test_a_service_that_is_shared_may_have_any_name() -> None:
    document = changed(SERVICE, "n" * 63)
    document["spec"]["strategy"]["canary"]["disableGenerateCanaryService"] = True
    assert errors(document) == ""


def test_the_name_of_a_rollout_is_that_of_a_label() -> None:
    document = rollout()
    document["metadata"]["name"] = "n" * 64
    assert "metadata.name" in errors(document)
    stored, edited = (validation.parse(one) for one in (document, changed("strategy.paused", True)))
    assert validation.update_errors(edited, stored, []) == [], "it cannot be renamed"


@given(st.integers(1, 63))
def test_the_name_of_a_canary_leaves_room_for_its_pods(length: int) -> None:
    name = canary_set.canary_name("a" * length, "uid", "template")
    assert len(name) <= 47
    assert name == canary_set.canary_name("a" * length, "uid", "template")
    assert name != canary_set.canary_name("a" * length, "uid", "other")


def test_batches_of_replicas_after_a_scale_up() -> None:
    """Five replicas at 20% and 40%, then ten: two and two."""
    first = assign({"0": None, "1": None}, [1, 2])
    assert sorted(first.values()) == [1, 2]
    known: dict[str, int | None] = {**first, "2": None, "3": None}
    after = {**known, **assign(known, [2, 4])}
    assert sorted(str(batch) for batch in after.values()) == ["1", "1", "2", "2"]
    assert {name: after[name] for name in first} == first
