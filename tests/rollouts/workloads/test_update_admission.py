"""What the webhook does with an update: the table of `update_admission`, row by row."""

import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rollouts.releases import V1, V2, V3, group_set, rollout

from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import Condition
from kohort.rollouts.group_set import HELD_GROUPS_PARTITION, is_held
from kohort.rollouts.rollout_types import Rollout, RolloutStatus
from kohort.rollouts.workloads import deployment_hold, group_hold
from kohort.rollouts.workloads.update_admission import (
    AdmissionContext,
    AdmissionDecision,
    admit_deployment,
    admit_group_set,
    without_token,
)
from kohort.rules import rollout_labels
from kohort.rules.group_template import with_default_template

ROLLOUT = msgspec.convert(rollout(), Rollout)
FREE = AdmissionContext(ROLLOUT, "rev-1", frozenset({"uid"}), ("a",))
FINALISING = RolloutStatus(
    phase=rollout_labels.PROGRESSING,
    conditions=(Condition(type=rollout_labels.PROGRESSING, status="True", reason=rollout_labels.FINALISING),),
)
PROMOTING = msgspec.structs.replace(FREE, rollout=msgspec.structs.replace(ROLLOUT, status=FINALISING))


def a_set(image: str = V1, *, replicas: int = 2, updated: int | None = None, **annotations: str) -> JsonObject:
    document: JsonObject = copy.deepcopy(dict(group_set(image, replicas=replicas)))
    document["spec"] = with_default_template(document["spec"])  # as the webhook of sets stores it
    document["status"] = {"replicas": replicas, "updatedReplicas": replicas if updated is None else updated}
    if annotations:
        document["metadata"]["annotations"] = dict(annotations)
    return document


def held_set() -> JsonObject:
    return group_hold.hold(a_set(V2), a_set(), "llm", "rev-1")


def noted(document: JsonObject, **annotations: str) -> JsonObject:
    known = document["metadata"].get("annotations") or {}
    return {**document, "metadata": {**document["metadata"], "annotations": {**known, **annotations}}}


def identified(document: JsonObject, name: str) -> JsonObject:
    return noted(document, **{rollout_labels.ROLLOUT_ID: name})


def passes(decision: AdmissionDecision, document: JsonObject) -> bool:
    return (decision.document, decision.warnings, decision.refusal) == (document, (), "")


# Tokens


def test_a_token_of_a_known_object_is_removed_on_the_way() -> None:
    document = noted(a_set(), **{rollout_labels.HOLD_RELEASE: "uid", "mine": "x"})
    found = without_token(document, frozenset({"uid"}))
    assert found is not None
    assert found["metadata"]["annotations"] == {"mine": "x"}


@pytest.mark.parametrize("tokens", [frozenset(), frozenset({"other"})])
def test_a_token_that_nothing_here_has_does_not_count(tokens: frozenset[str]) -> None:
    assert without_token(noted(a_set(), **{rollout_labels.HOLD_RELEASE: "uid"}), tokens) is None


def test_a_document_without_annotations_has_no_token() -> None:
    assert without_token(a_set(), frozenset({"uid"})) is None


def test_an_update_with_a_token_passes_even_out_of_a_hold() -> None:
    free = noted(a_set(V2), **{rollout_labels.HOLD_RELEASE: "uid"})
    decision = admit_group_set(free, held_set(), FREE)
    assert not is_held(decision.document["spec"])
    assert rollout_labels.HOLD_RELEASE not in decision.document["metadata"]["annotations"]


# Sets


