"""A StatefulSet under release: how many of its pods have the new version is said by its partition.

A pod gets the new version from the highest ordinal down to the partition. Below it pods stay as they are, and pods that
are lost come back at the version of the set's `currentRevision`.

| moment                             | partition                      | annotations                           |
|------------------------------------|--------------------------------|---------------------------------------|
| the webhook holds the new template | HELD_PODS_PARTITION                 | `in-progressing`, what the user had   |
| a step wants n of R pods           | R - n                          | and `step-replicas`, `step-partition` |
| R grows                            | R - n, n of the same spelling  | the same                              |
| R shrinks                          | as it is; then a step as above | the same                              |
| another template                   | HELD_PODS_PARTITION                 | those of the step go                  |
| promotion, rollback                | 0                              | what the user had                     |
| end                                | what the user had              | none                                  |

`step-replicas` has the largest step so far: a jump back takes no version away from a pod. `step-partition` tells a
partition of ours from one that was written past the webhook.
"""

import copy
from typing import Final

import msgspec

from kohort.kube.resources import STATEFUL_SETS
from kohort.objects.apps import StatefulSet
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.recorded_json import read_recorded
from kohort.rollouts import step_arithmetic
from kohort.rollouts.template_hash import template_hash
from kohort.rollouts.workloads.release_marks import keep_marks
from kohort.rules import rollout_labels
from kohort.rules.group_identity import parse_index
from kohort.rules.pod_template import same_pod_template
from kohort.rules.release_hold import hold_mark, is_held_by_release

HELD_PODS_PARTITION: Final = 32767
"""Above every ordinal that can exist, as Kruise Rollouts writes it."""
ROLLING_UPDATE: Final = "RollingUpdate"
_OUR_LABELS: Final = (rollout_labels.WORKLOAD_TYPE, rollout_labels.STABLE_REVISION)
_OF_STEPS: Final = (rollout_labels.STEP_REPLICAS, rollout_labels.STEP_PARTITION)
_OF_RELEASES: Final = (rollout_labels.IN_PROGRESSING, rollout_labels.CONTROL_INFO, *_OF_STEPS)
_UNTIL_THE_END: Final = (rollout_labels.STABLE_FINGERPRINT, rollout_labels.ORIGINAL_STATEFUL_SET_STRATEGY)
"""What the last roll of a release still needs."""
_OUR_ANNOTATIONS: Final = (*_OF_RELEASES, *_UNTIL_THE_END)


def has_release_marks(metadata: ObjectMeta) -> bool:
    """Something of a release is on it."""
    return rollout_labels.STABLE_REVISION in metadata.labels or any(
        name in metadata.annotations for name in _OUR_ANNOTATIONS
    )


def is_promoting(stateful_set: StatefulSet) -> bool:
    """Every pod gets the template now, by the set's own controller; then the partition of the user comes back."""
    annotations = stateful_set.metadata.annotations
    return (
        rollout_labels.ORIGINAL_STATEFUL_SET_STRATEGY in annotations
        and not is_held_by_release(annotations)
        and stateful_set.partition != HELD_PODS_PARTITION
    )


def replicas_of_step(stateful_set: StatefulSet) -> int | str:
    """How many pods may have the new version, as the plan spells it. A release that Kruise Rollouts has begun has only
    the partition."""
    text = stateful_set.metadata.annotations.get(rollout_labels.STEP_REPLICAS)
    if text is not None:
        count = parse_index(text)
        return text if count is None else count
    return max(0, stateful_set.replicas - stateful_set.partition)


def planned(wanted: int | str, replicas: int) -> int:
    """How many pods have the new version at a step that wants so many."""
    return step_arithmetic.planned(wanted, replicas, STATEFUL_SETS.group_kind, rollout_labels.PARTITION)


