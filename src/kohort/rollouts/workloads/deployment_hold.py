"""A Deployment under release.

A canary release holds it by `paused` and runs the new version in a second Deployment. Blue-green runs both versions in
one: new pods never become *available* (minReadySeconds is as long as it can be), so the Deployment adds them by its
surge and never takes an old one away, until it gets its own settings back. Partition style runs both versions in one,
too, and replaces pods of the old one: see `partitioned_deployment`.
"""

import copy
import hashlib
from typing import Final

import msgspec

from kohort.objects.apps import Deployment, ReplicaSet
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.recorded_json import read_recorded
from kohort.rollouts.go_hashes import fingerprint
from kohort.rollouts.rollout_types import BatchRelease, PatchMetadata
from kohort.rollouts.template_hash import template_hash
from kohort.rollouts.workloads.partitioned_deployment import keep_partitioned
from kohort.rollouts.workloads.release_marks import keep_marks
from kohort.rules import rollout_labels
from kohort.rules.canonical_form import without_nulls
from kohort.rules.pod_template import pod_template_content, same_pod_template
from kohort.rules.release_hold import hold_mark
from kohort.rules.rolling_limits import DEFAULT_LIMIT_OF_DEPLOYMENTS, deployment_limits
from kohort.rules.safe_text import safe_text

NEVER_AVAILABLE: Final = 2147483646
NO_DEADLINE: Final = 2147483647
HELD_SURGE: Final = 1
"""A surge of none would be refused beside an unavailability of none; this one means none."""
_SAVED_DEFAULTS: Final = {
    "maxUnavailable": DEFAULT_LIMIT_OF_DEPLOYMENTS,
    "maxSurge": DEFAULT_LIMIT_OF_DEPLOYMENTS,
    "minReadySeconds": 0,
    "progressDeadlineSeconds": 600,
}
_OUR_ANNOTATIONS: Final = (
    rollout_labels.IN_PROGRESSING,
    rollout_labels.CONTROL_INFO,
    rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY,
)
_OUR_LABELS: Final = (rollout_labels.WORKLOAD_TYPE, rollout_labels.STABLE_REVISION)
_PARTITION_ANNOTATIONS: Final = (rollout_labels.PARTITION_STRATEGY, rollout_labels.PARTITION_STATUS)
_PARTITION_LABELS: Final = (rollout_labels.PARTITION_CONTROLLED,)


def template_content(template: JsonObject, ignored: PatchMetadata | None = None) -> JsonObject:
    """A template as it counts for equality, without the metadata that only pods of the new version get."""
    if ignored is None:
        return pod_template_content(template)
    return pod_template_content(
        template, without_labels=tuple(ignored.labels), without_annotations=tuple(ignored.annotations)
    )


def revision_of(template: JsonObject) -> str:
    """As Kruise Rollouts names it."""
    return template_hash(template)


def earlier_revision_of(template: JsonObject) -> str:
    """The same, as an earlier version of kohort has recorded it. That version also told spellings apart."""
    metadata = template.get("metadata") or {}
    labels = {
        name: value for name, value in (metadata.get("labels") or {}).items() if name != rollout_labels.TEMPLATE_HASH
    }
    parts = {"labels": labels, "annotations": metadata.get("annotations")}
    kept = {part: values for part, values in parts.items() if values}
    return fingerprint(without_nulls({**template, "metadata": kept}))


def active(replica_sets: list[ReplicaSet]) -> list[ReplicaSet]:
    return [one for one in replica_sets if one.spec.replicas and not one.metadata.deleting]


def with_template(replica_sets: list[ReplicaSet], template: JsonObject) -> ReplicaSet | None:
    return next((one for one in replica_sets if same_pod_template(one.spec.template, template)), None)


def has_release_marks(metadata: ObjectMeta) -> bool:
    """Something of a release is on it. Other implementations remove their marks one by one and un-pause it last."""
    return rollout_labels.STABLE_REVISION in metadata.labels or any(
        name in metadata.annotations for name in _OUR_ANNOTATIONS
    )


# Admission


def hold(new: JsonObject, rollout: str, stable_revision: str) -> JsonObject:
    result = copy.deepcopy(new)
    metadata = result["metadata"]
    metadata.setdefault("labels", {})[rollout_labels.STABLE_REVISION] = stable_revision
    metadata.setdefault("annotations", {})[rollout_labels.IN_PROGRESSING] = hold_mark(rollout)
    result["spec"]["paused"] = True
    return result


def keep_held(new: JsonObject, old: JsonObject) -> JsonObject:
    """An update of a held Deployment. In blue-green the release itself un-pauses it, until another template comes."""
    result = copy.deepcopy(new)
    metadata, before = result["metadata"], old["metadata"]
    keep_marks(metadata, before, _OUR_LABELS + _PARTITION_LABELS, _OUR_ANNOTATIONS + _PARTITION_ANNOTATIONS)
    in_place = rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY in (metadata.get("annotations") or {})
    changed = not same_pod_template(new["spec"]["template"], old["spec"]["template"])
    if rollout_labels.PARTITION_STRATEGY in (metadata.get("annotations") or {}):
        return keep_partitioned(result, changed=changed)
    if changed or not in_place:
        result["spec"]["paused"] = True
    if (result["spec"].get("strategy") or {}).get("type") == "Recreate":
        result["spec"]["strategy"] = copy.deepcopy(old["spec"].get("strategy") or {"type": "RollingUpdate"})
    return result


