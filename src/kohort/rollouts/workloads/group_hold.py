"""How a LeaderWorkerSet is held while a new version is released.

A set has no `paused`. Its partition does the same: below it no group is touched, lost groups come back at their old
revision, and groups that scaling adds are of the old revision too. So a held set has a partition above every ordinal
that can exist, no surge, and a maxUnavailable that the validation of sets accepts. What the user had written is kept
in an annotation and comes back with the release of the hold; while held, the user's edits of those fields go to the
annotation.

The hold is put on in the same admission response as the template change. No generation of the set ever exists that has
the new template without it.
"""

import copy
from typing import Final

import msgspec

from kohort.objects import int_or_string
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.recorded_json import read_recorded
from kohort.rollouts.group_set import (
    HELD_GROUPS_PARTITION,
    GroupSet,
    is_held,
    is_released_in_place,
    is_stable_template,
    rolling_configuration,
    step_partition,
)
from kohort.rollouts.workloads.release_marks import keep_marks
from kohort.rules import group_labels, rollout_labels
from kohort.rules.group_template import revision_fingerprint, same_revision, with_default_template
from kohort.rules.release_hold import hold_mark
from kohort.rules.resource_outline import resource_outline
from kohort.rules.resource_update_policy import resource_update_policy
from kohort.rules.rolling_limits import comes_to_nothing, group_limits

_FIELDS: Final = ("partition", "maxUnavailable", "maxSurge")
_OUR_LABELS: Final = (rollout_labels.WORKLOAD_TYPE, rollout_labels.STABLE_REVISION)
_OUR_ANNOTATIONS: Final = (
    rollout_labels.IN_PROGRESSING,
    rollout_labels.STABLE_FINGERPRINT,
    rollout_labels.ORIGINAL_LWS_STRATEGY,
    rollout_labels.CONTROL_INFO,
    rollout_labels.STABLE_RESOURCES,
    rollout_labels.STEP_PARTITION,
    group_labels.RESOURCES_OF_REVISION,
)
_NO_SURGE: Final = "0%"
"""The surge of a set that is promoted without one. Users write 0: their edit differs from it, so admission sees it."""
_AT_ONCE: Final[JsonObject] = {"maxUnavailable": "100%", "maxSurge": 0}
"""The end of blue-green: the new version serves alone, so all groups are replaced together."""
_OF_RELEASES_IN_PLACE: Final = (
    rollout_labels.STABLE_RESOURCES,
    rollout_labels.STEP_PARTITION,
    group_labels.RESOURCES_OF_REVISION,
)


class _AppliedStrategy(msgspec.Struct):
    rolling: dict[str, int | str | None] = msgspec.field(default_factory=dict, name="rollingUpdateConfiguration")


class _AppliedSpec(msgspec.Struct):
    strategy: _AppliedStrategy = msgspec.field(default_factory=_AppliedStrategy, name="rolloutStrategy")


class _AppliedSet(msgspec.Struct):
    spec: _AppliedSpec = msgspec.field(default_factory=_AppliedSpec)


# Held values


def held_values(spec: JsonObject, original: JsonObject, partition: int = HELD_GROUPS_PARTITION) -> JsonObject:
    """The rolling update of a held set. An unavailability that comes to no group at all would be refused without a
    surge, so it becomes 1; under the hold it means nothing."""
    wanted = original.get("maxUnavailable")
    replicas = spec.get("replicas")
    total = 1 if replicas is None else replicas
    nothing = comes_to_nothing({"maxUnavailable": wanted, "maxSurge": 0}, total)
    unavailable = 1 if wanted is None or nothing else wanted
    return {"partition": partition, "maxUnavailable": unavailable, "maxSurge": 0}


def original_strategy(spec: JsonObject) -> JsonObject:
    """What is saved: null for a field that was absent."""
    rolling = rolling_configuration(spec)
    return {name: rolling.get(name) for name in _FIELDS}


def saved_strategy(metadata: ObjectMeta) -> JsonObject:
    """What was saved; a text that cannot be read is as if nothing had been there."""
    text = metadata.annotations.get(rollout_labels.ORIGINAL_LWS_STRATEGY, "")
    found = read_recorded(text, dict[str, int | str | None]) or {}
    return {name: found.get(name) for name in _FIELDS}


def _with_rolling(document: JsonObject, values: JsonObject) -> None:
    strategy = document["spec"].setdefault("rolloutStrategy", {})
    strategy.setdefault("type", "RollingUpdate")
    merged = {**(strategy.get("rollingUpdateConfiguration") or {}), **values}
    strategy["rollingUpdateConfiguration"] = {name: value for name, value in merged.items() if value is not None}