def partition_for(planned: int, replicas: int) -> int:
    """The partition at which `planned` of `replicas` pods have the new version.

    >>> partition_for(1, 5), partition_for(5, 5), partition_for(0, 5)
    (4, 0, 32767)
    """
    return step_arithmetic.partition_for(planned, replicas, HELD_PODS_PARTITION)


def held_partition(metadata: ObjectMeta) -> int | None:
    """The partition that the release last gave to a set; None where it does not say."""
    return parse_index(metadata.annotations.get(rollout_labels.STEP_PARTITION))


def partition_of_user(metadata: ObjectMeta) -> int:
    """The partition that the user wrote; 0 where none is known."""
    text = metadata.annotations.get(rollout_labels.ORIGINAL_STATEFUL_SET_STRATEGY, "")
    return (read_recorded(text, dict[str, int | None]) or {}).get("partition") or 0


def is_stable_template(spec: JsonObject, annotations: dict[str, str]) -> bool:
    """Whether a template is the one that the set had when it was held."""
    known = annotations.get(rollout_labels.STABLE_FINGERPRINT)
    return known is not None and template_hash(spec["template"]) == known


# Admission


def hold(new: JsonObject, old: JsonObject, rollout: str, stable_revision: str) -> JsonObject:
    """The set with its new template, held."""
    result = copy.deepcopy(new)
    metadata = result["metadata"]
    metadata.setdefault("labels", {})[rollout_labels.STABLE_REVISION] = stable_revision
    annotations = {name: value for name, value in (metadata.get("annotations") or {}).items() if name not in _OF_STEPS}
    annotations[rollout_labels.IN_PROGRESSING] = hold_mark(rollout)
    annotations[rollout_labels.STABLE_FINGERPRINT] = template_hash(old["spec"]["template"])
    if rollout_labels.ORIGINAL_STATEFUL_SET_STRATEGY not in annotations:
        annotations[rollout_labels.ORIGINAL_STATEFUL_SET_STRATEGY] = _encode({"partition": _partition(new)})
    metadata["annotations"] = annotations
    _set_partition(result, HELD_PODS_PARTITION)
    return result


def keep_held(new: JsonObject, old: JsonObject) -> JsonObject:
    """An update of a held set: ours stays on, and a partition of the user is kept for later. Another template waits for
    its first step; with another number of replicas the step keeps its share. Old pods that get the new version by that
    wait for the operator, which may have to drain them."""
    result = copy.deepcopy(new)
    metadata, before = result["metadata"], old["metadata"]
    keep_marks(metadata, before, _OUR_LABELS, _OUR_ANNOTATIONS)
    annotations = metadata["annotations"]
    stored = msgspec.convert(old, StatefulSet)
    partition = held_partition(stored.metadata)
    partition = stored.partition if partition is None else partition
    if _partition(new) not in (stored.partition, partition, HELD_PODS_PARTITION):
        annotations[rollout_labels.ORIGINAL_STATEFUL_SET_STRATEGY] = _encode({"partition": _partition(new)})
    if not same_pod_template(new["spec"]["template"], old["spec"]["template"]):
        if not is_stable_template(new["spec"], annotations):
            _note_replaced_stable(metadata, old)
        for name in _OF_STEPS:
            annotations.pop(name, None)
        _set_partition(result, HELD_PODS_PARTITION)
        return result
    if (new["spec"].get("replicas") or 0) != stored.replicas and rollout_labels.STEP_REPLICAS in annotations:
        replicas = new["spec"].get("replicas") or 0
        share = partition_for(planned(replicas_of_step(stored), replicas), replicas)
        partition = max(share, partition)
        annotations[rollout_labels.STEP_PARTITION] = str(partition)
    _set_partition(result, partition)
    return result


