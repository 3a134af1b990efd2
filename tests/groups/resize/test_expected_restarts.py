"""Which restarts are noted on a pod as the effect of a resize."""

import msgspec
import pytest

from kohort.groups.resize.expected_restarts import ResizesByOthers, notes_after_resize, notes_for_missed_resizes
from kohort.groups.restart_counts import expected_restarts, restart_count
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.objects.quantity import Quantity
from kohort.rules import group_labels
from kohort.rules.resource_edit import AmountField


def pod(
    cpu: str,
    *,
    generation: int = 1,
    observed: int = 0,
    restarts: int = 0,
    policy: str = "RestartContainer",
    noted: str = "",
) -> Pod:
    found = document(cpu, generation, restarts, policy, noted)
    found["status"]["observedGeneration"] = observed or generation
    return msgspec.convert(found, Pod)


def document(cpu: str, generation: int, restarts: int, policy: str, noted: str) -> JsonObject:
    container = {
        "name": "main",
        "resources": {"requests": {"cpu": cpu}},
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": policy}],
    }
    annotations = {group_labels.EXPECTED_RESTARTS: noted} if noted else {}
    return {
        "metadata": {"name": "m-0", "uid": "u", "generation": generation, "annotations": annotations},
        "spec": {"containers": [container]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "restartCount": restarts}]},
    }


@pytest.mark.parametrize(
    ("before", "cpu", "notes"),
    [
        (pod("1"), "2", {"main": 1}),
        (pod("1", restarts=3), "2", {"main": 4}),
        (pod("1"), "1000m", {}),
        (pod("1", policy="NotRequired"), "2", {}),
        (pod("1", noted='{"main":1}'), "2", {}),
        (pod("1", noted='{"main":1}', restarts=1), "2", {"main": 2}),
        (pod("1", noted="nonsense"), "2", {"main": 1}),
    ],
    ids=["first", "restarted before", "same amount", "no restart", "noted already", "noted and over", "unreadable"],
)
def test_notes(before: Pod, cpu: str, notes: dict[str, int]) -> None:
    assert (
        notes_after_resize(before, pod(cpu, policy=before.spec.all_containers[0].resize_policy[0].restart_policy).spec)
        == notes
    )


CPU = AmountField("main", "requests", "cpu")


@pytest.mark.parametrize(
    ("found", "notes"),
    [
        (pod("2", generation=2, restarts=1), {"main": 1}),
        (pod("2", generation=3, restarts=2), {"main": 2}),
        (pod("2", generation=3, restarts=1), {"main": 1}),
        (pod("2", generation=2, restarts=2), {"main": 1}),
        (pod("2", generation=2, restarts=1, noted='{"main":1}'), {}),
        (pod("2", generation=2, observed=1), {"main": 1}),
        (pod("2", generation=3, restarts=1, observed=2), {"main": 2}),
        (pod("2", generation=2, restarts=1, policy="NotRequired"), {}),
        (pod("1", generation=3, restarts=1), {}),
        (pod("2", generation=1, restarts=1), {}),
    ],
    ids=[
        "one resize",
        "two resizes",
        "two resizes, one restart",
        "a crash too",
        "noted already",
        "not seen by its node",
        "one carried out, one not",
        "no restart asked for",
        "as its template",
        "never resized",
    ],
)
def test_notes_for_resizes_that_were_missed(found: Pod, notes: dict[str, int]) -> None:
    assert notes_for_missed_resizes(found, {CPU: Quantity.parse("1")}) == notes


def test_a_template_may_state_amounts_for_containers_that_the_pod_does_not_have() -> None:
    stated = {CPU: Quantity.parse("1"), AmountField("gone", "limits", "cpu"): Quantity.parse("1")}
    assert notes_for_missed_resizes(pod("2", generation=2, restarts=1), stated) == {"main": 1}


def test_several_resizes_that_are_seen_at_once_explain_as_many_restarts() -> None:
    resizes = ResizesByOthers()
    resizes.saw(pod("1"), pod("3", generation=3, restarts=2))
    assert expected_restarts(resizes.noted(pod("3"))) == {"main": 2}
    resizes = ResizesByOthers()
    resizes.saw(pod("1"), pod("2", generation=2, restarts=2))
    assert expected_restarts(resizes.noted(pod("2"))) == {"main": 1}


def test_taking_back_a_resize_that_the_node_has_not_accepted_restarts_nothing() -> None:
    deferred = document("2", 2, 0, "RestartContainer", "")
    deferred["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
    deferred["status"]["containerStatuses"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert notes_after_resize(msgspec.convert(deferred, Pod), pod("1").spec) == {}
    assert notes_after_resize(msgspec.convert(deferred, Pod), pod("3").spec) == {"main": 1}


def test_a_restart_that_is_seen_before_the_note_does_not_count() -> None:
    resizes = ResizesByOthers()
    resizes.saw(pod("1"), pod("2", generation=2))
    restarted = pod("2", generation=2, restarts=1)
    resizes.saw(pod("2", generation=2), restarted)
    assert restart_count(restarted) == 1
    assert restart_count(resizes.noted(restarted)) == 0
    again = pod("2", generation=2, restarts=2)
    assert restart_count(resizes.noted(again)) == 1


def test_a_pod_that_is_gone_is_forgotten() -> None:
    resizes = ResizesByOthers()
    resizes.saw(pod("1"), pod("2", generation=2))
    resizes.saw(pod("2", generation=2), None)
    assert expected_restarts(resizes.noted(pod("2"))) == {}
