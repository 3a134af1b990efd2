"""A Deployment in partition style: pods of both versions in one Deployment, so many of the new one as a step says.

The Deployment is paused and of type `Recreate`, which keeps its own controller from moving pods; annotations say what
is wanted instead, in the form of Kruise Rollouts, and `partition_controller` sizes the ReplicaSets:

| on the Deployment                                      | what it says                                              |
|--------------------------------------------------------|-----------------------------------------------------------|
| label `controlled-by-advanced-deployment-controller`,  | its ReplicaSets are sized by the partition                |
| or annotation `control-info` of a release              |                                                           |
| annotation `deployment-strategy`                       | the partition, and the limits of the user's rolling update |
| annotation `deployment-extra-status`                   | how many pods should have the new version, and are ready  |

The strategy of the user comes back with the end of the release (`deployment_hold.release_hold_patch`).
"""

import copy
from collections.abc import Sequence
from typing import Final

import msgspec

from kohort.kube.resources import DEPLOYMENTS
from kohort.objects import well_known_names
from kohort.objects.apps import Deployment, ReplicaSet
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.recorded_json import read_recorded
from kohort.objects.view import View
from kohort.rollouts import step_arithmetic
from kohort.rollouts.template_hash import template_hash
from kohort.rules import rollout_labels
from kohort.rules.group_identity import parse_index
from kohort.rules.rolling_limits import RollLimits, deployment_limits

REVISION: Final = well_known_names.DEPLOYMENT_REVISION
_DESIRED: Final = well_known_names.DESIRED_REPLICAS
_MOST: Final = well_known_names.MAX_REPLICAS


class RollingLimits(View, frozen=True):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class PartitionStrategy(View, frozen=True, omit_defaults=True):
    """The annotation `deployment-strategy`."""

    rolling_style: str = ""
    rolling_update: RollingLimits | None = None
    paused: bool = False
    partition: int | str = 0


class PartitionStatus(View, frozen=True, omit_defaults=True):
    """The annotation `deployment-extra-status`."""

    updated_ready_replicas: int = 0
    expected_updated_replicas: int = 0


def read_strategy(deployment: Deployment) -> PartitionStrategy | None:
    """None if its ReplicaSets are not sized by a partition."""
    metadata = deployment.metadata
    labelled = metadata.labels.get(rollout_labels.PARTITION_CONTROLLED) == "true"
    if not labelled and rollout_labels.CONTROL_INFO not in metadata.annotations:
        return None
    text = metadata.annotations.get(rollout_labels.PARTITION_STRATEGY, "")
    found = read_recorded(text, PartitionStrategy)
    return found if found is not None and found.rolling_style.lower() in ("", "partition") else None


def expected_new(strategy: PartitionStrategy, replicas: int) -> int:
    """How many pods should have the new version."""
    return step_arithmetic.planned(strategy.partition, replicas, DEPLOYMENTS.group_kind, rollout_labels.PARTITION)


def limits(strategy: PartitionStrategy, replicas: int) -> RollLimits:
    given = strategy.rolling_update or RollingLimits()
    return deployment_limits(given.max_surge, given.max_unavailable, replicas)


def is_partitioned(deployment: Deployment) -> bool:
    """Held so that a partition can size it."""
    spec = deployment.spec
    return spec.paused and spec.strategy.type == "Recreate" and read_strategy(deployment) is not None


# Patches


def hold_patch(deployment: Deployment, control_info: str) -> JsonObject:
    """No pod of the new version yet. Limits that were saved stay saved."""
    rolling = deployment.spec.strategy.rolling_update
    known = read_strategy(deployment)
    limits_of_user = (
        known.rolling_update
        if known is not None and rolling is None
        else RollingLimits(rolling.max_unavailable, rolling.max_surge)
        if rolling is not None
        else None
    )
    strategy = PartitionStrategy("Partition", limits_of_user, partition=0)
    return {
        "metadata": {
            "labels": {rollout_labels.PARTITION_CONTROLLED: "true"},
            "annotations": {
                rollout_labels.CONTROL_INFO: control_info,
                rollout_labels.PARTITION_STRATEGY: _text(strategy),
            },
        },
        "spec": {"paused": True, "strategy": {"type": "Recreate", "rollingUpdate": None}},
    }


def hold_again_patch() -> JsonObject:
    return {"spec": {"paused": True, "strategy": {"type": "Recreate", "rollingUpdate": None}}}


def partition_patch(strategy: PartitionStrategy, partition: int | str) -> JsonObject:
    moved = msgspec.structs.replace(strategy, partition=partition, paused=False)
    return {"metadata": {"annotations": {rollout_labels.PARTITION_STRATEGY: _text(moved)}}}