def _encode(value: JsonObject) -> str:
    return msgspec.json.encode(value).decode()


# Admission


def hold(new: JsonObject, old: JsonObject, rollout: str, stable_revision: str) -> JsonObject:
    """The set with its new template, held."""
    result = copy.deepcopy(new)
    metadata = result["metadata"]
    original = original_strategy(new["spec"])
    metadata.setdefault("labels", {})[rollout_labels.STABLE_REVISION] = stable_revision
    metadata.setdefault("annotations", {}).update(
        {
            rollout_labels.IN_PROGRESSING: hold_mark(rollout),
            rollout_labels.STABLE_FINGERPRINT: revision_fingerprint(old["spec"]),
            rollout_labels.ORIGINAL_LWS_STRATEGY: _encode(original),
        }
    )
    if resource_update_policy(new["spec"]).in_place:
        outline = resource_outline(old["spec"])
        metadata["annotations"][rollout_labels.STABLE_RESOURCES] = _encode(outline)
    _with_rolling(result, held_values(result["spec"], original))
    return result


def keep_held(new: JsonObject, old: JsonObject) -> JsonObject:
    """An update of a held set: ours stays on, what the user wrote of the strategy goes to the annotation."""
    result = copy.deepcopy(new)
    keep_marks(result["metadata"], old["metadata"], _OUR_LABELS, _OUR_ANNOTATIONS)
    before, wanted = rolling_configuration(old["spec"]), rolling_configuration(new["spec"])
    saved = saved_strategy(msgspec.convert(result["metadata"], ObjectMeta))
    edited = {name: wanted.get(name) for name in _FIELDS if wanted.get(name) != before.get(name)}
    edited |= _edits_of_manifest(new, old)
    if edited:
        saved = _folded(saved, edited, result["spec"])
        result["metadata"]["annotations"][rollout_labels.ORIGINAL_LWS_STRATEGY] = _encode(saved)
    _with_rolling(result, held_values(result["spec"], saved, _kept_partition(result, old)))
    return result


def _folded(saved: JsonObject, edited: JsonObject, spec: JsonObject) -> JsonObject:
    """What is saved after an edit. A user who takes the surge away and lets one group be away instead edits one field
    only where the hold has put that 1 already; a saved strategy without either would be refused ever after."""
    result = saved | edited
    replicas = spec.get("replicas")
    total = 1 if replicas is None else replicas
    return result | {"maxUnavailable": 1} if total and comes_to_nothing(result, total) else result


def _edits_of_manifest(new: JsonObject, old: JsonObject) -> JsonObject:
    """Fields of the strategy that differ between two manifests that `kubectl apply` has recorded. It sends no field
    that has the wanted value already: a `maxSurge: 0` that the hold has set is seen only here."""
    before, now = _applied_strategy(old), _applied_strategy(new)
    if before is None or now is None:
        return {}
    return {name: now.get(name) for name in _FIELDS if now.get(name) != before.get(name)}


def _applied_strategy(document: JsonObject) -> JsonObject | None:
    """None if no manifest is recorded."""
    text = (document["metadata"].get("annotations") or {}).get(group_labels.LAST_APPLIED, "")
    found = read_recorded(text, _AppliedSet)
    return found.spec.strategy.rolling if found is not None else None


def _kept_partition(new: JsonObject, old: JsonObject) -> int:
    """The partition of the step stays while resources alone are released. A third template begins at the first step
    again: no group gets it before. With another number of groups the step finds its partition anew: groups that are
    added come at the old revision."""
    annotations: dict[str, str] = new["metadata"].get("annotations") or {}
    partition = step_partition(annotations)
    if partition == HELD_GROUPS_PARTITION:
        return partition
    before, now = (with_default_template(one["spec"]) for one in (old, new))
    known = same_revision(before, now) or is_stable_template(new["spec"], annotations)
    scaled = old["spec"].get("replicas") != new["spec"].get("replicas")
    if known and not scaled and is_released_in_place(new["spec"], annotations):
        return partition
    annotations.pop(rollout_labels.STEP_PARTITION)
    return HELD_GROUPS_PARTITION


