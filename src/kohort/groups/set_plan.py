"""What the set controller does for one set, in this order.

First the revision that the set is at (`plan_revision`), the first row that applies:

| the leader StatefulSet | revisions that exist | action |
|---|---|---|
| names a revision | it has the content of the set | UseRevision |
| names a revision | that one does not exist | CreateRevision with the same key: another key would roll every group |
| does not exist | one has the content of the set | UseRevision |
| exists | another one has the content of the set | RestoreRevision: it becomes the newest, and a roll begins |
| does not exist | none has the content of the set | CreateRevision |
| exists | none has the content of the set | CreateRevision, and a roll begins |

Then, from what is observed of its groups (`plan_set`):

| when | action |
|---|---|
| always | ApplyLeaderSet with the numbers of `rolling_update` |
| a group has failed, and waits for a new template (`early_rolls`) | RecreateFailedGroup |
| a group cannot be completed, because its revision was deleted (`early_rolls`) | RecreateIncompleteGroup |
| a broken leader keeps the roll from going on (`observed_groups`) | DeleteBlockingLeader |
| always | ResizeGroups, with what `resize` has planned for them |
| always | DeleteSurplusClaims |
| all groups are done, for the first time at this revision | MarkRevisionServed |
| the set has a disruption budget, and a ready group is rolled | NoteRolledGroups, first of all |
| the set has one, and its PodDisruptionBudget is missing or differs | WriteLeaderBudget |
| the set has none, and a PodDisruptionBudget of its own | DeleteLeaderBudget |
| groups share a Service | EnsureSharedService |
| all groups have Services of their own, and are done | DeleteSharedService |
| always | ReportStatus |
| all groups are done | DeleteRevision, for those beyond the limit |
"""

from collections.abc import Mapping, Sequence

import msgspec

from kohort.groups import revisions
from kohort.groups.caches import LeaderBudget
from kohort.groups.disruption_budget import DisruptedGroup, rolled_groups, without_evicted
from kohort.groups.early_rolls import EarlyRollView, LeaderFacts, plan_early_roll
from kohort.groups.leader_disruption_budget import is_as_wanted
from kohort.groups.leader_template_revision import revision_for_template, template_revision
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.messages import RevisionNote
from kohort.groups.observed_groups import cannot_be_completed, leaders_blocking_update, wanted_placement
from kohort.groups.resize.plan import ResizePlan
from kohort.groups.revisions import Revision
from kohort.groups.rolling_update import LeaderSet, RollPlan, RollView, plan_roll
from kohort.groups.status import Tally, is_available, tally
from kohort.kube.resources import Key
from kohort.objects.apps import GroupStatefulSet
from kohort.objects.core import Pod
from kohort.rules import group_labels
from kohort.rules.group_identity import parse_index
from kohort.rules.group_state import GroupsInOrder, GroupState, leader_is_updated, placement_of


class UseRevision(msgspec.Struct, frozen=True):
    revision: Revision


class RestoreRevision(msgspec.Struct, frozen=True):
    """A template that the set had before becomes the newest one again."""

    revision: Revision
    number: int
    """That it gets; it may have it already."""


class CreateRevision(msgspec.Struct, frozen=True):
    note: RevisionNote
    key: str = ""
    """That it must have; empty for a new one."""


RevisionAction = UseRevision | RestoreRevision | CreateRevision


def plan_revision(
    group_set: LeaderWorkerSet, leader_set: GroupStatefulSet | None, known: Sequence[Revision]
) -> RevisionAction:
    key = leader_set.metadata.labels.get(group_labels.REVISION, "") if leader_set is not None else ""
    current = revisions.by_key(known, key)
    if current is not None and revisions.same(group_set, current):
        return UseRevision(current)
    if current is None and key:
        return CreateRevision(RevisionNote.MISSING, key)
    existing = revisions.matching(group_set, known)
    if existing is None:
        return CreateRevision(RevisionNote.NEW_SET if leader_set is None else RevisionNote.UPDATED_SET)
    if leader_set is None:
        return UseRevision(existing)
    newest = max(revision.revision for revision in known)
    return RestoreRevision(existing, newest if existing.revision == newest else newest + 1)