def test_a_new_template_is_held() -> None:
    decision = admit_group_set(a_set(V2), a_set(), FREE)
    rolling = decision.document["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]
    assert rolling["partition"] == HELD_GROUPS_PARTITION
    assert rollout_labels.IN_PROGRESSING in decision.document["metadata"]["annotations"]


def test_without_a_rollout_a_new_template_rolls_as_ever() -> None:
    new = a_set(V2)
    assert passes(admit_group_set(new, a_set(), AdmissionContext(None, "rev-1")), new)


def test_the_same_template_passes() -> None:
    new = a_set(replicas=5)
    assert passes(admit_group_set(new, a_set(), FREE), new)


def test_a_canary_is_the_business_of_its_release() -> None:
    old = a_set()
    old["metadata"]["labels"] = {rollout_labels.CANARY_SET: "llm"}
    new = copy.deepcopy(a_set(V2))
    assert passes(admit_group_set(new, old, FREE), new)


@pytest.mark.parametrize("image", [V1, V2, V3])
def test_whatever_is_written_to_a_held_set_it_stays_held(image: str) -> None:
    decision = admit_group_set(a_set(image), held_set(), FREE)
    assert is_held(decision.document["spec"])
    assert decision.refusal == ""


@pytest.mark.parametrize(
    ("new", "old", "context", "reason"),
    [
        (a_set(V2, replicas=0), a_set(replicas=0), FREE, "the set has no groups"),
        (
            a_set(V2),
            a_set(),
            msgspec.structs.replace(FREE, live_revision=""),
            "the set has no leader StatefulSet yet",
        ),
        (a_set(V2), a_set(updated=1), FREE, "an earlier update is not complete (done: 1 of 2 groups)"),
    ],
)
def test_a_set_that_cannot_be_held_rolls_natively_with_a_warning(
    new: JsonObject, old: JsonObject, context: AdmissionContext, reason: str
) -> None:
    decision = admit_group_set(new, old, context)
    assert decision.document == new
    (warning,) = decision.warnings
    assert warning == f"ReleaseNotControlled: {reason}; the template is rolled out natively, without steps"


def promoting_set() -> JsonObject:
    held = held_set()
    held["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"] = 0
    del held["metadata"]["annotations"][rollout_labels.IN_PROGRESSING]
    held["status"] = {"replicas": 2, "updatedReplicas": 1}
    return held


@pytest.mark.parametrize(("image", "refused"), [(V1, False), (V2, False), (V3, True)])
def test_a_promotion_can_be_taken_back_but_not_redirected(image: str, refused: bool) -> None:
    old = promoting_set()
    new = a_set(image)
    decision = admit_group_set(new, old, PROMOTING)
    assert bool(decision.refusal) is refused
    if refused:
        assert decision.refusal.startswith("LeaderWorkerSet llm is being promoted to the version")
    else:
        assert rollout_labels.ORIGINAL_LWS_STRATEGY in decision.document["metadata"]["annotations"]


def left_held_set() -> JsonObject:
    held = held_set()
    for name in (rollout_labels.IN_PROGRESSING, rollout_labels.STABLE_FINGERPRINT):
        del held["metadata"]["annotations"][name]
    return held


def test_a_hold_that_was_left_goes_with_what_was_saved_for_it() -> None:
    old = left_held_set()
    new = copy.deepcopy(old)
    new["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["partition"] = 0
    decision = admit_group_set(new, old, msgspec.structs.replace(FREE, tokens=frozenset()))
    assert rollout_labels.ORIGINAL_LWS_STRATEGY not in decision.document["metadata"]["annotations"]


# Ids of releases


@pytest.mark.parametrize(
    ("image", "before", "after", "held", "warning"),
    [
        (V2, "", "", True, ""),
        (V2, "1", "2", True, ""),
        (V2, "", "1", True, ""),
        (V2, "1", "1", False, "is unchanged: the new template is rolled out natively"),
        (V1, "1", "2", False, "changed but the template did not: there is nothing to release"),
        (V1, "1", "1", False, ""),
        (V1, "", "", False, ""),
    ],
)
def test_an_id_alone_says_whether_this_is_a_release(
    image: str, before: str, after: str, held: bool, warning: str
) -> None:
    old = identified(a_set(), before) if before else a_set()
    new = identified(a_set(image), after) if after else a_set(image)
    decision = admit_group_set(new, old, FREE)
    assert is_held(decision.document["spec"]) is held
    assert [warning in one for one in decision.warnings] == ([True] if warning else [])


# Deployments


def deployment(image: str = V1, *, replicas: int = 4, **more: Json) -> JsonObject:
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "web-uid"},
        "spec": {
            "replicas": replicas,
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
            **more,
        },
    }


