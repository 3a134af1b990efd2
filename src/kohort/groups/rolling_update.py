"""How far the groups of a set may roll now.

Groups are rolled by the leader StatefulSet: it replaces leaders from the highest index down to its partition, and what
a leader owns goes and comes back with it. So a roll is controlled by two numbers on that StatefulSet, its partition and
its replicas; this module computes both.

Words used here: a group is *done* when it has the wanted revision and is ready. The *tail* is the unbroken run of done
groups at the high end. `R` is the wanted number of groups, `n` the number that the StatefulSet has now (more than `R`
while surging), `S` the surge and `U` the number of groups that may be away.

The partition falls by steps. A step may reach `U + S` groups below the tail, less the surge groups that do not exist
yet. Groups that are broken already count against `U`, so a roll never takes a second healthy group for one that was
away before it began; but broken groups right below the window are rolled along for nothing, since rolling them costs no
availability. That also keeps a set from locking up when everything in it is broken.

Surge groups are given back as soon as few enough groups are unfinished. One thing is done more carefully than upstream
does it: a surge group that is ready is kept while giving it back would leave fewer than `R - U` ready groups, which
happens when groups come back in another order than they left.

A surge serves groups that are to be replaced. Where the user's partition `P` lets no group be replaced (all from `P` up
have the wanted revision, or `P ≥ R`), none is begun: a group that fails at rest is no reason for a surge, and a roll
that is held from its first moment would keep one for ever, at the old revision. A surge that a roll has begun before it
was held stays, because the groups below `P` still wait for their turn.

| R | U | S | event | partition | replicas |
|--:|--:|--:|---|--:|--:|
| 4 | 1 | 0 | template changed | 4, then 3 | 4 |
| 4 | 1 | 0 | group 3 done | 2 | 4 |
| 4 | 1 | 1 | template changed | 4, then 3 | 5 |
| 4 | 1 | 1 | groups 4, 3, 2 done | 0 | 5 |
| 4 | 1 | 1 | group 1 done: the last old group is within U | 0 | 4 |
| 4 | 0 | 1 | template changed: nothing moves before the surge is ready | 4 | 5 |
| 4 | 1 | 1 | template changed, held by P = 4: nothing may move, so there is no surge | 4 | 4 |

Everything is counted over the groups that exist: a set may ask for a million of which none exists.
"""

from enum import Enum

import msgspec

from kohort.rules.group_state import GroupsInOrder, GroupState


class LeaderSet(msgspec.Struct, frozen=True):
    """The leader StatefulSet as it is."""

    replicas: int
    partition: int
    sized_for: int
    """`replicas` annotation: the number of groups wanted when it was last written."""


class RollView(msgspec.Struct, frozen=True):
    replicas: int
    """R, the number of groups wanted."""
    partition: int
    """P, below which the user wants no group touched."""
    surge: int
    """S, resolved and at most R."""
    unavailable: int
    """U, resolved."""
    leader_set: LeaderSet | None
    groups: GroupsInOrder
    """By index, 0 to the StatefulSet's replicas less one."""
    template_changed: bool = False
    """This pass writes a new revision."""


class RollReason(Enum):
    """Which rule gave the two numbers; `messages.roll_reason` makes the text."""

    NEW_SET = "new set"
    TEMPLATE_CHANGED = "template changed"
    TEMPLATE_CHANGED_WHILE_GROWING = "template changed while growing"
    GROWING = "growing"
    AT_REST = "at rest"
    RESIZED_DURING_ROLL = "number of groups changed during the roll"
    ROLLING = "rolling"


class RollPlan(msgspec.Struct, frozen=True):
    partition: int
    replicas: int
    reason: RollReason
    held: bool = False
    """The user's partition keeps the roll from going further."""


def plan_roll(view: RollView) -> RollPlan:
    """The partition and replicas that the leader StatefulSet must get."""
    plan = _plan(view)
    if view.partition > plan.partition:
        return RollPlan(view.partition, plan.replicas, plan.reason, held=True)
    return plan