def keep_promoting(new: JsonObject, old: JsonObject) -> JsonObject:
    """An update while the set rolls to its new version: the notes that the promotion needs stay.

    | the user writes | the set rolls | saved for the end |
    |---|---|---|
    | another surge or maxUnavailable | at that pace, with a surge that was given up too | what is written |
    | the same, at the end of blue-green | as before: all groups together | what is written |
    | another partition | as before: the partition waits until all groups have rolled | what is written |
    | the manifest that says what is saved, again | as before | as before |
    | the stable template again | as before: the canary stays until all groups have rolled back | as before |
    | another number of groups | as before, as many groups away as before if there is no surge | as before |
    """
    result = copy.deepcopy(new)
    keep_marks(result["metadata"], old["metadata"], _OUR_LABELS, _OUR_ANNOTATIONS)
    saved = saved_strategy(msgspec.convert(result["metadata"], ObjectMeta))
    before, wanted = rolling_configuration(old["spec"]), rolling_configuration(new["spec"])
    differing = [name for name in _FIELDS if wanted.get(name) != before.get(name)]
    edited = {name: wanted.get(name) for name in differing if wanted.get(name) != saved[name]}
    edited |= _edits_of_manifest(new, old)
    folded = _folded(saved, edited, result["spec"]) if edited else saved
    if edited:
        result["metadata"]["annotations"][rollout_labels.ORIGINAL_LWS_STRATEGY] = _encode(folded)
    staying = _FIELDS if _AT_ONCE.items() <= before.items() else ("partition",)
    kept = {name: before.get(name) for name in differing if name not in edited or name in staying}
    if _has_no_surge(before, saved):
        repaced = any(name != "partition" for name in edited)
        kept = {**folded, "partition": 0} if repaced else _rescaled(before, old["spec"], new["spec"])
    _with_rolling(result, kept)
    return result


def _rescaled(rolling: JsonObject, old: JsonObject, new: JsonObject) -> JsonObject:
    """A roll without a surge after scaling: the percentage is that of as many groups as before."""
    before, after = (1 if one.get("replicas") is None else one["replicas"] for one in (old, new))
    if before == after or not after:
        return {name: rolling.get(name) for name in _FIELDS}
    away = min(group_limits(rolling, before).unavailable, after)
    return {**rolling, "maxUnavailable": _percentage(away, after)}


def without_stale_strategy(new: JsonObject) -> JsonObject:
    """An update of a set whose release was given up. As long as it is held, another Rollout may adopt it; once a user
    removes the hold, the saved strategy means nothing any more."""
    annotations = new["metadata"].get("annotations") or {}
    if is_held(new["spec"]) or rollout_labels.ORIGINAL_LWS_STRATEGY not in annotations:
        return new
    stale = (rollout_labels.ORIGINAL_LWS_STRATEGY, *_OF_RELEASES_IN_PLACE)
    rest = {name: value for name, value in annotations.items() if name not in stale}
    return {**new, "metadata": {**new["metadata"], "annotations": rest}}


# Patches of the controllers


def hold_again_patch(group_set: GroupSet) -> JsonObject:
    """For a set that says it is in progress but is not held: an update was made past the webhook."""
    saved = saved_strategy(group_set.metadata)
    edited = {name: value for name, value in original_strategy(group_set.spec).items() if value is not None}
    held = held_values(group_set.spec, saved | edited, group_set.step_partition)
    return {
        "metadata": {"annotations": {rollout_labels.ORIGINAL_LWS_STRATEGY: _encode(saved | edited)}},
        "spec": {"rolloutStrategy": {"rollingUpdateConfiguration": held}},
    }


def promote_patch(group_set: GroupSet, token: str, *, at_once: bool) -> JsonObject:
    """The hold is gone and groups roll: by the user's pace, or all together. The user's own partition waits until they
    have rolled, or the release would never arrive."""
    saved = saved_strategy(group_set.metadata)
    if group_set.resizes_in_place:
        rolling: JsonObject = held_values(group_set.spec, saved, 0)
    elif at_once:
        rolling = {"partition": 0, **_AT_ONCE}
    else:
        rolling = {**saved, "partition": 0}
    annotations = {
        rollout_labels.HOLD_RELEASE: token,
        rollout_labels.IN_PROGRESSING: None,
        rollout_labels.CONTROL_INFO: None,
        **_without(group_set, rollout_labels.STEP_PARTITION, group_labels.RESOURCES_OF_REVISION),
    }
    return {
        "metadata": {"labels": {rollout_labels.STABLE_REVISION: None}, "annotations": annotations},
        "spec": {"rolloutStrategy": {"rollingUpdateConfiguration": rolling}},
    }


