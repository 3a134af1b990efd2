"""Decides what the webhook does with an update of a workload.

| the stored workload is | the update | what follows |
|---|---|---|
| anything | carries a token of ours | passes; the token is taken off |
| held | any | stays held, what the user wrote of the strategy is kept for later |
| held, with groups that were resized in place | needs new pods | refused: the set has groups of two versions |
| being promoted | the stable template again | passes: promotion becomes rollback |
| being promoted | another template | refused: half of it has one version, half another |
| left held by a release that was given up | takes the hold off | passes, and what was kept for the hold goes |
| free | changes the template, and a Rollout wants it | is held in the same response |
| free | the same, but cannot be held | passes with a warning: rolled out natively |
"""

from collections.abc import Callable

import msgspec

from kohort.objects.apps import StatefulSet
from kohort.objects.counted_nouns import counted_of
from kohort.objects.json_types import JsonObject
from kohort.rollouts.group_set import HELD_GROUPS_PARTITION, GroupSet, is_released_in_place, is_stable_template
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.workloads import deployment_hold, group_hold, stateful_set_hold
from kohort.rules import group_labels, rollout_labels
from kohort.rules.group_template import same_revision, with_default_template
from kohort.rules.pod_template import same_pod_template
from kohort.rules.release_hold import is_held_by_release


class AdmissionDecision(msgspec.Struct, frozen=True):
    document: JsonObject
    warnings: tuple[str, ...] = ()
    refusal: str = ""


class AdmissionContext(msgspec.Struct, frozen=True):
    """What is known about a workload besides the request."""

    rollout: Rollout | None
    live_revision: str = ""
    tokens: frozenset[str] = frozenset()
    """Uids of the objects that may lift a hold."""
    active: tuple[str, ...] = ("",)
    """Versions of which a Deployment has pods now, oldest first."""

    @property
    def promoting(self) -> bool:
        """The end of a release rolls the workload to the version that was released."""
        status = self.rollout.status if self.rollout is not None else None
        return status is not None and (status.phase, status.reason) == (
            rollout_labels.PROGRESSING,
            rollout_labels.FINALISING,
        )


def without_token(document: JsonObject, tokens: frozenset[str]) -> JsonObject | None:
    """The document without its token, or None when it carries none that counts."""
    annotations = document["metadata"].get("annotations") or {}
    if annotations.get(rollout_labels.HOLD_RELEASE) not in tokens:
        return None
    rest = {name: value for name, value in annotations.items() if name != rollout_labels.HOLD_RELEASE}
    return {**document, "metadata": {**document["metadata"], "annotations": rest}}


def admit_group_set(new: JsonObject, old: JsonObject, context: AdmissionContext) -> AdmissionDecision:
    ours = without_token(new, context.tokens)
    if ours is not None:
        return AdmissionDecision(ours)
    stored = msgspec.convert(old, GroupSet)
    if stored.is_canary:
        return AdmissionDecision(new)
    if stored.in_progress:
        return _refused_in_place(new, stored) or AdmissionDecision(group_hold.keep_held(new, old))
    if stored.promoting and context.tokens:
        return _promoting(new, old, stored)
    if stored.promoting or stored.left_held:
        return AdmissionDecision(group_hold.without_stale_strategy(new))
    # The webhook that fills in defaults is called after this one.
    changed = not same_revision(with_default_template(stored.spec), with_default_template(new["spec"]))
    return _free(new, old, context, changed, lambda name: _held_set(new, old, stored, context, name))


def _promoting(new: JsonObject, old: JsonObject, stored: GroupSet) -> AdmissionDecision:
    wanted = with_default_template(new["spec"])
    back = is_stable_template(new["spec"], stored.metadata.annotations)
    if back or same_revision(with_default_template(stored.spec), wanted):
        return AdmissionDecision(group_hold.keep_promoting(new, old))
    return _refused(new, f"LeaderWorkerSet {stored.metadata.name}")


def _refused_in_place(new: JsonObject, stored: GroupSet) -> AdmissionDecision | None:
    """While the stable set has two versions, no Service could select a canary set apart from both. A return to the
    stable version is allowed."""
    if stored.step_partition == HELD_GROUPS_PARTITION or not stored.resizes_in_place:
        return None
    annotations = stored.metadata.annotations
    if is_stable_template(new["spec"], annotations) or is_released_in_place(new["spec"], annotations):
        return None
    text = (
        f"groups of LeaderWorkerSet {stored.metadata.name} are being resized in place by its Rollout, and this change "
        "needs new pods (more than cpu and memory differ, or resourceUpdatePolicy does): put the old template back, or "
        "wait until the Rollout is Healthy, then make the change"
    )
    return AdmissionDecision(new, refusal=text)


def _refused(new: JsonObject, name: str) -> AdmissionDecision:
    text = (
        f"{name} is being promoted to the version that was released last; put another template on it when its Rollout "
        "is Healthy, or disable the Rollout to change it without steps"
    )
    return AdmissionDecision(new, refusal=text)