def _note_replaced_stable(metadata: JsonObject, old: JsonObject) -> None:
    """A release that had replaced every pod is superseded: what serves now is the version in between, and the way back
    leads there."""
    status = old.get("status") or {}
    seen = (status.get("observedGeneration") or 0) >= (old["metadata"].get("generation") or 0)
    current = status.get("currentRevision")
    if not seen or not current or current != status.get("updateRevision"):
        return
    metadata["labels"] = {**(metadata.get("labels") or {}), rollout_labels.STABLE_REVISION: current}
    metadata["annotations"][rollout_labels.STABLE_FINGERPRINT] = template_hash(old["spec"]["template"])


def keep_promoting(new: JsonObject, old: JsonObject) -> JsonObject:
    """An update while every pod gets the new version: what the end of the release needs stays."""
    result = copy.deepcopy(new)
    keep_marks(result["metadata"], old["metadata"], _OUR_LABELS, _UNTIL_THE_END)
    _set_partition(result, _partition(old))
    return result


def without_stale_strategy(new: JsonObject) -> JsonObject:
    """A set of which the release was given up. When its hold is taken off, what was kept for the hold is not wanted."""
    annotations = new["metadata"].get("annotations") or {}
    if _partition(new) == HELD_PODS_PARTITION or not any(name in annotations for name in _UNTIL_THE_END):
        return new
    rest = {name: value for name, value in annotations.items() if name not in _UNTIL_THE_END}
    return {**new, "metadata": {**new["metadata"], "annotations": rest}}


def is_rolling_update(document: JsonObject) -> bool:
    strategy = document["spec"].get("updateStrategy") or {}
    kind: str = strategy.get("type", ROLLING_UPDATE)
    return kind == ROLLING_UPDATE


def _partition(document: JsonObject) -> int:
    strategy = document["spec"].get("updateStrategy") or {}
    partition: int = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    return partition


def _set_partition(document: JsonObject, partition: int) -> None:
    strategy = document["spec"].get("updateStrategy") or {}
    rolling = {**(strategy.get("rollingUpdate") or {}), "partition": partition}
    document["spec"]["updateStrategy"] = {**strategy, "type": ROLLING_UPDATE, "rollingUpdate": rolling}


# Patches


def step_patch(wanted: int | str, partition: int, token: str) -> JsonObject:
    """A step gives `wanted` pods the new version."""
    annotations = {
        rollout_labels.HOLD_RELEASE: token,
        rollout_labels.STEP_REPLICAS: str(wanted),
        rollout_labels.STEP_PARTITION: str(partition),
    }
    return {"metadata": {"annotations": annotations}, "spec": _rolling(partition)}


def hold_again_patch(stateful_set: StatefulSet) -> JsonObject:
    partition = held_partition(stateful_set.metadata)
    return {"spec": _rolling(HELD_PODS_PARTITION if partition is None else partition)}


def promote_patch(token: str) -> JsonObject:
    """Every pod gets the template."""
    return {"metadata": _without(token, _OF_RELEASES), "spec": _rolling(0)}


def release_hold_patch(stateful_set: StatefulSet, token: str) -> JsonObject:
    """Nothing of a release is on it any more, and its partition is that of the user."""
    return {
        "metadata": _without(token, _OUR_ANNOTATIONS),
        "spec": _rolling(partition_of_user(stateful_set.metadata)),
    }


def leave_held_patch(token: str) -> JsonObject:
    """Nothing of a release is on it any more but the hold, and what the user had before it."""
    return {"metadata": _without(token, _OF_RELEASES), "spec": _rolling(HELD_PODS_PARTITION)}


def _without(token: str, annotations: tuple[str, ...]) -> JsonObject:
    return {
        "labels": {rollout_labels.STABLE_REVISION: None},
        "annotations": {rollout_labels.HOLD_RELEASE: token} | dict.fromkeys(annotations),
    }


def _rolling(partition: int) -> JsonObject:
    return {"updateStrategy": {"type": ROLLING_UPDATE, "rollingUpdate": {"partition": partition}}}


def _encode(value: JsonObject) -> str:
    return msgspec.json.encode(value).decode()