def pace_patch(group_set: GroupSet, token: str, away: int | None, stopped_at: int) -> JsonObject | None:
    """The set rolls without a surge and lets `away` groups be away; with 0, no group below `stopped_at` is taken. None
    for `away` is the pace of the user. The result is None if the set rolls so already."""
    saved = saved_strategy(group_set.metadata)
    if away is None:
        rolling: JsonObject = {**saved, "partition": 0}
        unchanged = not rolls_without_surge(group_set)
    else:
        # Admission refuses a set that may neither have a surge nor groups away; the partition stops it.
        most = _percentage(max(1, away), group_set.replicas)
        rolling = {"partition": 0 if away else stopped_at, "maxUnavailable": most, "maxSurge": _NO_SURGE}
        unchanged = all(group_set.rolling.get(name) == value for name, value in rolling.items())
    if unchanged:
        return None
    return {
        "metadata": {"annotations": {rollout_labels.HOLD_RELEASE: token}},
        "spec": {"rolloutStrategy": {"rollingUpdateConfiguration": rolling}},
    }


def rolls_without_surge(group_set: GroupSet) -> bool:
    """A promotion has given the surge of the user up (`promotion_pace`)."""
    return group_set.promoting and _has_no_surge(group_set.rolling, saved_strategy(group_set.metadata))


def _has_no_surge(rolling: JsonObject, saved: JsonObject) -> bool:
    return rolling.get("maxSurge") == _NO_SURGE != saved.get("maxSurge")


def _percentage(count: int, replicas: int) -> int | str:
    """As a percentage, where one comes to this count. Users write numbers: when one of them sets `maxSurge: 0` while
    the set is promoted, the edit differs from what is there, and `keep_promoting` sees and keeps it."""
    text = f"{-(-100 * count // replicas)}%"
    return text if int_or_string.resolve(text, replicas, round_up=False) == count else count


def leave_held_patch(group_set: GroupSet, token: str) -> JsonObject:
    """Nothing of a release is left but the hold, and what the user had written. Groups that were resized in place stay
    as they are."""
    annotations = {
        rollout_labels.HOLD_RELEASE: token,
        rollout_labels.IN_PROGRESSING: None,
        rollout_labels.CONTROL_INFO: None,
        rollout_labels.STABLE_FINGERPRINT: None,
        **_without(group_set, rollout_labels.STEP_PARTITION, group_labels.RESOURCES_OF_REVISION),
    }
    patch: JsonObject = {"metadata": {"labels": {rollout_labels.STABLE_REVISION: None}, "annotations": annotations}}
    if not is_held(group_set.spec):
        held = held_values(group_set.spec, saved_strategy(group_set.metadata))
        patch["spec"] = {"rolloutStrategy": {"rollingUpdateConfiguration": held}}
    return patch


def adopt_held_patch(rollout: str, stable_revision: str) -> JsonObject:
    """A set that was left held is released by another Rollout, or by the same one when it is enabled again."""
    labels = {rollout_labels.STABLE_REVISION: stable_revision}
    return {
        "metadata": {
            "labels": labels,
            "annotations": {rollout_labels.IN_PROGRESSING: hold_mark(rollout)},
        },
    }


def release_hold_patch(group_set: GroupSet, token: str) -> JsonObject:
    """Everything of ours is gone, the strategy is as the user wrote it."""
    saved = saved_strategy(group_set.metadata)
    annotations = {
        rollout_labels.HOLD_RELEASE: token,
        rollout_labels.IN_PROGRESSING: None,
        rollout_labels.CONTROL_INFO: None,
        rollout_labels.STABLE_FINGERPRINT: None,
        rollout_labels.ORIGINAL_LWS_STRATEGY: None,
        **_without(group_set, *_OF_RELEASES_IN_PLACE),
    }
    return {
        "metadata": {"labels": {rollout_labels.STABLE_REVISION: None}, "annotations": annotations},
        "spec": {"rolloutStrategy": {"rollingUpdateConfiguration": saved}},
    }


def _without(group_set: GroupSet, *names: str) -> dict[str, None]:
    """What removes these annotations, where the set has them."""
    return {name: None for name in names if name in group_set.metadata.annotations}


def unavailable(group_set: GroupSet) -> int:
    """How many groups may be away at the end of a promotion. Where the canary stands in for groups that are away, as
    many as the user allows, because it goes next. With a surge at least one: the surge stays until that one is
    ready."""
    away = group_limits(saved_strategy(group_set.metadata), group_set.replicas).unavailable
    stands_in = rolls_without_surge(group_set) or _AT_ONCE.items() <= group_set.rolling.items()
    return away if stands_in else max(1, away)
