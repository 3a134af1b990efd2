"""How often, and how soon after each other, a group is recreated: `spec.leaderWorkerTemplate.restartBudget`.

Every restart of a group is recorded in the status of its set before the group is deleted (`GroupRestarts`), so an
operator that starts anew goes on with what is written there.

| the group | decision |
|---|---|
| is held: its budget was used up while it had this leader | Held |
| has a restart recorded for this very leader, which was not carried out yet | Restart, not counted again |
| was restarted `maxRestarts` times within the last `windowSeconds` | Exhausted |
| was restarted, and the delay since then is not over | Delay |
| any other | Restart |

The first restart is not delayed. After n restarts in a row the delay is `backoffSeconds * 2^(n-1)`, at most
`maxBackoffSeconds`; twice that maximum without a restart sets n to 0.

What counts is forgotten when the template changes (the leader then has another revision), and when a user restarts the
group: `kohort restart NAME --group N` writes the time into the annotation `kohort.dev/restarts-counted-since` of the
set.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from kohort.objects.json_types import JsonObject
from kohort.objects.view import View
from kohort.rules import group_labels
from kohort.rules.restart_backoff import pause_after

LONGEST_HISTORY: Final = 100
"""Restarts of a group that are remembered; `maxRestarts` may not be larger."""


LONGEST_DELAY_TOO_SHORT: Final = "must not be less than backoffSeconds"


class RestartBudget(View, frozen=True):
    max_restarts: int | None = None
    window_seconds: int = 3600
    backoff_seconds: int = 10
    max_backoff_seconds: int = 300
    node_loss_seconds: int = 60
    force_delete_on_node_loss: bool = False


class FailedContainer(View, frozen=True):
    """Which container of which pod made a group fail."""

    pod: str = ""
    container: str = ""
    exit_code: int | None = None
    reason: str = ""


class Exhaustion(View, frozen=True):
    """The group is held: it is not recreated any more."""

    leader: str = ""
    """Uid of the leader that it had then, and still has."""
    at: str = ""
    restarts: int = 0
    """Within the window."""
    failed: FailedContainer = FailedContainer()


class GroupRestarts(View, frozen=True):
    """What the status of a set says about the restarts of one group."""

    revision: str = ""
    leader: str = ""
    """Uid of the leader that was deleted last to restart the group."""
    in_a_row: int = 0
    last: str = ""
    times: tuple[str, ...] = ()
    """The newest first."""
    exhausted: Exhaustion | None = None


class Held(msgspec.Struct, frozen=True):
    pass


class Restart(msgspec.Struct, frozen=True):
    restarts: GroupRestarts
    """To be recorded first."""


class Exhausted(msgspec.Struct, frozen=True):
    restarts: int
    """Within the window."""


class Delay(msgspec.Struct, frozen=True):
    seconds: float
    in_a_row: int


BudgetDecision = Held | Restart | Exhausted | Delay


def decide(budget: RestartBudget, restarts: GroupRestarts, leader: str, revision: str, now: datetime) -> BudgetDecision:
    """What a failure of the group with this leader leads to; `restarts` are those that count (`counted`)."""
    if is_held(restarts, leader):
        return Held()
    if restarts.leader == leader:
        return Restart(restarts)
    recent = [time for time in restarts.times if _age(time, now) < budget.window_seconds]
    if budget.max_restarts is not None and len(recent) >= budget.max_restarts:
        return Exhausted(len(recent))
    in_a_row = _in_a_row(budget, restarts, now)
    pause = pause_after(in_a_row, budget.backoff_seconds, budget.max_backoff_seconds)
    left = pause - _age(restarts.last, now) if restarts.last else 0.0
    if left > 0:
        return Delay(left, in_a_row)
    text = _text(now)
    times = (text, *restarts.times)[:LONGEST_HISTORY]
    return Restart(GroupRestarts(revision, leader, in_a_row + 1, text, times))


def spend_at_once(
    budget: RestartBudget, restarts: GroupRestarts, leader: str, revision: str, now: datetime
) -> BudgetDecision:
    """As `decide`, for a group that cannot wait: the pod that is the reason will not exist any more after a delay."""
    decision = decide(budget, restarts, leader, revision, now)
    if not isinstance(decision, Delay):
        return decision
    without_delay = msgspec.structs.replace(budget, backoff_seconds=0)
    again = decide(without_delay, restarts, leader, revision, now)
    if isinstance(again, Restart):
        return Restart(msgspec.structs.replace(again.restarts, in_a_row=decision.in_a_row + 1))
    return again


def exhausted_by(
    restarts: GroupRestarts, found: Exhausted, failed: FailedContainer, leader: str, revision: str, now: datetime
) -> GroupRestarts:
    """What is recorded when the budget of a group is used up."""
    exhaustion = Exhaustion(leader, _text(now), found.restarts, failed)
    return msgspec.structs.replace(restarts, revision=revision, exhausted=exhaustion)


def is_held(restarts: GroupRestarts, leader: str) -> bool:
    return restarts.exhausted is not None and restarts.exhausted.leader == leader


def counted(
    status: Mapping[str, JsonObject], annotations: Mapping[str, str], group: int, revision: str
) -> "GroupRestarts":
    """The restarts of a group that count: those of its present template, since a user last restarted it."""
    raw = status.get(str(group))
    try:
        restarts = msgspec.convert(raw, GroupRestarts) if raw is not None else GroupRestarts()
    except msgspec.ValidationError:
        return GroupRestarts()
    if restarts.revision and restarts.revision != revision:
        return GroupRestarts()
    since = counted_since(annotations).get(str(group))
    return restarts if since is None else _since(restarts, since)


def exhausted_groups(
    status: Mapping[str, JsonObject], annotations: Mapping[str, str], leaders: Mapping[int, tuple[str, str]]
) -> dict[int, Exhaustion]:
    """The groups that are held, by index. `leaders` has uid and revision of each leader that exists."""
    found: dict[int, Exhaustion] = {}
    for group, (uid, revision) in sorted(leaders.items()):
        restarts = counted(status, annotations, group, revision)
        if restarts.exhausted is not None and is_held(restarts, uid):
            found[group] = restarts.exhausted
    return found


def outdated_groups(
    status: Mapping[str, JsonObject], leaders: Mapping[int, tuple[str, str]], groups: int, *, has_budget: bool
) -> list[str]:
    """Entries of a status that do not matter any more: the set has no budget, or fewer groups, or the group has another
    template."""
    revisions = {str(group): revision for group, (_, revision) in leaders.items()}
    known = {str(group) for group in range(groups)} if has_budget else set()
    return [
        group
        for group, entry in status.items()
        if group not in known or revisions.get(group, entry.get("revision")) != entry.get("revision")
    ]


def counted_since(annotations: Mapping[str, str]) -> dict[str, str]:
    """When a user last restarted each group, by its index."""
    text = annotations.get(group_labels.RESTARTS_COUNTED_SINCE, "")
    try:
        found = msgspec.json.decode(text or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        return {}
    return {group: time for group, time in found.items() if _parsed(time) is not None}


def _since(restarts: GroupRestarts, since: str) -> GroupRestarts:
    moment = _parsed(since)
    if moment is None:
        return restarts

    def counts(time: str) -> bool:
        found = _parsed(time)
        return found is not None and found > moment

    held = restarts.exhausted
    return msgspec.structs.replace(
        restarts,
        leader=restarts.leader if counts(restarts.last) else "",
        in_a_row=restarts.in_a_row if counts(restarts.last) else 0,
        last=restarts.last if counts(restarts.last) else "",
        times=tuple(time for time in restarts.times if counts(time)),
        exhausted=held if held is not None and counts(held.at) else None,
    )


def _in_a_row(budget: RestartBudget, restarts: GroupRestarts, now: datetime) -> int:
    reset_after = 2 * budget.max_backoff_seconds
    return restarts.in_a_row if restarts.last and _age(restarts.last, now) <= reset_after else 0


def _age(time: str, now: datetime) -> float:
    """Seconds; a time that cannot be read is long ago."""
    moment = _parsed(time)
    return (now - moment).total_seconds() if moment is not None else float("inf")


def _parsed(time: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