class SetObservation(msgspec.Struct, frozen=True):
    group_set: LeaderWorkerSet
    leader_set: GroupStatefulSet | None
    leaders: Mapping[int, Pod]
    """Leader pods by the index of their group."""
    revision: Revision
    """That groups shall have."""
    revisions: Sequence[Revision]
    """All that exist."""
    states: Mapping[int, GroupState]
    new_revision: bool = False
    """The set has this revision since this reconcile."""
    resize: ResizePlan = ResizePlan()
    """What is next for groups whose resources change in place."""
    notes: Mapping[int, DisruptedGroup] = {}
    """Groups that evictions or the roll take at this moment."""
    leader_budget: LeaderBudget | None = None
    """The PodDisruptionBudget of the set's name."""

    @property
    def key(self) -> Key:
        return Key(self.group_set.metadata.namespace, self.group_set.metadata.name)

    @property
    def tally(self) -> Tally:
        return tally(self.group_set.replicas, self.group_set.partition, self.states)

    @property
    def roll_begins(self) -> bool:
        """Other placement rules are a roll too: groups that were placed by the old ones are replaced."""
        return self.new_revision or (self.leader_set is not None and self._placement_changed(self.leader_set))

    def _placement_changed(self, leader_set: GroupStatefulSet) -> bool:
        """Asked of the template of this revision only: an older one may bring annotations of its own."""
        placement = placement_of(leader_set.spec.template.metadata.annotations)
        return template_revision(leader_set) == self.revision.key and placement != wanted_placement(self.group_set)


class ApplyLeaderSet(msgspec.Struct, frozen=True):
    roll: RollPlan
    template: Revision
    """Whose template the leader StatefulSet gets (`leader_template_revision`)."""
    on_delete: bool = False
    """It shall replace no leader by itself (`early_rolls`)."""


class RecreateFailedGroup(msgspec.Struct, frozen=True):
    """Delete the leader of a failed group, so that the group is made anew with the new template."""

    pod: Pod


class RecreateIncompleteGroup(msgspec.Struct, frozen=True):
    """Delete the leader of a group that cannot be completed, so that the group is made anew with the new template."""

    pod: Pod


class DeleteBlockingLeader(msgspec.Struct, frozen=True):
    pod: Pod


class ResizeGroups(msgspec.Struct, frozen=True):
    plan: ResizePlan


class NoteRolledGroups(msgspec.Struct, frozen=True):
    """Before groups are rolled: evictions that are decided at the same moment must see it."""

    groups: tuple[int, ...]


class WriteLeaderBudget(msgspec.Struct, frozen=True):
    existing: LeaderBudget | None


class DeleteLeaderBudget(msgspec.Struct, frozen=True):
    existing: LeaderBudget


class DeleteSurplusClaims(msgspec.Struct, frozen=True):
    pass


class MarkRevisionServed(msgspec.Struct, frozen=True):
    """Before the status says that the set is available: a set that was available when the operator first saw it keeps
    its revision as it is."""


class EnsureSharedService(msgspec.Struct, frozen=True):
    pass


class DeleteSharedService(msgspec.Struct, frozen=True):
    pass


class ReportStatus(msgspec.Struct, frozen=True):
    pass


class DeleteRevision(msgspec.Struct, frozen=True):
    revision: Revision


SetAction = (
    NoteRolledGroups
    | WriteLeaderBudget
    | DeleteLeaderBudget
    | ApplyLeaderSet
    | RecreateFailedGroup
    | RecreateIncompleteGroup
    | DeleteBlockingLeader
    | ResizeGroups
    | DeleteSurplusClaims
    | MarkRevisionServed
    | EnsureSharedService
    | DeleteSharedService
    | ReportStatus
    | DeleteRevision
)