# The second Deployment


def canary_deployment(stable: Deployment, spec: JsonObject, release: BatchRelease, control_info: str) -> JsonObject:
    """`spec` is the whole spec of the stable one."""
    metadata = stable.metadata
    digest = hashlib.sha256(f"{release.metadata.uid}/{revision_of(stable.spec.template)}".encode()).hexdigest()
    template = copy.deepcopy(spec["template"])
    patch = release.plan.patch_pod_template_metadata
    if patch is not None:
        target = template.setdefault("metadata", {})
        for part, values in (("labels", patch.labels), ("annotations", patch.annotations)):
            if values:
                target[part] = {**(target.get(part) or {}), **values}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": f"{metadata.name[:57]}-{safe_text(digest)[:5]}",
            "namespace": metadata.namespace,
            "labels": {rollout_labels.CANARY_DEPLOYMENT: metadata.name},
            "annotations": {rollout_labels.CONTROL_INFO: control_info},
            "finalizers": [rollout_labels.CANARY_FINALIZER],
            "ownerReferences": [release.owner_reference()],
        },
        "spec": {**copy.deepcopy(spec), "template": template, "replicas": 0, "paused": False},
    }


# Blue-green in place


def saved_settings(deployment: Deployment) -> JsonObject:
    rolling = deployment.spec.strategy.rolling_update
    found = {
        "maxUnavailable": rolling.max_unavailable if rolling else None,
        "maxSurge": rolling.max_surge if rolling else None,
        "minReadySeconds": deployment.spec.min_ready_seconds,
        "progressDeadlineSeconds": deployment.spec.progress_deadline_seconds,
    }
    return {name: _SAVED_DEFAULTS[name] if value is None else value for name, value in found.items()}


def read_settings(deployment: Deployment) -> JsonObject:
    text = deployment.metadata.annotations.get(rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY, "")
    found = read_recorded(text, dict[str, int | str | None]) or {}
    return {name: _SAVED_DEFAULTS[name] if found.get(name) is None else found[name] for name in _SAVED_DEFAULTS}


def held_in_place(deployment: Deployment) -> bool:
    spec = deployment.spec
    return spec.min_ready_seconds == NEVER_AVAILABLE and spec.progress_deadline_seconds == NO_DEADLINE


def hold_in_place(deployment: Deployment, control_info: str) -> JsonObject:
    """Both colours may live: what is there already keeps being saved, not the held values."""
    annotations: JsonObject = {rollout_labels.CONTROL_INFO: control_info}
    if rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY not in deployment.metadata.annotations:
        annotations[rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY] = msgspec.json.encode(
            saved_settings(deployment)
        ).decode()
    return {
        "metadata": {"annotations": annotations},
        "spec": {
            "minReadySeconds": NEVER_AVAILABLE,
            "progressDeadlineSeconds": NO_DEADLINE,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": HELD_SURGE, "maxUnavailable": 0}},
        },
    }


def release_hold_patch(deployment: Deployment, token: str, *, paused: bool = False) -> JsonObject:
    """Nothing of a release is on it any more, and its settings are those of the user."""
    annotations = {rollout_labels.HOLD_RELEASE: token} | dict.fromkeys((*_OUR_ANNOTATIONS, *_PARTITION_ANNOTATIONS))
    labels = dict.fromkeys((rollout_labels.STABLE_REVISION, *_PARTITION_LABELS))
    spec: JsonObject = {"paused": paused}
    if rollout_labels.PARTITION_STRATEGY in deployment.metadata.annotations:
        spec["strategy"] = _before_partitions(deployment.metadata.annotations[rollout_labels.PARTITION_STRATEGY])
    if rollout_labels.ORIGINAL_DEPLOYMENT_STRATEGY in deployment.metadata.annotations:
        saved = read_settings(deployment)
        rolling = {"maxSurge": saved["maxSurge"], "maxUnavailable": saved["maxUnavailable"]}
        spec |= {
            "minReadySeconds": saved["minReadySeconds"],
            "progressDeadlineSeconds": saved["progressDeadlineSeconds"],
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        }
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def _before_partitions(text: str) -> JsonObject:
    """Partition style keeps a Deployment paused in `Recreate`: to un-pause it so would end all its pods at once."""
    rolling = (read_recorded(text, dict[str, Json]) or {}).get("rollingUpdate") or {}
    limits = {name: rolling.get(name, _SAVED_DEFAULTS[name]) for name in ("maxSurge", "maxUnavailable")}
    return {"type": "RollingUpdate", "rollingUpdate": limits}


def unavailable(deployment: Deployment) -> int:
    """How many pods may be away at the end of a promotion."""
    rolling, replicas = deployment.spec.strategy.rolling_update, deployment.spec.replicas or 0
    if rolling is None:
        return 0
    return deployment_limits(rolling.max_surge, rolling.max_unavailable, replicas).unavailable
