"""What the status of a set records about restarts of its groups: `status.restarts`, by the index of the group.

| record | the group, while it has the leader that the record names |
|---|---|
| exhausted | is held: its budget of restarts is used up, and it is not recreated any more |
| due | has failed, and waits for its back-off to end; then it is recreated |

Such a group is not ready, whatever its pods show: a failed container runs again soon, and a StatefulSet starts a
deleted worker again, but beside pods that have served with another one.

What is recorded counts for one template, and since the time at which a user last restarted the group: `kohort restart
NAME --group N` writes it into the annotation `kohort.dev/restarts-counted-since` of the set.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.recorded_json import read_recorded
from kohort.objects.view import View
from kohort.rules import group_labels
from kohort.rules.group_identity import parse_index
from kohort.rules.group_state import GroupState, RestartState


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


class DueRestart(View, frozen=True):
    """The group has failed, and is recreated when its back-off is over."""

    leader: str = ""
    """Uid of the leader that it has until then."""
    at: str = ""
    in_a_row: int = 0
    """How often it was recreated in a row before."""
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
    due: DueRestart | None = None


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


def due_restarts(
    status: Mapping[str, JsonObject], annotations: Mapping[str, str], leaders: Mapping[int, tuple[str, str]]
) -> dict[int, DueRestart]:
    """The groups that wait to be recreated, by index."""
    found: dict[int, DueRestart] = {}
    for group, (uid, revision) in sorted(leaders.items()):
        due = counted(status, annotations, group, revision).due
        if due is not None and due.leader == uid:
            found[group] = due
    return found


def leader_identities(leaders: Mapping[int, Pod]) -> dict[int, tuple[str, str]]:
    """Uid and revision of each leader, by index of the group."""
    return {
        index: (one.metadata.uid, one.metadata.labels.get(group_labels.REVISION, "")) for index, one in leaders.items()
    }


def with_restart_states(
    states: Mapping[int, GroupState],
    status: Mapping[str, JsonObject],
    annotations: Mapping[str, str],
    leaders: Mapping[int, tuple[str, str]],
    *,
    has_budget: bool,
) -> dict[int, GroupState]:
    """The states of groups; those that are held or wait to be recreated are not ready."""
    found = failed_groups(status, annotations, leaders, has_budget=has_budget)
    return {
        index: msgspec.structs.replace(state, ready=False, restart=found[index]) if index in found else state
        for index, state in states.items()
    }


def failed_groups(
    status: Mapping[str, JsonObject],
    annotations: Mapping[str, str],
    leaders: Mapping[int, tuple[str, str]],
    *,
    has_budget: bool,
) -> dict[int, RestartState]:
    """The groups that are held or wait to be recreated, by index."""
    if not status:
        return {}
    found = dict.fromkeys(due_restarts(status, annotations, leaders), RestartState.DUE)
    if has_budget:
        found |= dict.fromkeys(exhausted_groups(status, annotations, leaders), RestartState.HELD)
    return found


def outdated_groups(
    status: Mapping[str, JsonObject], leaders: Mapping[int, tuple[str, str]], groups: int, *, has_budget: bool
) -> list[str]:
    """Entries of a status that do not matter any more: the set has fewer groups, or the group has another template, or
    the set has no budget of restarts and the group does not wait for one."""
    identities = {str(group): identity for group, identity in leaders.items()}

    def is_known(group: str) -> bool:
        index = parse_index(group)
        return index is not None and index < groups and str(index) == group

    def is_outdated(group: str, entry: JsonObject) -> bool:
        uid, revision = identities.get(group, ("", entry.get("revision")))
        waits = has_budget or (bool(uid) and (entry.get("due") or {}).get("leader") == uid)
        return not is_known(group) or not waits or revision != entry.get("revision")

    return [group for group, entry in status.items() if is_outdated(group, entry)]


def outdated_records(
    status: Mapping[str, JsonObject], leaders: Mapping[int, tuple[str, str]]
) -> dict[str, tuple[str, ...]]:
    """By group: the records `exhausted` and `due` about an earlier leader than the one that it has."""
    found: dict[str, tuple[str, ...]] = {}
    for group, (uid, _) in leaders.items():
        entry = status.get(str(group)) or {}
        over = [name for name in ("exhausted", "due") if entry.get(name) and entry[name].get("leader") != uid]
        if over:
            found[str(group)] = tuple(over)
    return found


def counted_since(annotations: Mapping[str, str]) -> dict[str, str]:
    """When a user last restarted each group, by its index."""
    found = read_recorded(annotations.get(group_labels.RESTARTS_COUNTED_SINCE, ""), dict[str, str]) or {}
    return {group: time for group, time in found.items() if parsed(time) is not None}


def _since(restarts: GroupRestarts, since: str) -> GroupRestarts:
    moment = parsed(since)
    if moment is None:
        return restarts

    def counts(time: str) -> bool:
        found = parsed(time)
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


def age(time: str, now: datetime) -> float:
    """Seconds; a time that cannot be read is long ago."""
    moment = parsed(time)
    return (now - moment).total_seconds() if moment is not None else float("inf")


def parsed(time: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
