"""Forecast of what an edit of a set would do.

The roll is simulated with the functions that the operator rolls by (`roll_simulation`), on the assumption that every
group that is made becomes ready. That shows the order of the steps, how many groups are away at the worst moment, and
how much room the surge needs.

The operator does not wait for a surge that it may do without, so the order depends on how soon surge groups are ready.
The roll is simulated twice: the steps and the groups that are ready are those of a surge that becomes ready when
nothing else can go on, the room is that of one that is ready at once.

Steps may have to wait for groups that are not ready now (`waits_for`); `awaited_groups` says what keeps these.

A set may want millions of groups of which few exist. Those that exist are simulated, and of the others as many as
`GroupWindow` says; the rest is counted, and needs room like them.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet, LeaderWorkerTemplate
from kohort.groups.pod_mutation import PodRefused
from kohort.inspection.absent_groups import MOST_ABSENT, GroupWindow
from kohort.inspection.awaited_groups import AwaitedGroup, awaited_groups
from kohort.inspection.capacity_forecast import Room, room_for, room_lines
from kohort.inspection.messages import awaited_words, listed_groups, resize_forecast_lines
from kohort.inspection.peak_demand import demand
from kohort.inspection.readable_amounts import amount_text
from kohort.inspection.resize_forecast import Preflight, ResizeForecast, resize_forecast
from kohort.inspection.roll_cost import RollCost, roll_cost
from kohort.inspection.roll_simulation import ForecastStep, SetEdit, simulate_roll
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.stored_templates import with_pod_defaults, with_stored_pods
from kohort.objects.core import Node, Pod
from kohort.objects.counted_nouns import agreeing, counted
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts.forecast_types import ReleaseForecast
from kohort.rollouts.group_set import GroupSet, rolling_configuration
from kohort.rollouts.messages import duration, time_span
from kohort.rollouts.release_forecast import forecast_release
from kohort.rollouts.workloads.group_hold import saved_strategy
from kohort.rules.group_template import canonical_template
from kohort.rules.rolling_limits import DEFAULT_ROLLING_OF_GROUPS
from kohort.rules.rollout_labels import ORIGINAL_LWS_STRATEGY


class SetChange(msgspec.Struct, frozen=True):
    path: str
    before: Json
    after: Json


class EditKind(StrEnum):
    """What an edit means for the groups of a set."""

    CREATE = "create"
    ROLL = "roll"
    RESIZE = "resize"
    SCALE = "scale"
    CONFIGURE = "configure"
    """No group is touched."""
    NOTHING = "nothing"


class Forecast(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    action: EditKind
    changes: Sequence[SetChange]
    returns_to: int
    """The number of the revision whose content this is; 0 for a new one."""
    steps: Sequence[ForecastStep]
    recreated: tuple[int, ...]
    held: tuple[int, ...]
    """Groups that keep their revision because the partition holds them."""
    pods_recreated: int
    pods_made: int
    """In their place."""
    fewest_serving: int
    extra_groups: int
    extra_pods: int
    extra_requests: Mapping[str, str]
    """What surge, more groups, or larger ones need at the worst moment on top of what the set has now."""
    resized: tuple[int, int] | None = None
    """Pods of a group before and after."""
    rollout: str = ""
    """The Rollout that would release the change."""
    rollout_steps: int = 0
    rollout_unknown: bool = False
    """The user may not list Rollouts: the steps are those without one."""
    resources: ResizeForecast | None = None
    """How each group gets the change, if it is about cpu and memory only."""
    release: ReleaseForecast | None = None
    """What that release needs, and how long it takes."""
    cost: RollCost | None = None
    """How long the roll takes, where no release does it; None if no running group shows how long one starts."""
    room: Room | None = None
    """Whether the nodes have the room; unknown if nodes could not be read."""
    awaited: Sequence[AwaitedGroup] = ()
    """The groups that steps wait for, with what keeps them from being ready."""
    left_out: int = 0
    """Wanted groups that do not exist and are in no step, because they are too many."""


def forecast(
    before: Snapshot | None,
    after: LeaderWorkerSet,
    nodes: Sequence[Node] = (),
    pods: Sequence[Pod] = (),
    stored: Mapping[str, JsonObject] | None = None,
    preflight: Preflight | None = None,
) -> Forecast:
    """`after` is the set as the server would store it, and `stored` the pods of its templates, as far as the server
    could be asked about them; `pods` are all of the cluster; `preflight` is what was said about `members_to_resize`."""
    edit = SetEdit.of(before, after)
    asked = preflight or Preflight()
    window = GroupWindow.over(before.states if before is not None else ())
    roll = simulate_roll(edit, window, asked, surge_is_late=True)
    fast_roll = simulate_roll(edit, window, asked, surge_is_late=False)
    changes = _edited(before, after) if before is not None else []
    resources = resize_forecast(before, after, roll.resizes, asked.not_asked) if before is not None else None
    released_in_place = resources is not None and resources.all_in_place
    release = _release(before, after) if edit.changed and not released_in_place else None
    growth = _growth(edit, window, roll.steps, fast_roll.steps, release)
    old_template, new_set = _stored_templates(before, after, stored or {})
    needed = demand(growth.steps, window.within(len(edit.standing)), old_template, new_set.template, growth.beyond)
    recreated = tuple(index for step in roll.steps for index in step.recreated)
    old_size = before.group_set.template.size if before is not None else 0
    rollout = before.rollout if before is not None and edit.changed else None
    return Forecast(
        name=after.metadata.name,
        action=_action(edit, resources, recreated, roll.steps, changes),
        changes=changes,
        returns_to=edit.known.revision if edit.known is not None else 0,
        steps=roll.steps,
        recreated=recreated,
        held=roll.held,
        pods_recreated=len(recreated) * old_size,
        pods_made=len(recreated) * after.template.size,
        fewest_serving=min([step.serving for step in roll.steps], default=edit.standing.ready),
        extra_groups=growth.groups,
        extra_pods=needed.pods,
        extra_requests=needed.requests,
        resized=(old_size, after.template.size) if before is not None and old_size != after.template.size else None,
        resources=resources,
        release=release,
        cost=roll_cost(roll.steps, before, after, growth.beyond) if release is None else None,
        room=_room(growth, before, new_set, nodes, _staying(before, pods) if edit.changed else pods),
        left_out=window.beyond(after.replicas),
        awaited=awaited_groups(before, nodes, (index for step in roll.steps for index in step.waits_for))
        if before is not None
        else (),
        rollout=rollout.metadata.name if rollout is not None else "",
        rollout_steps=len(rollout.strategy.steps) if rollout is not None else 0,
        rollout_unknown=_rollout_unknown(edit),
    )


class _Growth(msgspec.Struct, frozen=True):
    """Groups that need room on top of those that exist."""

    steps: Sequence[ForecastStep]
    """In which they are made."""
    beyond: int
    """Groups that are made in no step, because they are too many."""
    groups: int
    """How many more there are at the worst moment."""


def _growth(
    edit: SetEdit,
    window: GroupWindow,
    steps: Sequence[ForecastStep],
    fast_steps: Sequence[ForecastStep],
    release: ReleaseForecast | None,
) -> _Growth:
    """`fast_steps` are those of a roll whose surge is ready at once. A canary of a release is made instead of them."""
    now = window.within(len(edit.standing))
    extra = max([step.replicas for step in steps], default=now) - now
    if release is not None and (canary := release.extra_replicas):
        beyond = max(0, canary - MOST_ABSENT)
        return _Growth(_with_canary(release, now), beyond, max(canary, extra + beyond))
    beyond = max(0, window.beyond(edit.after.replicas) - window.beyond(len(edit.standing)))
    return _Growth(fast_steps, beyond, max(extra + beyond, 0))


def _stored_templates(
    before: Snapshot | None, after: LeaderWorkerSet, stored: Mapping[str, JsonObject]
) -> tuple[LeaderWorkerTemplate | None, LeaderWorkerSet]:
    """The template before, and the set after the edit, with what the API server adds to pods."""
    old = with_pod_defaults(before.group_set).template if before is not None else None
    return old, with_stored_pods(after, stored)


def _release(before: Snapshot | None, after: LeaderWorkerSet) -> ReleaseForecast | None:
    """What the Rollout of the set would need for this change. Whether there is room is judged by `room_for`."""
    if before is None or before.rollout is None:
        return None
    subject = GroupSet(after.metadata, after.spec)
    return forecast_release(before.rollout, subject, None, before.pods)


def _edited(before: Snapshot, after: LeaderWorkerSet) -> list[SetChange]:
    """What the user changes: without the hold, which admission adds to a set that a Rollout releases, and without
    fields that are only spelled differently (`2` and `"2"`, an empty status)."""
    old, new = (_as_written(one) for one in (before.group_set, after))
    meant = [one.path for one in differences(_canonical(old), _canonical(new), "spec")]
    return [
        one
        for one in differences(old, new, "spec")
        if any(path.startswith(one.path) or one.path.startswith(path) for path in meant)
    ]


def _as_written(group_set: LeaderWorkerSet) -> JsonObject:
    """The spec with the strategy of the user, where a release has replaced it for a while."""
    spec = group_set.spec
    if ORIGINAL_LWS_STRATEGY not in group_set.metadata.annotations:
        return spec
    saved = {name: value for name, value in saved_strategy(group_set.metadata).items() if value is not None}
    rolling = {**rolling_configuration(spec), **DEFAULT_ROLLING_OF_GROUPS, **saved}
    return {**spec, "rolloutStrategy": {**(spec.get("rolloutStrategy") or {}), "rollingUpdateConfiguration": rolling}}


def _canonical(spec: JsonObject) -> JsonObject:
    return {**spec, "leaderWorkerTemplate": canonical_template(spec.get("leaderWorkerTemplate") or {})}


def _staying(before: Snapshot | None, pods: Sequence[Pod]) -> Sequence[Pod]:
    """The pods of the cluster without those of a canary that another template replaces: they go before its own
    come."""
    if before is None or before.canary is None:
        return pods
    going = {pod.metadata.uid for pod in before.canary.pods}
    return [pod for pod in pods if pod.metadata.uid not in going]


def _with_canary(release: ReleaseForecast, standing: int) -> Sequence[ForecastStep]:
    """A canary is like new groups beyond all that there are, more of them at each step of the release; so is the surge
    of the stable set at its end."""
    steps, reached = [], 0
    for count in (min(one, MOST_ABSENT) for one in (*release.replicas, release.extra_replicas)):
        steps.append(ForecastStep(0, 0, created=tuple(range(standing + reached, standing + max(count, reached)))))
        reached = max(count, reached)
    return steps


def _room(
    growth: _Growth, before: Snapshot | None, after: LeaderWorkerSet, nodes: Sequence[Node], pods: Sequence[Pod]
) -> Room | None:
    if not nodes or not any(step.created or step.recreated for step in growth.steps):
        return None
    try:
        return room_for(growth.steps, after, before, nodes, pods, growth.beyond)
    except PodRefused:
        return None  # no pod of this set can be made at all: that is another matter than room


def _rollout_unknown(edit: SetEdit) -> bool:
    before = edit.before
    return edit.changed and before is not None and before.rollout is None and not before.rollouts_readable


def _action(
    edit: SetEdit,
    resources: ResizeForecast | None,
    recreated: Sequence[int],
    steps: Sequence[ForecastStep],
    changes: Sequence[SetChange],
) -> EditKind:
    if edit.before is None:
        return EditKind.CREATE
    if resources is not None and resources.groups and not recreated:
        return EditKind.RESIZE
    if edit.changed or recreated:
        return EditKind.ROLL
    if any(step.created or step.removed for step in steps):
        return EditKind.SCALE
    return EditKind.CONFIGURE if changes else EditKind.NOTHING


def differences(before: Json, after: Json, path: str = "") -> list[SetChange]:
    """Fields that differ, by path. Lists of named things are compared by name, others by position."""
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(key for key in after if key not in before)]
        return [one for key in keys for one in differences(before.get(key), after.get(key), f"{path}.{key}")]
    if isinstance(before, list) and isinstance(after, list):
        old, new = _by_name(before), _by_name(after)
        keys = [*old, *(key for key in new if key not in old)]
        return [one for key in keys for one in differences(old.get(key), new.get(key), f"{path}[{key}]")]
    return [SetChange(path, before, after)]


def _by_name(items: list[Json]) -> dict[str, Json]:
    names = [str(item.get("name") or "") if isinstance(item, dict) else "" for item in items]
    if not all(names) or len(set(names)) < len(names):
        return {str(number): item for number, item in enumerate(items)}
    return dict(zip(names, items, strict=True))


def three_way(last_applied: JsonObject, live: JsonObject, wanted: JsonObject) -> JsonObject:
    """The merge patch that `kubectl apply` would send: what is wanted and not so, and what was once applied and is not
    wanted any more. Fields that others have set stay."""
    patch: JsonObject = {key: None for key in last_applied if key not in wanted and key in live}
    for key, value in wanted.items():
        if isinstance(value, dict) and isinstance(live.get(key), dict):
            inner = three_way(last_applied.get(key) or {}, live[key], value)
            if inner:
                patch[key] = inner
        elif live.get(key) != value:
            patch[key] = value
    return patch


def forecast_lines(found: Forecast) -> list[str]:
    """The forecast in lines of text."""
    lines = [_OPENING[found.action].format(name=found.name)]
    lines += [f"  {change.path}: {_short(change.before)} → {_short(change.after)}" for change in found.changes]
    if found.action is EditKind.ROLL and found.returns_to:
        lines.append(f"The template is that of revision {found.returns_to}: this is a rollback.")
    if found.resized is not None:
        lines.append(f"Groups change from {found.resized[0]} to {counted(found.resized[1], 'pod')} each.")
    if found.rollout:
        steps = counted(found.rollout_steps, "step")
        in_place = found.resources is not None and found.resources.all_in_place
        lines.append(f"Rollout {found.rollout} would release it in {steps}{_during_release(in_place)}")
        if found.release is not None and (text := duration(found.release)):
            lines.append(f"  {text[0].upper()}{text[1:]}.")
    if found.rollout_unknown:
        lines.append(
            "Not known: whether a Rollout would release it, in other steps than these. You may not list rollouts"
        )
        lines.append("in the namespace of the set; ask an administrator of the cluster for this right.")
    lines += [f"  {number}. {_step_line(step)}" for number, step in enumerate(found.steps, 1)]
    if found.left_out:
        groups = f"{counted(found.left_out, 'more group')} that {agreeing(found.left_out, 'does', 'do')}"
        lines.append(f"  Not listed: {groups} not exist yet.")
    if found.cost is not None:
        each, all_of_it = time_span(found.cost.group_start_seconds), time_span(found.cost.duration_seconds)
        lines.append(f"It takes about {all_of_it} (a group starts in {each}).")
    if found.recreated:
        replaced = f" replaced by {found.pods_made}" if found.pods_made != found.pods_recreated else ""
        pods = f"{counted(found.pods_recreated, 'pod')}{replaced}"
        text = f"{counted(len(found.recreated), 'group')} recreated ({pods})"
        lines.append(f"{text}; never fewer than {counted(found.fewest_serving, 'group')} ready.")
    if found.held and not found.rollout:
        lines.append(f"Held at the old revision by the partition: {listed_groups(found.held)}.")
    if found.extra_groups or found.extra_pods or found.extra_requests:
        lines.append(f"Room needed on top of today's: {_extra(found)}.")
    if found.room is not None:
        lines += room_lines(found.room, found.extra_requests, len(found.release.replicas) if found.release else None)
    if found.resources is not None:
        lines += resize_forecast_lines(found.resources)
    return lines + [f"Waits for group {one.group}: {awaited_words(one)}." for one in found.awaited]


def _during_release(in_place: bool) -> str:
    if in_place:
        return ", in place: no canary set is made, and weights and matches of its steps do nothing."
    return "; until then the groups of this set stay."


def _extra(found: Forecast) -> str:
    room = ", ".join(amount_text(*one) for one in found.extra_requests.items())
    groups = [counted(found.extra_groups, "group")] if found.extra_groups else []
    pods = [counted(found.extra_pods, "pod")] if found.extra_pods else []
    numbers = ", ".join(groups + pods)
    return f"{numbers} ({room or 'nothing requested'})" if numbers else room


_OPENING: Mapping[EditKind, str] = {
    EditKind.CREATE: "LeaderWorkerSet {name} would be created.",
    EditKind.ROLL: "LeaderWorkerSet {name} would be rolled: its groups get a new revision.",
    EditKind.RESIZE: "LeaderWorkerSet {name} would be resized: its running pods get other resources in place.",
    EditKind.SCALE: "LeaderWorkerSet {name} would be scaled; no group is recreated.",
    EditKind.CONFIGURE: "LeaderWorkerSet {name} would change; no group is touched.",
    EditKind.NOTHING: "LeaderWorkerSet {name} would not change.",
}


def _step_line(step: ForecastStep) -> str:
    parts = []
    for verb, indexes in (("create", step.created), ("recreate", step.recreated), ("remove", step.removed)):
        if indexes:
            parts.append(f"{verb} {listed_groups(indexes)}")
    if step.resized:
        parts.append(f"resize {listed_groups(step.resized)} in place")
    are = agreeing(len(step.waits_for), "is", "are")
    when = f"when {listed_groups(step.waits_for)} {are} ready: " if step.waits_for else ""
    return f"{when}{', '.join(parts)} ({counted(step.serving, 'group')} ready meanwhile)"


def _short(value: Json) -> str:
    if value is None:
        return "(absent)"
    text = msgspec.json.encode(value).decode() if isinstance(value, dict | list) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