def plan_set(observed: SetObservation) -> list[SetAction]:
    group_set, finished = observed.group_set, observed.tally.finished
    roll = plan_roll(roll_view(observed))
    template = revision_for_template(
        group_set, observed.leader_set, observed.revision, observed.revisions, roll.replicas
    )
    early = plan_early_roll(early_roll_view(observed, roll))
    actions: list[SetAction] = [*([] if early.on_delete else _notes(observed, roll))]
    actions += [ApplyLeaderSet(roll, template, early.on_delete), *_leader_budget(observed)]
    actions += [RecreateFailedGroup(observed.leaders[index]) for index in early.failed]
    actions += [RecreateIncompleteGroup(observed.leaders[index]) for index in early.incomplete]
    blocking = leaders_blocking_update(observed.leaders, group_set, observed.revision.key, roll.partition)
    actions += [DeleteBlockingLeader(pod) for pod in blocking]
    actions.append(ResizeGroups(observed.resize))
    actions.append(DeleteSurplusClaims())
    if observed.tally.serves_everywhere and _served_first_time(observed):
        actions.append(MarkRevisionServed())
    if group_set.subdomain_policy == group_labels.SHARED:
        actions.append(EnsureSharedService())
    elif finished:
        actions.append(DeleteSharedService())
    actions.append(ReportStatus())
    if finished:
        actions += [DeleteRevision(revision) for revision in _surplus_revisions(observed)]
    return actions


def _notes(observed: SetObservation, roll: RollPlan) -> list[SetAction]:
    if observed.group_set.disruption_budget is None or observed.leader_set is None:
        return []
    states = observed.states
    if observed.roll_begins:  # the groups that exist have the revision that is left
        states = {index: GroupState(state.ready, updated=False) for index, state in states.items()}
        before = observed.leader_set.spec.replicas
    else:
        before = observed.leader_set.partition
    taken = [index for index in rolled_groups(states, before, roll.partition) if index not in observed.notes]
    return [NoteRolledGroups(tuple(taken))] if taken else []


def _leader_budget(observed: SetObservation) -> list[SetAction]:
    group_set, existing = observed.group_set, observed.leader_budget
    if group_set.disruption_budget is None:
        return [DeleteLeaderBudget(existing)] if existing is not None and not existing.metadata.deleting else []
    return [] if existing is not None and is_as_wanted(existing, group_set) else [WriteLeaderBudget(existing)]


def roll_view(observed: SetObservation) -> RollView:
    group_set, leader_set = observed.group_set, observed.leader_set
    current = None
    if leader_set is not None:
        noted = parse_index(leader_set.metadata.annotations.get(group_labels.REPLICAS))
        sized_for = group_set.replicas if noted is None else noted
        current = LeaderSet(leader_set.spec.replicas, leader_set.partition, sized_for)
    return RollView(
        replicas=group_set.replicas,
        partition=max(group_set.partition, observed.resize.lowest_partition),
        surge=group_set.surge,
        unavailable=group_set.unavailable,
        leader_set=current,
        groups=GroupsInOrder(without_evicted(observed.states, observed.notes), current.replicas if current else 0),
        template_changed=observed.roll_begins,
    )


def early_roll_view(observed: SetObservation, roll: RollPlan) -> EarlyRollView:
    group_set, leader_set, revision = observed.group_set, observed.leader_set, observed.revision.key
    placement = wanted_placement(group_set)
    wanted = min(group_set.replicas, roll.partition)
    return EarlyRollView(
        groups=range(wanted if leader_set is not None else 0),
        states=observed.states,
        leaders={
            index: LeaderFacts(
                updated=leader_is_updated(pod, revision, placement),
                deleting=pod.metadata.deleting,
                incomplete=cannot_be_completed(pod, observed.states.get(index), revision, observed.revisions),
            )
            for index, pod in observed.leaders.items()
        },
        partition=roll_view(observed).partition,
        on_delete=leader_set is not None and leader_set.on_delete,
        observed=leader_set is not None and leader_set.observed and template_revision(leader_set) == revision,
    )


def _served_first_time(observed: SetObservation) -> bool:
    group_set = observed.group_set
    marked = group_labels.SERVED_AT in observed.revision.metadata.annotations
    return not marked and not is_available(group_set.status.conditions) and group_set.replicas > 0


def _surplus_revisions(observed: SetObservation) -> list[Revision]:
    used = {leader.metadata.labels.get(group_labels.REVISION, "") for leader in observed.leaders.values()}
    limit = revisions.history_limit(observed.group_set)
    return revisions.surplus(observed.revisions, {observed.revision.key, *used}, limit)