def _plan(view: RollView) -> RollPlan:
    current = view.leader_set
    if current is None:
        return RollPlan(0, view.replicas, RollReason.NEW_SET)
    if view.template_changed:
        return _begin(view, current)
    if current.replicas < view.replicas:
        return RollPlan(current.partition, view.replicas, RollReason.GROWING)
    if current.partition == 0 and current.replicas == view.replicas:
        return RollPlan(0, view.replicas, RollReason.AT_REST)
    replicas = _replicas(view, _unfinished(view))
    if current.sized_for != view.replicas:
        partition = min(current.partition, view.replicas + view.surge)
        return RollPlan(partition, replicas, RollReason.RESIZED_DURING_ROLL)
    return RollPlan(_affordable(view, _step(view, current), current.partition, replicas), replicas, RollReason.ROLLING)


def _begin(view: RollView, current: LeaderSet) -> RollPlan:
    partition = min(view.replicas, current.replicas)
    if current.replicas < view.replicas:
        partition = _affordable(view, partition, current.replicas, view.replicas)
        return RollPlan(partition, view.replicas, RollReason.TEMPLATE_CHANGED_WHILE_GROWING)
    replicas = _replicas(view, view.replicas)
    return RollPlan(_affordable(view, partition, current.replicas, replicas), replicas, RollReason.TEMPLATE_CHANGED)


def _replicas(view: RollView, unfinished: int) -> int:
    wanted = _with_surge(view, unfinished)
    return wanted if _may_replace(view) else max(view.replicas, min(wanted, _begun(view)))


def _may_replace(view: RollView) -> bool:
    """Whether some group that the user's partition leaves free has an old revision, or all have, in this very pass."""
    if view.template_changed:
        return view.partition < view.replicas
    existing = view.groups.below(view.replicas).existing
    return any(index >= view.partition and not group.updated for index, group in existing.items())


def _begun(view: RollView) -> int:
    """How many groups there are, without surge groups at the end that have the old revision and are not needed."""
    groups, count = view.groups, len(view.groups)
    ready = groups.ready
    needed = min(view.replicas - view.unavailable, ready)
    while count > view.replicas and groups[count - 1].exists and not groups[count - 1].updated:
        ready -= groups[count - 1].ready
        if ready < needed:
            break
        count -= 1
    return count


def _with_surge(view: RollView, unfinished: int) -> int:
    """Surge groups are kept while they are needed to stay within U, and given back one by one after that."""
    if unfinished > view.surge:
        return view.replicas + view.surge
    fewest = view.replicas + max(0, unfinished - view.unavailable)
    most = min(len(view.groups), view.replicas + view.surge)
    ready = [index for index, group in view.groups.existing.items() if group.ready]
    needed = min(view.replicas - view.unavailable, len(ready))
    enough = ready[needed - 1] + 1 if needed > 0 else 0
    return max(fewest, min(enough, most))


def _unfinished(view: RollView) -> int:
    return view.replicas - view.groups.below(view.replicas).done


def _step(view: RollView, current: LeaderSet) -> int:
    groups, count = view.groups, current.replicas
    reach = view.unavailable + view.surge - (view.replicas + view.surge - count)
    base = max(0, count - _tail(groups, count) - reach)
    partition = base + base - groups.below(base).ready
    highest = min(partition, count - 1)
    if highest < base or _is_taken(groups[highest]):
        return min(partition, current.partition)
    taken = [index for index, group in groups.below(highest).existing.items() if index >= base and _is_taken(group)]
    return min(max(taken, default=base - 1) + 1, current.partition)


def _is_taken(group: GroupState) -> bool:
    """Rolling it costs availability."""
    return group.ready and not group.updated


def _affordable(view: RollView, partition: int, highest: int, replicas: int) -> int:
    """The lowest partition from `partition` to `highest` that leaves enough ready groups, of `replicas` that stay.

    The window of a step is counted in groups, ready or not. When groups inside of it are away for other reasons, or
    when a new template arrives in the middle of a roll while surge groups carry the load, the count alone would take
    too many.
    """
    staying = view.groups.below(replicas)
    needed = min(view.replicas - view.unavailable, _spared(staying, highest))
    lacking = needed - _spared(staying, partition)
    if lacking <= 0 or partition >= highest:
        return partition
    taken = [index for index, group in staying.existing.items() if index >= partition and _is_taken(group)]
    return taken[lacking - 1] + 1


def _spared(groups: GroupsInOrder, partition: int) -> int:
    """Ready groups that a partition leaves alone: those below it, and those that are updated already."""
    return sum(group.ready and (index < partition or group.updated) for index, group in groups.existing.items())


def _tail(groups: GroupsInOrder, count: int) -> int:
    length = 0
    while length < count and groups[count - 1 - length].done:
        length += 1
    return length
