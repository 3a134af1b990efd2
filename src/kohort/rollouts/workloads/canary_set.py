"""The extra set that carries the new version.

Its name is derived from the release and the template, not drawn at random: a controller that dies after the create and
comes back with an empty cache meets its own object, never a second one.
"""

import copy
import hashlib
from typing import Final

from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.json_types import JsonObject
from kohort.rollouts.group_set import GroupSet
from kohort.rollouts.rollout_types import BatchRelease, PatchMetadata
from kohort.rollouts.workloads.group_hold import saved_strategy
from kohort.rules import group_labels, rollout_labels
from kohort.rules.group_template import leader_template, revision_content
from kohort.rules.safe_text import safe_text

_LONGEST: Final = 41
_COPIED_PREFIXES: Final = ("kueue.x-k8s.io/", group_labels.PREFIX)
_COPIED_ANNOTATIONS: Final = (
    group_labels.EXCLUSIVE,
    group_labels.SUBGROUP_EXCLUSIVE,
    group_labels.RECREATE_AFTER_START,
    group_labels.ENGINE_RECOVERY,
    group_labels.PREFER_PREVIOUS_NODES,
)


def canary_name(stable: str, release_uid: str, template: str, salt: int = 0) -> str:
    """`<stable>-<5 letters>`; names that would make too long pod names are shortened.

    >>> len(canary_name("a" * 63, "uid", "template"))
    47
    """
    digest = hashlib.sha256(f"{release_uid}/{template}/{salt}".encode()).hexdigest()
    base = stable
    if len(stable) > _LONGEST:
        base = f"{stable[:36]}-{safe_text(hashlib.sha256(stable.encode()).hexdigest())[:4]}"
    return f"{base}-{safe_text(digest)[:5]}"


def canary_set(stable: GroupSet, release: BatchRelease, control_info: str, salt: int = 0) -> JsonObject:
    """The set to create: no groups yet, the new template, the user's own rolling strategy."""
    metadata = stable.metadata
    strategy = {name: value for name, value in saved_strategy(metadata).items() if value is not None}
    spec: JsonObject = {
        "replicas": 0,
        "leaderWorkerTemplate": canary_template(stable.spec, release.plan.patch_pod_template_metadata),
        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": {**strategy, "partition": 0}},
    }
    for field in ("networkConfig", "startupPolicy", "disruptionBudget"):
        if stable.spec.get(field) is not None:
            spec[field] = copy.deepcopy(stable.spec[field])
    labels = {key: value for key, value in metadata.labels.items() if key.startswith(_COPIED_PREFIXES)}
    annotations = {
        key: value
        for key, value in metadata.annotations.items()
        if key in _COPIED_ANNOTATIONS or key.startswith("kueue.x-k8s.io/")
    }
    return {
        "apiVersion": LEADER_WORKER_SETS.api_version,
        "kind": LEADER_WORKER_SETS.kind,
        "metadata": {
            "name": canary_name(metadata.name, release.metadata.uid, stable.fingerprint, salt),
            "namespace": metadata.namespace,
            "labels": {**labels, rollout_labels.CANARY_SET: metadata.name},
            "annotations": {**annotations, rollout_labels.CONTROL_INFO: control_info},
            "finalizers": [rollout_labels.CANARY_FINALIZER],
            "ownerReferences": [release.owner_reference()],
        },
        "spec": spec,
    }


def canary_template(spec: JsonObject, patch: PatchMetadata | None) -> JsonObject:
    """The new template, with metadata for leaders only: traffic is led to leaders, and a worker with the label of a
    route would be one too many. A set without a template for leaders gets one first."""
    template: JsonObject = copy.deepcopy(spec.get("leaderWorkerTemplate") or {})
    if template.get("volumeClaimTemplates"):
        retention = template.get("persistentVolumeClaimRetentionPolicy") or {}
        template["persistentVolumeClaimRetentionPolicy"] = {**retention, "whenDeleted": "Delete"}
    if patch is None or not (patch.labels or patch.annotations):
        return template
    leader = copy.deepcopy(leader_template(template))
    metadata = leader.setdefault("metadata", {})
    for part, values in (("labels", patch.labels), ("annotations", patch.annotations)):
        if values:
            metadata[part] = {**(metadata.get(part) or {}), **values}
    template["leaderTemplate"] = leader
    return template


def same_version(canary: GroupSet, stable: GroupSet, patch: PatchMetadata | None) -> bool:
    """Whether a canary carries the template that the stable set has now, patches aside."""
    wanted = {**stable.spec, "leaderWorkerTemplate": canary_template(stable.spec, patch)}
    return _comparable(canary.spec) == _comparable(wanted)


def _comparable(spec: JsonObject) -> JsonObject:
    content = revision_content(spec)
    content["spec"]["leaderWorkerTemplate"].pop("persistentVolumeClaimRetentionPolicy", None)
    return content
