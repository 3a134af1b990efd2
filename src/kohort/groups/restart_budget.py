"""How often, and how soon after each other, a group is recreated: `spec.leaderWorkerTemplate.restartBudget`.

Every restart of a group is recorded in the status of its set before the group is deleted
(`rules.recorded_restarts`), so an operator that starts anew goes on with what is written there.

| the group | decision |
|---|---|
| is held: its budget was used up while it had this leader | GroupHeld |
| has a restart recorded for this very leader, which was not carried out yet | Restart, not counted again |
| was restarted `maxRestarts` times within the last `windowSeconds` | Exhausted |
| was restarted, and the delay since then is not over | Delay |
| any other | Restart |

The first restart is not delayed. After n restarts in a row the delay is `backoffSeconds * 2^(n-1)`, at most
`maxBackoffSeconds`; more than twice that maximum without a restart sets n to 0.

What counts is forgotten when the template changes (the leader then has another revision), and when a user restarts the
group.
"""

from datetime import datetime
from typing import Final

import msgspec

from kohort.objects.view import View
from kohort.rules.recorded_restarts import Exhaustion, FailedContainer, GroupRestarts, age, is_held
from kohort.rules.restart_backoff import FIRST_PAUSE, LONGEST_PAUSE, pause_after, resets_count

LONGEST_HISTORY: Final = 100
"""Restarts of a group that are remembered; `maxRestarts` may not be larger."""
LONGEST_DELAY_TOO_SHORT: Final = "must not be less than backoffSeconds"


class RestartBudget(View, frozen=True):
    max_restarts: int | None = None
    window_seconds: int = 3600
    backoff_seconds: int = int(FIRST_PAUSE)
    max_backoff_seconds: int = int(LONGEST_PAUSE)
    node_loss_seconds: int = 60
    force_delete_on_node_loss: bool = False


class GroupHeld(msgspec.Struct, frozen=True):
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


BudgetDecision = GroupHeld | Restart | Exhausted | Delay


def decide(budget: RestartBudget, restarts: GroupRestarts, leader: str, revision: str, now: datetime) -> BudgetDecision:
    """What a failure of the group with this leader leads to; `restarts` are those that count (`counted`)."""
    if is_held(restarts, leader):
        return GroupHeld()
    if restarts.leader == leader:
        return Restart(restarts)
    recent = [time for time in restarts.times if age(time, now) < budget.window_seconds]
    if budget.max_restarts is not None and len(recent) >= budget.max_restarts:
        return Exhausted(len(recent))
    in_a_row = _in_a_row(budget, restarts, now)
    pause = pause_after(in_a_row, budget.backoff_seconds, budget.max_backoff_seconds)
    left = pause - age(restarts.last, now) if restarts.last else 0.0
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
    return msgspec.structs.replace(restarts, revision=revision, exhausted=exhaustion, due=None)


def _in_a_row(budget: RestartBudget, restarts: GroupRestarts, now: datetime) -> int:
    counts = restarts.last and not resets_count(age(restarts.last, now), budget.max_backoff_seconds)
    return restarts.in_a_row if counts else 0


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
