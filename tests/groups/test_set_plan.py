"""What is done for one set, from what was observed of it."""

from collections.abc import Mapping, Sequence

import msgspec
from tests.builders import lws
from tests.inspection.scenes import group_set, leader_set, member

from kohort.groups import revisions
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.messages import RevisionNote
from kohort.groups.revisions import Revision
from kohort.groups.set_plan import (
    ApplyLeaderSet,
    CreateRevision,
    DeleteBlockingLeader,
    DeleteRevision,
    DeleteSharedService,
    DeleteSurplusClaims,
    EnsureSharedService,
    MarkRevisionServed,
    ReportStatus,
    ResizeGroups,
    RestoreRevision,
    SetAction,
    SetObservation,
    UseRevision,
    plan_revision,
    plan_set,
)
from kohort.objects.core import Pod
from kohort.rules.group_state import GroupState

IMAGE = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.image"
OLD, NEW = (group_set(lws("llm").replicas(2).size(2).but(IMAGE, image)) for image in ("model:1", "model:2"))
DONE, READY_OLD = GroupState(True, True), GroupState(True, False)
BROKEN_OLD = GroupState(False, False)


def revision(subject: LeaderWorkerSet, known: Sequence[Revision] = ()) -> Revision:
    return msgspec.convert(revisions.build(subject, known), Revision)


FIRST = revision(OLD)
SECOND = revision(NEW, [FIRST])


def test_a_new_set_gets_a_revision() -> None:
    assert plan_revision(OLD, None, []) == CreateRevision(RevisionNote.NEW_SET)
    assert plan_revision(OLD, None, [FIRST]) == UseRevision(FIRST)


def test_a_set_keeps_the_revision_that_its_leader_statefulset_names() -> None:
    assert plan_revision(OLD, leader_set(2, revision=FIRST.key), [FIRST, SECOND]) == UseRevision(FIRST)


def test_a_key_without_a_revision_is_kept() -> None:
    assert plan_revision(OLD, leader_set(2, revision="other"), []) == CreateRevision(RevisionNote.MISSING, "other")


def test_another_template_makes_a_revision() -> None:
    current = leader_set(2, revision=FIRST.key)
    assert plan_revision(NEW, current, [FIRST]) == CreateRevision(RevisionNote.UPDATED_SET)


def test_an_earlier_template_becomes_the_newest_revision_again() -> None:
    current = leader_set(2, revision=SECOND.key)
    assert plan_revision(OLD, current, [FIRST, SECOND]) == RestoreRevision(FIRST, 3)
    behind = leader_set(2, revision=FIRST.key)
    assert plan_revision(NEW, behind, [FIRST, SECOND]) == RestoreRevision(SECOND, 2)


def planned(
    states: Mapping[int, GroupState],
    subject: LeaderWorkerSet = OLD,
    *,
    leaders: Mapping[int, Pod] | None = None,
    known: Sequence[Revision] = (FIRST,),
    at: Revision = FIRST,
    partition: int = 0,
    new_revision: bool = False,
) -> list[SetAction]:
    return plan_set(
        SetObservation(
            group_set=subject,
            leader_set=leader_set(2, partition, at.key),
            leaders=leaders or {},
            revision=at,
            revisions=known,
            states=states,
            new_revision=new_revision,
        )
    )


def kinds(actions: Sequence[SetAction]) -> list[type[SetAction]]:
    return [type(action) for action in actions]


def test_a_set_that_has_just_become_ready_is_marked_before_its_status_is_written() -> None:
    assert kinds(planned({0: DONE, 1: DONE})) == [
        ApplyLeaderSet,
        ResizeGroups,
        DeleteSurplusClaims,
        MarkRevisionServed,
        EnsureSharedService,
        ReportStatus,
    ]


def test_a_set_that_starts_only_has_its_leaders_applied_and_its_status_written() -> None:
    actions = planned({})
    assert kinds(actions) == [ApplyLeaderSet, ResizeGroups, DeleteSurplusClaims, EnsureSharedService, ReportStatus]


def test_a_set_that_was_available_before_is_not_marked() -> None:
    conditions = ({"type": "Available", "status": "True"},)
    status = msgspec.structs.replace(OLD.status, conditions=conditions)
    available = msgspec.structs.replace(OLD, status=status)
    assert MarkRevisionServed not in kinds(planned({0: DONE, 1: DONE}, available))


def test_a_roll_begins_at_the_end_of_the_set() -> None:
    actions = planned({0: READY_OLD, 1: READY_OLD}, NEW, known=(FIRST, SECOND), at=SECOND, new_revision=True)
    (apply,) = [action for action in actions if isinstance(action, ApplyLeaderSet)]
    assert (apply.roll.partition, apply.roll.replicas, apply.template) == (2, 2, SECOND)


def test_a_broken_leader_that_blocks_the_roll_is_deleted() -> None:
    broken = {1: member(1, 0, ready=False, revision=FIRST.key)}
    states = {0: READY_OLD, 1: BROKEN_OLD}
    actions = planned(states, NEW, leaders=broken, known=(FIRST, SECOND), at=SECOND, partition=1)
    assert [action.pod for action in actions if isinstance(action, DeleteBlockingLeader)] == [broken[1]]
    held = planned(states, NEW, leaders=broken, known=(FIRST, SECOND), at=SECOND, partition=2, new_revision=True)
    assert DeleteBlockingLeader not in kinds(held)


def test_the_shared_service_goes_when_every_group_has_its_own() -> None:
    unique = group_set(
        lws("llm").replicas(2).size(2).but("spec.networkConfig", {"subdomainPolicy": "UniquePerReplica"})
    )
    at = revision(unique)
    assert DeleteSharedService in kinds(planned({0: DONE, 1: DONE}, unique, known=(at,), at=at))
    rolling = kinds(planned({0: READY_OLD, 1: DONE}, unique, known=(at,), at=at))
    assert DeleteSharedService not in rolling
    assert EnsureSharedService not in rolling


def test_old_revisions_are_deleted_after_the_status_is_written_and_only_when_no_group_needs_them() -> None:
    limited = group_set(
        lws("llm").replicas(2).size(2).but(IMAGE, "model:2"),
        annotations={"leaderworkerset.sigs.k8s.io/revision-history-limit": "0"},
    )
    actions = planned({0: DONE, 1: DONE}, limited, known=(FIRST, SECOND), at=SECOND)
    assert actions[-2:] == [ReportStatus(), DeleteRevision(FIRST)]
    used = {0: member(0, 0, revision=FIRST.key)}
    assert DeleteRevision not in kinds(
        planned({0: DONE, 1: DONE}, limited, leaders=used, known=(FIRST, SECOND), at=SECOND)
    )
    rolling = planned({0: READY_OLD, 1: DONE}, limited, known=(FIRST, SECOND), at=SECOND)
    assert DeleteRevision not in kinds(rolling)