def _free(
    new: JsonObject,
    old: JsonObject,
    context: AdmissionContext,
    changed: bool,
    hold: Callable[[str], "AdmissionDecision"],
) -> AdmissionDecision:
    """By the rule of release ids: where the user gives one, it alone says whether this is a release."""
    if context.rollout is None:
        return AdmissionDecision(new)
    given, before = (_annotation(one, rollout_labels.ROLLOUT_ID) for one in (new, old))
    name = context.rollout.metadata.name
    if given and given == before and changed:
        text = (
            f"annotation {rollout_labels.ROLLOUT_ID} is unchanged: "
            f"the new template is rolled out natively, not by Rollout {name}"
        )
        return AdmissionDecision(new, (text,))
    if not changed:
        unlike = given and given != before
        text = f"annotation {rollout_labels.ROLLOUT_ID} changed but the template did not: there is nothing to release"
        return AdmissionDecision(new, (text,) if unlike else ())
    return hold(name)


def _held_set(
    new: JsonObject, old: JsonObject, stored: GroupSet, context: AdmissionContext, rollout: str
) -> AdmissionDecision:
    obstacle = _obstacle(new, stored, context)
    if obstacle:
        return _not_controlled(new, obstacle)
    return AdmissionDecision(group_hold.hold(new, old, rollout, context.live_revision))


def _not_controlled(new: JsonObject, obstacle: str) -> AdmissionDecision:
    text = f"ReleaseNotControlled: {obstacle}; the template is rolled out natively, without steps"
    return AdmissionDecision(new, (text,))


def _obstacle(new: JsonObject, stored: GroupSet, context: AdmissionContext) -> str:
    if new["spec"].get("replicas") == 0:
        return "the set has no groups"
    if not context.live_revision:
        return "the set has no leader StatefulSet yet"
    status = stored.status
    if status.updated_replicas != status.replicas:
        return (
            f"an earlier update is not complete (done: {counted_of(status.updated_replicas, status.replicas, 'group')})"
        )
    return ""


def admit_deployment(new: JsonObject, old: JsonObject, context: AdmissionContext) -> AdmissionDecision:
    ours = without_token(new, context.tokens)
    if ours is not None:
        return AdmissionDecision(ours)
    if is_held_by_release(old["metadata"].get("annotations") or {}):
        return AdmissionDecision(deployment_hold.keep_held(new, old))
    before, after = (deployment_hold.revision_of(one["spec"]["template"]) for one in (old, new))
    if context.promoting and len(context.active) > 1 and before != after:
        back = after in context.active
        return AdmissionDecision(new) if back else _refused(new, f"Deployment {old['metadata']['name']}")
    return _free(new, old, context, before != after, lambda name: _held_deployment(new, context, name))


def _held_deployment(new: JsonObject, context: AdmissionContext, rollout: str) -> AdmissionDecision:
    assert context.rollout is not None
    routed = bool(context.rollout.strategy.traffic_routings)
    obstacle = ""
    if new["spec"].get("replicas") == 0:
        obstacle = "the Deployment has no pods"
    elif not context.active or not context.live_revision:
        obstacle = "the Deployment has no active ReplicaSet"
    elif routed and len(context.active) > 1:
        obstacle = f"an earlier update is not complete ({len(context.active)} versions are active)"
    if obstacle:
        return _not_controlled(new, obstacle)
    return AdmissionDecision(deployment_hold.hold(new, rollout, context.live_revision))


def admit_stateful_set(new: JsonObject, old: JsonObject, context: AdmissionContext) -> AdmissionDecision:
    ours = without_token(new, context.tokens)
    if ours is not None:
        return AdmissionDecision(ours)
    if group_labels.NAME in (old["metadata"].get("labels") or {}):
        return AdmissionDecision(new)
    if is_held_by_release(old["metadata"].get("annotations") or {}):
        return AdmissionDecision(stateful_set_hold.keep_held(new, old))
    changed = not same_pod_template(old["spec"]["template"], new["spec"]["template"])
    if stateful_set_hold.is_promoting(msgspec.convert(old, StatefulSet)) and context.tokens:
        back = stateful_set_hold.is_stable_template(new["spec"], old["metadata"].get("annotations") or {})
        if changed and not back:
            return _refused(new, f"StatefulSet {old['metadata']['name']}")
        return AdmissionDecision(stateful_set_hold.keep_promoting(new, old))
    if not changed:
        new = stateful_set_hold.without_stale_strategy(new)
    return _free(new, old, context, changed, lambda name: _held_stateful_set(new, old, context, name))


def _held_stateful_set(new: JsonObject, old: JsonObject, context: AdmissionContext, rollout: str) -> AdmissionDecision:
    obstacle = ""
    if new["spec"].get("replicas") == 0:
        obstacle = "the StatefulSet has no pods"
    elif not stateful_set_hold.is_rolling_update(new):
        obstacle = "its updateStrategy is not RollingUpdate"
    elif not context.live_revision:
        obstacle = "the StatefulSet has no revision yet"
    if obstacle:
        return _not_controlled(new, obstacle)
    return AdmissionDecision(stateful_set_hold.hold(new, old, rollout, context.live_revision))


def _annotation(document: JsonObject, name: str) -> str:
    value: str = (document["metadata"].get("annotations") or {}).get(name, "")
    return value
