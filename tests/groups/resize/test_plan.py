"""What is done next with the groups of a set: the table of the module, and what holds for any set."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.groups.resize.group_view import GroupView, PodView
from kohort.groups.resize.plan import (
    AdoptGroup,
    CheckGroup,
    MarkGroup,
    ResizePlan,
    ResizePods,
    RevertPods,
    SetView,
    WaitingPod,
    phase_after_failure,
    plan_group_resizes,
)
from kohort.groups.resize.pod_progress import PodProgress, ResizeStage
from kohort.groups.resize.record import Phase, ResizeRecord, RevertReason
from kohort.groups.resize.status import resize_message
from kohort.rules.group_state import RestartState
from kohort.rules.resource_edit import AmountChange, AmountField, InPlaceEdit, RecreateEdit, RecreateReason
from kohort.rules.resource_update_policy import ResourceUpdatePolicy

EDIT = InPlaceEdit(AmountChange({}, {}), AmountChange({}, {}))
OTHER = RecreateEdit(RecreateReason.OTHER_FIELDS)
OR_RECREATE, ONLY = ResourceUpdatePolicy.IN_PLACE_OR_RECREATE, ResourceUpdatePolicy.IN_PLACE_ONLY
NEW, OLD = "new", "old"
NOW = 1000.0


def pod(
    name: str, forward: ResizeStage, backward: ResizeStage = ResizeStage.COMPLETE, *, shrinks: bool = False
) -> PodView:
    conflict = AmountField("main", "requests", "cpu") if forward is ResizeStage.CONFLICT else None
    return PodView(name, name.endswith("-0"), shrinks, PodProgress(forward, conflict=conflict), PodProgress(backward))


def group(index: int = 0, *pods: PodView, phase: Phase | None = None, **more: object) -> GroupView:
    record = ResizeRecord(NEW, phase, NOW - 10) if phase is not None else None
    fields: dict[str, object] = {"revision": OLD, "edit": EDIT, "whole": True, "ready": True, "record": record}
    members = pods or (pod("g-0", ResizeStage.NOT_SENT), pod("g-1", ResizeStage.NOT_SENT))
    return GroupView(index=index, pods=members, **{**fields, **more})  # type: ignore[arg-type]


def view(*groups: GroupView, policy: ResourceUpdatePolicy = OR_RECREATE, concurrency: int = 1) -> SetView:
    return SetView(NEW, policy, 0, 0, concurrency, 60.0, NOW, groups)


def test_the_highest_group_begins() -> None:
    found = plan_group_resizes(view(group(0), group(1), group(2)))
    assert found.actions == (CheckGroup(2),)
    assert found.lowest_partition == 3
    assert found.state == "Preflight"


def test_no_group_begins_while_as_many_as_allowed_are_under_way() -> None:
    busy = group(2, pod("g-0", ResizeStage.ACTUATING), phase=Phase.RESIZING)
    assert plan_group_resizes(view(group(1), busy)).actions == ()
    assert plan_group_resizes(view(group(1), busy, concurrency=2)).actions == (CheckGroup(1),)


def restarting(index: int, **more: object) -> GroupView:
    pods = (
        msgspec.structs.replace(pod("g-0", ResizeStage.NOT_SENT), restarts=True),
        pod("g-1", ResizeStage.NOT_SENT),
    )
    return group(index, *pods, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (group(2, revision=NEW, edit=None, ready=False), True),
        (group(2, revision=NEW, edit=None, ready=True), False),
        (group(2, revision=NEW, edit=None, ready=False, unplaced=True), False),
        (group(2, phase=Phase.RECREATE), True),
        (group(0, phase=Phase.RECREATE, ready=False), False),
        (group(0, ready=False), False),
    ],
    ids=[
        "new and not ready",
        "new and ready",
        "new without a node",
        "to recreate",
        "out of reach",
        "old and not ready",
    ],
)
def test_other_groups_that_are_not_known_to_serve_count(other: GroupView, counts: bool) -> None:
    found = plan_group_resizes(view(group(1), other))
    assert (CheckGroup(1) in found.actions) is not counts
    assert found.waits_for_groups == ((other.index,) if counts else ())


def test_a_group_without_a_leader_counts() -> None:
    whole = msgspec.structs.replace(view(group(0), group(1)), replicas=3)
    assert plan_group_resizes(whole).actions == ()
    assert plan_group_resizes(msgspec.structs.replace(whole, concurrency=2)).actions == (CheckGroup(1),)


def test_containers_restart_only_while_the_other_groups_are_ready() -> None:
    away = group(0, ready=False)
    assert plan_group_resizes(view(restarting(1), away)).actions == ()
    assert plan_group_resizes(view(restarting(1), away, concurrency=2)).actions == (CheckGroup(1),)
    broken = restarting(1, ready=False, broken=True)
    only = plan_group_resizes(view(broken, away, policy=ResourceUpdatePolicy.IN_PLACE_ONLY))
    assert only.actions == (CheckGroup(1),), "a group that does not serve has nothing to lose"


def test_a_set_whose_groups_all_have_amounts_of_others_has_stopped() -> None:
    foreign = group(1, pod("g-0", ResizeStage.CONFLICT))
    assert plan_group_resizes(view(group(0), foreign)).state == "Preflight"
    assert plan_group_resizes(view(foreign)).state == "Stopped"


@pytest.mark.parametrize("policy", list(ResourceUpdatePolicy))
def test_no_group_is_deleted_whose_pods_would_not_be_admitted_again(policy: ResourceUpdatePolicy) -> None:
    assert phase_after_failure(policy, RevertReason.NOT_ADMITTED) is Phase.REVERTED


def test_a_group_that_its_quota_stopped_midway_begins_again() -> None:
    record = ResizeRecord(NEW, Phase.REVERTING, NOW - 10, RevertReason.QUOTA_EXCEEDED)
    back = group(0, pod("g-0", ResizeStage.NOT_SENT, ResizeStage.COMPLETE), record=record)
    assert plan_group_resizes(view(back)).actions == (MarkGroup(0, None),)


def test_groups_below_the_partition_are_left_alone() -> None:
    held = SetView(NEW, OR_RECREATE, 2, 2, 1, 60.0, NOW, (group(0), group(1)))
    found = plan_group_resizes(held)
    assert (found.actions, found.lowest_partition, found.state) == ((), 0, "")


def test_what_shrinks_goes_first_and_the_leader_is_the_first_to_shrink() -> None:
    pods = (pod("g-1", ResizeStage.NOT_SENT, shrinks=True), pod("g-0", ResizeStage.NOT_SENT, shrinks=True))
    growing = pod("g-2", ResizeStage.NOT_SENT)
    found = plan_group_resizes(view(group(0, *pods, growing, phase=Phase.RESIZING)))
    assert found.actions == (ResizePods(0, ("g-0", "g-1")),)


def test_growth_waits_for_what_shrinks() -> None:
    shrinking = pod("g-0", ResizeStage.ACTUATING, shrinks=True)
    found = plan_group_resizes(view(group(0, shrinking, pod("g-1", ResizeStage.NOT_SENT), phase=Phase.RESIZING)))
    assert found.actions == ()


def test_the_leader_is_the_last_to_grow() -> None:
    found = plan_group_resizes(view(group(phase=Phase.RESIZING)))
    assert found.actions == (ResizePods(0, ("g-1", "g-0")),)


def test_a_group_that_is_through_is_adopted_when_it_is_ready() -> None:
    done = (pod("g-0", ResizeStage.COMPLETE), pod("g-1", ResizeStage.COMPLETE))
    assert plan_group_resizes(view(group(0, *done, phase=Phase.RESIZING))).actions == (AdoptGroup(0),)
    assert plan_group_resizes(view(group(0, *done, phase=Phase.RESIZING, ready=False))).actions == ()


def test_an_infeasible_pod_reverts_its_group() -> None:
    found = plan_group_resizes(view(group(0, pod("g-0", ResizeStage.INFEASIBLE), phase=Phase.RESIZING)))
    (mark,) = found.actions
    assert isinstance(mark, MarkGroup) and mark.record is not None
    assert (mark.record.phase, mark.record.reason) == (Phase.REVERTING, RevertReason.INFEASIBLE)


def test_a_deferred_pod_is_waited_for_until_the_deadline() -> None:
    deferred = pod("g-0", ResizeStage.DEFERRED)
    waiting = plan_group_resizes(view(group(0, deferred, phase=Phase.RESIZING)))
    assert waiting.actions == ()
    assert waiting.look_again_after == 5.0, "to say every 15 s how long it has been"
    late = group(0, deferred, record=ResizeRecord(NEW, Phase.RESIZING, NOW - 61))
    (mark,) = plan_group_resizes(view(late)).actions
    assert isinstance(mark, MarkGroup) and mark.record is not None
    assert mark.record.reason is RevertReason.DEADLINE_EXCEEDED


@pytest.mark.parametrize(
    ("waited", "said", "again"), [(0, 0, 15), (40, 30, 5), (299, 285, 1), (330, 300, 30), (4000, 3600, 200)]
)
def test_the_longer_a_pod_is_waited_for_the_less_often_that_is_written(waited: int, said: int, again: int) -> None:
    record = ResizeRecord(NEW, Phase.RESIZING, NOW - waited)
    late = view(group(0, pod("g-0", ResizeStage.DEFERRED), record=record))
    found = plan_group_resizes(msgspec.structs.replace(late, deadline_seconds=86_400.0))
    assert found.waiting is not None
    assert (found.waiting.reported_seconds, found.look_again_after) == (said, again)
    assert f"since {said} s, until 86400 s" in resize_message(found, None, 86_400.0)


def test_a_group_is_reverted_pod_by_pod() -> None:
    pods = (
        pod("g-0", ResizeStage.COMPLETE, ResizeStage.NOT_SENT),
        pod("g-1", ResizeStage.NOT_SENT, ResizeStage.COMPLETE),
    )
    assert plan_group_resizes(view(group(0, *pods, phase=Phase.REVERTING))).actions == (RevertPods(0, ("g-0",)),)


def reverted(policy: ResourceUpdatePolicy, reason: RevertReason) -> Phase | None:
    back = pod("g-0", ResizeStage.NOT_SENT, ResizeStage.COMPLETE)
    record = ResizeRecord(NEW, Phase.REVERTING, NOW, reason)
    (mark,) = plan_group_resizes(view(group(0, back, record=record), policy=policy)).actions
    assert isinstance(mark, MarkGroup)
    return None if mark.record is None else mark.record.phase


def test_what_becomes_of_a_group_that_was_reverted() -> None:
    assert reverted(OR_RECREATE, RevertReason.INFEASIBLE) is Phase.RECREATE
    assert reverted(ONLY, RevertReason.INFEASIBLE) is Phase.REVERTED
    assert reverted(OR_RECREATE, RevertReason.CONFLICT) is Phase.REVERTED
    assert reverted(OR_RECREATE, RevertReason.SUPERSEDED) is None


def test_a_group_that_is_recreated_is_left_to_the_roll() -> None:
    found = plan_group_resizes(view(group(1, phase=Phase.RECREATE), group(0)))
    assert (found.lowest_partition, found.actions, found.state) == (1, (), "Resizing")
    both = plan_group_resizes(view(group(1, phase=Phase.RECREATE), group(0), concurrency=2))
    assert both.actions == (CheckGroup(0),)
    assert found.counts.recreated == 1


def test_after_a_stop_no_group_begins() -> None:
    found = plan_group_resizes(view(group(1, phase=Phase.REVERTED), group(0), policy=ONLY))
    assert found.actions == ()
    assert (found.state, found.lowest_partition) == ("Stopped", 2)


def test_another_revision_reverts_a_group_under_way() -> None:
    record = ResizeRecord("earlier", Phase.RESIZING, NOW)
    (mark,) = plan_group_resizes(view(group(0, record=record))).actions
    assert isinstance(mark, MarkGroup) and mark.record is not None
    assert (mark.record.phase, mark.record.reason) == (Phase.REVERTING, RevertReason.SUPERSEDED)


def test_a_record_about_an_earlier_revision_is_removed() -> None:
    record = ResizeRecord("earlier", Phase.REVERTED, NOW)
    assert plan_group_resizes(view(group(0, record=record))).actions == (MarkGroup(0, None),)


def test_a_group_whose_record_is_removed_comes_before_groups_of_a_lower_index() -> None:
    earlier = group(1, record=ResizeRecord("earlier", Phase.REVERTED, NOW))
    assert plan_group_resizes(view(group(0), earlier)).actions == (MarkGroup(1, None),)
    assert plan_group_resizes(view(group(0), group(1))).actions == (CheckGroup(1),)


@pytest.mark.parametrize("policy", [OR_RECREATE, ONLY])
def test_a_group_that_stopped_for_amounts_of_others_is_tried_again_when_they_are_gone(
    policy: ResourceUpdatePolicy,
) -> None:
    record = ResizeRecord(NEW, Phase.REVERTED, NOW, RevertReason.CONFLICT)
    changed = group(0, pod("g-1", ResizeStage.CONFLICT), record=record)
    assert plan_group_resizes(view(changed, policy=policy)).actions == ()
    back = group(0, pod("g-1", ResizeStage.NOT_SENT), record=record)
    assert plan_group_resizes(view(back, policy=policy)).actions == (MarkGroup(0, None),)


def test_a_broken_group_is_recreated_for_nothing() -> None:
    (mark,) = plan_group_resizes(view(group(0, ready=False, broken=True))).actions
    assert isinstance(mark, MarkGroup) and mark.record is not None
    assert mark.record.phase is Phase.RECREATE


def test_amounts_of_others_are_reported() -> None:
    found = plan_group_resizes(view(group(0, pod("g-1", ResizeStage.CONFLICT)), policy=ONLY))
    assert found.actions == ()
    assert [(one.pod, one.field) for one in found.conflicts] == [("g-1", "containers[main].resources.requests.cpu")]


def test_groups_that_need_new_pods_are_left_to_the_roll() -> None:
    found = plan_group_resizes(view(group(0, edit=OTHER)))
    assert (found.actions, found.lowest_partition) == ((), 0)


progress = st.sampled_from(list(ResizeStage))
pods = st.builds(pod, st.sampled_from(["g-0", "g-1", "g-2"]), progress, progress, shrinks=st.booleans())
records = st.none() | st.builds(
    ResizeRecord,
    st.sampled_from([NEW, "earlier"]),
    st.sampled_from(list(Phase)),
    st.floats(NOW - 200, NOW),
    st.none() | st.sampled_from(list(RevertReason)),
)


@st.composite
def sets(draw: st.DrawFn) -> SetView:
    count = draw(st.integers(0, 5))
    groups = []
    for index in range(count):
        revision = draw(st.sampled_from([OLD, NEW]))
        edit: InPlaceEdit | RecreateEdit | None = None
        if revision == OLD:
            edit = EDIT if draw(st.booleans()) else OTHER
        members = draw(st.lists(pods, min_size=1, max_size=3))
        groups.append(
            GroupView(
                index,
                revision,
                edit,
                members,
                draw(st.booleans()),
                draw(st.booleans()),
                draw(st.booleans()),
                draw(st.booleans()),
                draw(records),
            )
        )
    policy = draw(st.sampled_from(list(ResourceUpdatePolicy)))
    return SetView(
        NEW, policy, draw(st.integers(0, 5)), draw(st.integers(0, 5)), draw(st.integers(1, 3)), 60.0, NOW, groups
    )


@given(sets())
def test_for_any_set(one: SetView) -> None:
    found = plan_group_resizes(one)
    groups = {group.index: group for group in one.groups}
    under_way = [
        group
        for group in one.groups
        if group.index >= one.partition
        and group.record is not None
        and group.record.phase in (Phase.RESIZING, Phase.REVERTING)
    ]
    begun = [action for action in found.actions if isinstance(action, CheckGroup)]
    assert not begun or len(begun) + len(under_way) <= one.concurrency
    for action in found.actions:
        group = groups[action.index]
        assert action.index >= one.partition
        if isinstance(action, CheckGroup | ResizePods | AdoptGroup):
            assert one.policy is not ResourceUpdatePolicy.RECREATE
            assert found.lowest_partition > action.index, "the roll must not reach a group under way"
        if isinstance(action, AdoptGroup):
            assert group.ready and group.whole
            assert all(pod.forward.progress is ResizeStage.COMPLETE for pod in group.pods)
        if isinstance(action, ResizePods):
            chosen = [pod for pod in group.pods if pod.name in action.pods]
            assert chosen and not any(pod.forward.progress is ResizeStage.INFEASIBLE for pod in group.pods)
    assert len({action.index for action in found.actions}) == len(found.actions), "one action per group and pass"


@pytest.mark.parametrize("policy", [OR_RECREATE, ONLY])
@pytest.mark.parametrize("restart", list(RestartState))
def test_a_group_that_has_failed_is_recreated_with_the_new_resources(
    policy: ResourceUpdatePolicy, restart: RestartState
) -> None:
    failed = group(0, ready=False, broken=True, restart=restart)
    (mark,) = plan_group_resizes(view(failed, policy=policy)).actions
    assert isinstance(mark, MarkGroup) and mark.record is not None and mark.record.phase is Phase.RECREATE
    marked = msgspec.structs.replace(failed, record=mark.record)
    then = plan_group_resizes(view(marked, policy=policy))
    assert (then.actions, then.lowest_partition) == ((), 0), "the roll may reach it"


@pytest.mark.parametrize("policy", [OR_RECREATE, ONLY])
def test_a_group_that_is_held_midway_is_not_adopted(policy: ResourceUpdatePolicy) -> None:
    record = ResizeRecord(NEW, Phase.RESIZING, NOW - 10)
    done = group(0, pod("g-0", ResizeStage.COMPLETE), ready=False, broken=True, record=record)
    held, due = (msgspec.structs.replace(done, restart=one) for one in (RestartState.HELD, RestartState.DUE))
    recreate = MarkGroup(0, ResizeRecord(NEW, Phase.RECREATE, NOW - 10))
    assert plan_group_resizes(view(held, policy=policy)).actions == (recreate,)
    assert plan_group_resizes(view(due, policy=policy)).actions == (), "it returns at its former size, and begins again"


def test_surge_groups_are_not_among_those_wanted() -> None:
    done = [group(index, revision=NEW, edit=None) for index in range(4)]
    found = plan_group_resizes(msgspec.structs.replace(view(*done), replicas=3)).counts
    assert (found.adopted, found.wanted) == (3, 3)


def test_a_pod_that_is_infeasible_is_not_waited_for() -> None:
    waiting = WaitingPod(0, "llm-0", ResizeStage.INFEASIBLE, "node-0", "too large", 1.0)
    assert resize_message(ResizePlan(waiting=waiting), None, 420.0) == (
        "group 0: llm-0 is infeasible on node node-0: too large"
    )
