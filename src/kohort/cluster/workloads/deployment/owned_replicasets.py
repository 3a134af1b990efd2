"""The ReplicaSets of a Deployment: which is the new one, how they are named and annotated."""

from collections.abc import Sequence
from typing import Final

from kohort.cluster.workloads import controller_ref
from kohort.cluster.workloads.deployment.plan import ReplicaSetFacts
from kohort.cluster.workloads.revisions import data_hash
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

HASH_LABEL: Final = well_known_names.POD_TEMPLATE_HASH
REVISION: Final = well_known_names.DEPLOYMENT_REVISION
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = well_known_names.DESIRED_REPLICAS
MAXIMUM: Final = well_known_names.MAX_REPLICAS
LAST_APPLIED: Final = well_known_names.LAST_APPLIED
_NOT_COPIED: Final = frozenset(
    {REVISION, REVISION_HISTORY, DESIRED, MAXIMUM, LAST_APPLIED, "deprecated.deployment.rollback.to"}
)


def same_template(deployment: JsonObject, replica_set: JsonObject) -> bool:
    """Equal but for the label that this controller sets. A user's template may carry that label too, and the controller
    overwrites it there, so it is left out on both sides."""
    ours, theirs = deployment["spec"]["template"], replica_set["spec"]["template"]
    return bool(ours.get("spec") == theirs.get("spec") and _metadata_but_hash(ours) == _metadata_but_hash(theirs))


def _metadata_but_hash(template: JsonObject) -> JsonObject:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    return {key: value for key, value in {**metadata, "labels": labels}.items() if value}


def find_new(deployment: JsonObject, sets: Sequence[JsonObject]) -> JsonObject | None:
    """The set for the current template; the oldest one if there are several."""
    found = [one for one in sets if same_template(deployment, one)]
    return min(found, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]), default=None)


def revision_of(obj: JsonObject) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def facts_of(replica_set: JsonObject) -> ReplicaSetFacts:
    status = replica_set.get("status") or {}
    annotations = replica_set["metadata"].get("annotations") or {}
    replicas = replica_set["spec"].get("replicas") or 0
    return ReplicaSetFacts(
        name=replica_set["metadata"]["name"],
        replicas=replicas,
        available=min(status.get("availableReplicas") or 0, replicas),
        pods=(status.get("replicas") or 0) + (status.get("terminatingReplicas") or 0),
        created=replica_set["metadata"]["creationTimestamp"],
        scaled_for=_number(annotations.get(DESIRED)),
        scaled_to=_number(annotations.get(MAXIMUM)),
    )


def build(deployment: JsonObject, *, replicas: int, revision: int, maximum: int, collisions: int) -> JsonObject:
    """A new ReplicaSet for the current template."""
    template = deployment["spec"]["template"]
    digest = data_hash(template, collisions)
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), HASH_LABEL: digest}
    selector = deployment["spec"]["selector"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment['metadata']['name']}-{digest}",
            "namespace": deployment["metadata"]["namespace"],
            "labels": labels,
            "annotations": annotations(deployment, {}, revision) | scale_annotations(deployment, maximum),
            "ownerReferences": [controller_ref.controller_reference(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment["spec"].get("minReadySeconds") or 0,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}},
            "template": {**template, "metadata": {**meta, "labels": labels}},
        },
    }


def annotations(deployment: JsonObject, before: JsonObject, revision: int) -> JsonObject:
    """The annotations of the set of the current template: those of the Deployment, and its revision."""
    copied = {
        key: value for key, value in (deployment["metadata"].get("annotations") or {}).items() if key not in _NOT_COPIED
    }
    wanted = {**before, **copied}
    earlier = before.get(REVISION)
    if earlier and earlier != str(revision):
        history = before.get(REVISION_HISTORY)
        wanted[REVISION_HISTORY] = f"{history},{earlier}" if history else earlier
    wanted[REVISION] = str(revision)
    return wanted


def scale_annotations(deployment: JsonObject, maximum: int) -> JsonObject:
    """The annotations that record for which size of the Deployment a set was scaled."""
    return {DESIRED: str(deployment["spec"].get("replicas", 1)), MAXIMUM: str(maximum)}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