def status_patch(deployment: Deployment, status: PartitionStatus) -> JsonObject | None:
    """None if it says so already."""
    text = _text(status)
    if deployment.metadata.annotations.get(rollout_labels.PARTITION_STATUS) == text:
        return None
    return {"metadata": {"annotations": {rollout_labels.PARTITION_STATUS: text}}}


def keep_partitioned(document: JsonObject, *, changed: bool) -> JsonObject:
    """An update of a partitioned Deployment: a strategy that it names is kept for later. Another template (`changed`)
    waits until a release has been made for it."""
    result = copy.deepcopy(document)
    given: JsonObject = result["spec"].get("strategy") or {}
    annotations = result["metadata"]["annotations"]
    strategy: JsonObject = read_recorded(annotations[rollout_labels.PARTITION_STRATEGY], dict[str, Json]) or {}
    if given.get("type") != "Recreate" and given.get("rollingUpdate"):
        strategy["rollingUpdate"] = given["rollingUpdate"]
    if changed:
        strategy["paused"] = True
    annotations[rollout_labels.PARTITION_STRATEGY] = msgspec.json.encode(strategy).decode()
    result["spec"]["strategy"] = {"type": "Recreate"}
    result["spec"]["paused"] = True
    return result


def _text(value: PartitionStrategy | PartitionStatus) -> str:
    return msgspec.json.encode(value).decode()


# The ReplicaSet of the new version


def new_replica_set(
    deployment: Deployment, strategy: PartitionStrategy, spec: JsonObject, known: Sequence[ReplicaSet]
) -> JsonObject:
    """As the controller of Deployments would make it, without pods. `spec` is the whole spec of the Deployment."""
    metadata, template = deployment.metadata, copy.deepcopy(spec["template"])
    name = template_hash(template)
    labels = {**((template.get("metadata") or {}).get("labels") or {}), rollout_labels.TEMPLATE_HASH: name}
    template.setdefault("metadata", {})["labels"] = labels
    selector = copy.deepcopy(spec["selector"])
    selector.setdefault("matchLabels", {})[rollout_labels.TEMPLATE_HASH] = name
    replicas = deployment.spec.replicas or 0
    revision = 1 + max((_revision(one) for one in known), default=0)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": metadata.name, "uid": metadata.uid}
    return {
        "metadata": {
            "name": f"{metadata.name}-{name}",
            "namespace": metadata.namespace,
            "labels": labels,
            "annotations": {
                REVISION: str(revision),
                _DESIRED: str(replicas),
                _MOST: str(_most_pods(deployment, strategy)),
            },
            # Without blockOwnerDeletion, which only those may set who may change finalizers of Deployments.
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "replicas": 0,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    }


def is_scaled(deployment: Deployment, known: Sequence[ReplicaSet]) -> bool:
    """The Deployment was scaled, and its ReplicaSets were not yet."""
    replicas = str(deployment.spec.replicas or 0)
    return any(one.spec.replicas and one.metadata.annotations.get(_DESIRED, replicas) != replicas for one in known)


def most_before(deployment: Deployment, replica_set: ReplicaSet) -> int | None:
    """How many pods the Deployment could have when this ReplicaSet got its size; None if it has its size already."""
    annotations = replica_set.metadata.annotations
    if annotations.get(_DESIRED) == str(deployment.spec.replicas or 0):
        return None
    return parse_index(annotations.get(_MOST)) or deployment.status.replicas


def scale_patch(deployment: Deployment, strategy: PartitionStrategy, size: int, noted: str | None) -> JsonObject:
    """`noted` is the size of the Deployment (`noted_size`), by which its own controller notices that it was scaled."""
    most = str(_most_pods(deployment, strategy))
    return {"metadata": {"annotations": {_DESIRED: noted, _MOST: most}}, "spec": {"replicas": size}}


def _most_pods(deployment: Deployment, strategy: PartitionStrategy) -> int:
    replicas = deployment.spec.replicas or 0
    return replicas + limits(strategy, replicas).surge


def noted_size(deployment: Deployment, size: int, *, others_drain: bool) -> str | None:
    """What a ReplicaSet of this size says about the size of its Deployment. The controller of Deployments deletes all
    other pods, also of a paused one, as soon as the ReplicaSet of the template is as large as the Deployment, says so,
    and has all its pods available. If pods of others are still to be drained, it does not say so."""
    replicas = deployment.spec.replicas or 0
    return None if others_drain and size >= replicas else str(replicas)


def is_noted(replica_set: ReplicaSet, noted: str | None) -> bool:
    return replica_set.metadata.annotations.get(_DESIRED) == noted


def _revision(replica_set: ReplicaSet) -> int:
    return parse_index(replica_set.metadata.annotations.get(REVISION)) or 0
