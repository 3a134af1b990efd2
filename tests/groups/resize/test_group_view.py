"""What the resize of a group depends on, read from its pods."""

from collections.abc import Sequence

import pytest
from tests.inspection.scenes import member, waiting, without_node, workers

from kohort.groups.resize.group_view import GroupView, members_of_group, view_of_group, view_of_pod
from kohort.objects.core import Pod
from kohort.rules.group_state import GroupState, RestartState
from kohort.rules.resource_edit import AmountChange

READY, NOT_READY = GroupState(ready=True, updated=False), GroupState(ready=False, updated=False)
HELD = GroupState(ready=False, updated=False, restart=RestartState.HELD)
LEADER, WORKER = member(0), member(0, 1)
CRASHING = waiting(WORKER, "CrashLoopBackOff", phase="Running")
NO_ROOM = "0/3 nodes are available"


def view(members: Sequence[Pod], state: GroupState | None = READY) -> GroupView:
    pods = [view_of_pod(pod, AmountChange({}, {}), is_leader=pod is members[0]) for pod in members]
    return view_of_group(0, members, pods, state, None, revision="abc", default_size=2)


@pytest.mark.parametrize(
    ("members", "whole"),
    [
        ([LEADER, WORKER], True),
        ([LEADER], False),
        ([member(0, size=1)], True),
        ([LEADER, member(0, 1, phase="Pending")], False),
        ([LEADER, member(0, 1, phase="Succeeded")], False),
    ],
)
def test_a_group_is_whole_when_all_its_pods_run(members: Sequence[Pod], whole: bool) -> None:
    assert view(members).whole is whole


@pytest.mark.parametrize(
    ("members", "state", "broken"),
    [
        ([LEADER, WORKER], NOT_READY, False),
        ([LEADER, CRASHING], NOT_READY, True),
        ([LEADER, CRASHING], READY, False),
        ([LEADER, without_node(WORKER, NO_ROOM)], NOT_READY, True),
        ([LEADER, without_node(WORKER)], NOT_READY, False),
        ([LEADER, WORKER], HELD, True),
        ([LEADER], None, False),
    ],
)
def test_a_group_is_broken_when_waiting_does_not_make_it_ready(
    members: Sequence[Pod], state: GroupState | None, broken: bool
) -> None:
    assert view(members, state).broken is broken


@pytest.mark.parametrize(
    ("members", "unplaced"),
    [
        ([without_node(LEADER, NO_ROOM)], True),
        ([without_node(LEADER)], False),
        ([without_node(LEADER, NO_ROOM), WORKER], False),
        ([LEADER, without_node(WORKER, NO_ROOM)], False),
    ],
)
def test_a_group_is_unplaced_when_no_pod_of_it_has_a_node(members: Sequence[Pod], unplaced: bool) -> None:
    assert view(members, NOT_READY).unplaced is unplaced


def test_what_is_recorded_of_restarts_is_kept() -> None:
    assert view([LEADER, WORKER], HELD).restart is RestartState.HELD
    assert not view([LEADER, WORKER], HELD).ready


def test_workers_of_an_earlier_leader_are_not_members() -> None:
    earlier = member(1, 1)
    assert members_of_group(LEADER, workers(0), [earlier, WORKER, LEADER]) == [LEADER, WORKER]
    assert members_of_group(LEADER, None, [WORKER, LEADER]) == [LEADER]