def test_a_new_template_of_a_deployment_is_paused() -> None:
    decision = admit_deployment(deployment(V2), deployment(), FREE)
    assert decision.document["spec"]["paused"] is True
    assert decision.document["metadata"]["labels"][rollout_labels.STABLE_REVISION] == "rev-1"


def test_a_deployment_that_only_scales_passes() -> None:
    new = deployment(replicas=9)
    assert passes(admit_deployment(new, deployment(), FREE), new)


def test_a_held_deployment_cannot_be_resumed_by_hand() -> None:
    old = deployment_hold.hold(deployment(V2), "web", "rev-1")
    decision = admit_deployment(deployment(V2, paused=False), old, FREE)
    assert decision.document["spec"]["paused"] is True


def test_a_deployment_whose_mark_was_emptied_is_held_as_before() -> None:
    old = deployment_hold.hold(deployment(V2), "web", "rev-1")
    old["metadata"]["annotations"][rollout_labels.IN_PROGRESSING] = ""
    decision = admit_deployment(deployment(V2, paused=False), old, FREE)
    assert decision.document["spec"]["paused"] is True
    assert decision.document["metadata"]["labels"][rollout_labels.STABLE_REVISION] == "rev-1"


@pytest.mark.parametrize(
    ("new", "context", "reason"),
    [
        (deployment(V2, replicas=0), FREE, "the Deployment has no pods"),
        (deployment(V2), msgspec.structs.replace(FREE, active=()), "the Deployment has no active ReplicaSet"),
        (deployment(V2), msgspec.structs.replace(FREE, live_revision=""), "the Deployment has no active ReplicaSet"),
        (
            deployment(V2),
            msgspec.structs.replace(FREE, active=("a", "b")),
            "an earlier update is not complete (2 versions are active)",
        ),
    ],
)
def test_a_deployment_that_cannot_be_held_rolls_natively_with_a_warning(
    new: JsonObject, context: AdmissionContext, reason: str
) -> None:
    decision = admit_deployment(new, deployment(), context)
    assert decision.document == new
    assert decision.warnings == (f"ReleaseNotControlled: {reason}; the template is rolled out natively, without steps",)


@pytest.mark.parametrize(("image", "refused"), [(V1, False), (V3, True)])
def test_the_promotion_of_a_deployment_can_be_taken_back_but_not_redirected(image: str, refused: bool) -> None:
    active = tuple(deployment_hold.revision_of(deployment(one)["spec"]["template"]) for one in (V1, V2))
    context = msgspec.structs.replace(PROMOTING, active=active)
    decision = admit_deployment(deployment(image), deployment(V2), context)
    assert bool(decision.refusal) is refused


def test_a_finished_promotion_does_not_refuse_the_next_version() -> None:
    decision = admit_deployment(deployment(V3), deployment(V2), PROMOTING)
    assert decision.refusal == ""


@given(
    image=st.sampled_from([V1, V2, V3]),
    replicas=st.integers(0, 4),
    revision=st.sampled_from(["", "rev-1"]),
    name=st.sampled_from(["", "1"]),
)
def test_a_set_never_has_a_new_template_without_a_hold_or_a_word_about_it(
    image: str, replicas: int, revision: str, name: str
) -> None:
    new, old = a_set(image, replicas=replicas), a_set(replicas=replicas)
    if name:
        new = identified(new, name)
    decision = admit_group_set(new, old, msgspec.structs.replace(FREE, live_revision=revision))
    changed = image != V1
    assert (is_held(decision.document["spec"]) or bool(decision.warnings)) or not changed
