"""What is done for one pod, and for the workers of one leader."""

import pytest

from kohort.groups.pod_plan import (
    CompleteGroup,
    CreateWorkers,
    DoNothing,
    GroupPodObservation,
    PodAction,
    ReplacePod,
    ReportMissingStartOrdinals,
    ReportNameTaken,
    Wait,
    WorkersAction,
    WorkersObservation,
    plan_pod,
    plan_workers,
)
from kohort.groups.restart_decision import (
    DelayRecreation,
    GroupBeingRecreated,
    KeepGroup,
    KeepReason,
    RecreateGroup,
    RestartCause,
)

HEALTHY = KeepGroup(KeepReason.POD_HEALTHY)
FAILED = RecreateGroup(RestartCause.POD_RESTARTED)


@pytest.mark.parametrize(
    ("observed", "action"),
    [
        pytest.param(GroupPodObservation(missed_webhook=True), ReplacePod(), id="missed webhook"),
        pytest.param(
            GroupPodObservation(missed_webhook=True, replacement_delay=7.0), Wait(7.0), id="replaced recently"
        ),
        pytest.param(GroupPodObservation(missed_webhook=True, deleting=True), DoNothing(), id="replacement under way"),
        pytest.param(GroupPodObservation(), DoNothing(), id="no place in a group"),
        pytest.param(GroupPodObservation(restart=FAILED), FAILED, id="worker failed"),
        pytest.param(GroupPodObservation(restart=FAILED, leader=True), FAILED, id="leader failed"),
        pytest.param(GroupPodObservation(restart=DelayRecreation(3.0, 1)), DelayRecreation(3.0, 1), id="failed again"),
        pytest.param(
            GroupPodObservation(restart=GroupBeingRecreated(), leader=True), DoNothing(), id="being recreated"
        ),
        pytest.param(GroupPodObservation(restart=HEALTHY), DoNothing(), id="healthy worker"),
        pytest.param(GroupPodObservation(restart=HEALTHY, leader=True), CompleteGroup(), id="healthy leader"),
        pytest.param(
            GroupPodObservation(restart=HEALTHY, leader=True, deleting=True), DoNothing(), id="leader leaving"
        ),
        pytest.param(
            GroupPodObservation(restart=HEALTHY, leader=True, carries_leader_name=True),
            ReportMissingStartOrdinals(),
            id="worker with the ordinal of a leader",
        ),
    ],
)
def test_the_action_for_a_pod(observed: GroupPodObservation, action: PodAction) -> None:
    assert plan_pod(observed) == action


@pytest.mark.parametrize(
    ("observed", "action"),
    [
        pytest.param(WorkersObservation(1), DoNothing(), id="leader alone"),
        pytest.param(WorkersObservation(2), CreateWorkers(), id="no workers yet"),
        pytest.param(WorkersObservation(2, start_after_leader=True), DoNothing(), id="leader not ready"),
        pytest.param(WorkersObservation(2, start_after_leader=True, leader_ready=True), CreateWorkers(), id="ready"),
        pytest.param(WorkersObservation(2, exists=True, owned_by_pod=True), DoNothing(), id="exists"),
        pytest.param(
            WorkersObservation(2, exists=True, owner="LeaderWorkerSet llm-0"),
            ReportNameTaken("LeaderWorkerSet llm-0"),
            id="of another set",
        ),
        pytest.param(WorkersObservation(2, exists=True), ReportNameTaken(""), id="without owner"),
        pytest.param(WorkersObservation(2, previous_workers=True), DoNothing(), id="previous workers exist"),
        pytest.param(WorkersObservation(2, by_leaders_node=True), DoNothing(), id="leader has no node"),
        pytest.param(WorkersObservation(2, by_leaders_node=True, leader_has_node=True), CreateWorkers(), id="node"),
    ],
)
def test_the_action_for_the_workers_of_a_leader(observed: WorkersObservation, action: WorkersAction) -> None:
    assert plan_workers(observed) == action
