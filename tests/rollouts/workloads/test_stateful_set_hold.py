"""How the webhook holds StatefulSets, and what it keeps of an edit."""

import pytest

from kohort.objects.json_types import JsonObject
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.workloads.stateful_set_hold import HELD_PODS_PARTITION, partition_for
from kohort.rollouts.workloads.update_admission import AdmissionContext, admit_stateful_set
from kohort.rules import group_labels, rollout_labels

CONTEXT = AdmissionContext(Rollout(), live_revision="web-1", tokens=frozenset({"token"}))


def document(image: str = "a:1", *, replicas: int = 5, partition: int = 0, kind: str = "RollingUpdate") -> JsonObject:
    strategy = {"type": kind, "rollingUpdate": {"partition": partition}} if kind == "RollingUpdate" else {"type": kind}
    return {
        "metadata": {"name": "web", "namespace": "default", "labels": {}, "annotations": {}},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "main", "image": image}]}},
            "updateStrategy": strategy,
        },
        "status": {"currentRevision": "web-1", "updateRevision": "web-1"},
    }


def partition(one: JsonObject) -> int:
    found: int = one["spec"]["updateStrategy"]["rollingUpdate"]["partition"]
    return found


def held(image: str = "a:2") -> JsonObject:
    return admit_stateful_set(document(image), document(), CONTEXT).document


def test_a_new_template_is_held_and_the_partition_of_the_user_is_kept() -> None:
    admitted = admit_stateful_set(document("a:2", partition=2), document(partition=2), CONTEXT).document
    assert partition(admitted) == HELD_PODS_PARTITION
    assert admitted["metadata"]["labels"][rollout_labels.STABLE_REVISION] == "web-1"
    kept = admitted["metadata"]["annotations"][rollout_labels.ORIGINAL_STATEFUL_SET_STRATEGY]
    assert kept == '{"partition":2}'


def test_a_set_whose_mark_was_emptied_is_held_as_before() -> None:
    old = held()
    old["metadata"]["annotations"][rollout_labels.IN_PROGRESSING] = ""
    assert partition(admit_stateful_set(document("a:2"), old, CONTEXT).document) == HELD_PODS_PARTITION


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (document("a:2", replicas=0), "no pods"),
        (document("a:2", kind="OnDelete"), "not RollingUpdate"),
    ],
    ids=["no replicas", "OnDelete"],
)
def test_what_cannot_be_held_is_rolled_out_natively_with_a_warning(new: JsonObject, reason: str) -> None:
    decision = admit_stateful_set(new, document(), CONTEXT)
    assert decision.document == new
    assert "ReleaseNotControlled" in decision.warnings[0] and reason in decision.warnings[0]


def test_an_edit_of_anything_but_the_template_is_not_held() -> None:
    new = document(replicas=7)
    assert admit_stateful_set(new, document(), CONTEXT).document == new


def test_sets_of_groups_pass() -> None:
    old, new = document(), document("a:2")
    old["metadata"]["labels"] = {group_labels.NAME: "llm"}
    assert admit_stateful_set(new, old, CONTEXT).document == new


def test_our_own_write_passes_without_its_token() -> None:
    ours = document("a:2", partition=3)
    ours["metadata"]["annotations"] = {rollout_labels.HOLD_RELEASE: "token"}
    admitted = admit_stateful_set(ours, document(), CONTEXT).document
    assert partition(admitted) == 3
    assert admitted["metadata"]["annotations"] == {}


def test_a_token_of_another_does_not_lift_the_hold() -> None:
    forged = document("a:2")
    forged["metadata"]["annotations"] = {rollout_labels.HOLD_RELEASE: "guess"}
    assert partition(admit_stateful_set(forged, document(), CONTEXT).document) == HELD_PODS_PARTITION


def test_a_manifest_applied_again_changes_neither_partition_nor_marks() -> None:
    stored = held()
    stored["metadata"]["annotations"] |= {rollout_labels.STEP_PARTITION: "4", rollout_labels.STEP_REPLICAS: "20%"}
    stored["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 4
    admitted = admit_stateful_set(document("a:2"), stored, CONTEXT).document
    assert partition(admitted) == 4
    assert admitted["metadata"]["annotations"].items() >= {rollout_labels.STEP_PARTITION: "4"}.items()


@pytest.mark.parametrize(("replicas", "expected"), [(10, 8), (4, 4)])
def test_a_held_set_that_is_scaled_by_an_edit_gives_no_old_pod_the_new_version(replicas: int, expected: int) -> None:
    stored = held()
    stored["metadata"]["annotations"] |= {rollout_labels.STEP_PARTITION: "4", rollout_labels.STEP_REPLICAS: "20%"}
    stored["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 4
    assert partition(admit_stateful_set(document("a:2", replicas=replicas), stored, CONTEXT).document) == expected


def test_a_third_template_waits_for_its_first_step() -> None:
    stored = held()
    stored["metadata"]["annotations"] |= {rollout_labels.STEP_PARTITION: "4", rollout_labels.STEP_REPLICAS: "20%"}
    stored["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 4
    admitted = admit_stateful_set(document("a:3"), stored, CONTEXT).document
    assert partition(admitted) == HELD_PODS_PARTITION
    assert rollout_labels.STEP_REPLICAS not in admitted["metadata"]["annotations"]


def test_no_partition_is_below_zero_and_none_lets_a_pod_go_without_a_step() -> None:
    assert [partition_for(planned, 3) for planned in range(5)] == [HELD_PODS_PARTITION, 2, 1, 0, 0]
