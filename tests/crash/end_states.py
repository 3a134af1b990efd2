"""What must be the same at the end of a scenario, with or without a crash: everything that is stored about sets, groups
and releases, without what differs from run to run (uids, versions, times, nodes)."""

import msgspec

from kohort.kube.resources import (
    BATCH_RELEASES,
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    INGRESSES,
    LEADER_WORKER_SETS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    ROLLOUTS,
    SERVICES,
    STATEFUL_SETS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.well_known_names import DELETION_COST
from kohort.rules import group_labels, rollout_labels
from kohort.testing import Cluster

NAMESPACE = "default"
_COUNTERS = ("replicas", "readyReplicas", "updatedReplicas", "updatedReadyReplicas", "disruptionsAllowed")
_NAMES_ONLY = (CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, BATCH_RELEASES, POD_DISRUPTION_BUDGETS)


def end_state(cluster: Cluster) -> Json:
    """The extra set of a release is named after the uid of its release, so it gets a name that is always the same."""
    text = msgspec.json.encode(_everything(cluster)).decode()
    for one in _objects(cluster, LEADER_WORKER_SETS):
        if rollout_labels.CANARY_SET in (one["metadata"].get("labels") or {}):
            text = text.replace(_name(one), "canary")
    return msgspec.json.decode(text)


def _everything(cluster: Cluster) -> JsonObject:
    return {
        "sets": {_name(one): _group_set(one) for one in _objects(cluster, LEADER_WORKER_SETS)},
        "stateful sets": {_name(one): _stateful_set(one) for one in _objects(cluster, STATEFUL_SETS)},
        "pods": {_name(one): _pod(one) for one in _objects(cluster, PODS)},
        "revisions": sorted(
            one["metadata"]["labels"].get(group_labels.REVISION, "")
            for one in _objects(cluster, CONTROLLER_REVISIONS)
            if _belongs_to_set(one)
        ),
        "services": {_name(one): one["spec"].get("selector") for one in _objects(cluster, SERVICES)},
        "ingresses": {_name(one): one["metadata"].get("annotations") for one in _objects(cluster, INGRESSES)},
        "rollouts": {_name(one): _rollout(one) for one in _objects(cluster, ROLLOUTS)},
        **{resource.plural: sorted(map(_name, _objects(cluster, resource))) for resource in _NAMES_ONLY},
    }


def deployment_state(cluster: Cluster) -> Json:
    """Of a released Deployment, whose pods and ReplicaSets have other names in every run."""
    sets = _objects(cluster, REPLICA_SETS)
    return {
        "deployments": {_name(one): _deployment(one) for one in _objects(cluster, DEPLOYMENTS)},
        "replica sets": sorted((_image(one["spec"]["template"]), one["spec"]["replicas"]) for one in sets),
        "pods": sorted((_image(one), *_marks(one)) for one in _objects(cluster, PODS)),
        "services": {_name(one): [one["spec"].get("selector"), _marks(one)] for one in _objects(cluster, SERVICES)},
        "ingresses": {_name(one): one["metadata"].get("annotations") for one in _objects(cluster, INGRESSES)},
        "rollouts": {_name(one): _rollout(one) for one in _objects(cluster, ROLLOUTS)},
        "releases": sorted(map(_name, _objects(cluster, BATCH_RELEASES))),
    }


def _deployment(one: JsonObject) -> JsonObject:
    return {"spec": one["spec"], "marks": _marks(one)}


def _image(template: JsonObject) -> str:
    image: str = template["spec"]["containers"][0]["image"]
    return image


def _marks(one: JsonObject) -> list[str]:
    """Keys of labels and annotations of ours."""
    metadata = one["metadata"]
    keys = [*(metadata.get("labels") or ()), *(metadata.get("annotations") or ())]
    return sorted(key for key in keys if key.startswith(("kohort.dev/", "rollouts.kruise.io/", DELETION_COST)))


def installed_objects(cluster: Cluster) -> Json:
    """What an installation leaves in a cluster, or does not."""
    resources = (CUSTOM_RESOURCE_DEFINITIONS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, NAMESPACES)
    return {resource.plural: sorted(map(_name, cluster.objects(resource))) for resource in resources}


def _objects(cluster: Cluster, resource: Resource) -> list[JsonObject]:
    return cluster.objects(resource, NAMESPACE)


def _name(one: JsonObject) -> str:
    name: str = one["metadata"]["name"]
    return name


def _belongs_to_set(revision: JsonObject) -> bool:
    """StatefulSets keep revisions of their own, also of templates that they had for a moment only."""
    return any(owner["kind"] == "LeaderWorkerSet" for owner in revision["metadata"].get("ownerReferences") or ())


def _true_conditions(status: JsonObject) -> list[str]:
    return sorted(one["type"] for one in status.get("conditions") or () if one["status"] == "True")


def _group_set(one: JsonObject) -> JsonObject:
    status = one.get("status") or {}
    restarts = status.get("restarts") or {}
    return {
        "spec": one["spec"],
        "counters": {name: status.get(name) for name in _COUNTERS},
        "conditions": _true_conditions(status),
        "revisions": [status.get("stableRevision"), status.get("updateRevision")],
        "resize": (status.get("resize") or {}).get("state"),
        "restarts": {group: len(entry.get("times") or ()) for group, entry in restarts.items()},
        "held": sorted(group for group, entry in restarts.items() if entry.get("exhausted")),
        "finalizers": one["metadata"].get("finalizers"),
        "deleting": "deletionTimestamp" in one["metadata"],
    }


def _stateful_set(one: JsonObject) -> JsonObject:
    spec = one["spec"]
    return {
        "replicas": spec.get("replicas"),
        "partition": ((spec.get("updateStrategy") or {}).get("rollingUpdate") or {}).get("partition"),
        "revision": (one["metadata"].get("labels") or {}).get(group_labels.REVISION),
        "deleting": "deletionTimestamp" in one["metadata"],
    }


def _pod(one: JsonObject) -> JsonObject:
    conditions = (one.get("status") or {}).get("conditions") or ()
    return {
        "revision": (one["metadata"].get("labels") or {}).get(group_labels.REVISION),
        "containers": [(each["image"], each.get("resources")) for each in one["spec"]["containers"]],
        "ready": any(each["type"] == "Ready" and each["status"] == "True" for each in conditions),
        "deleting": "deletionTimestamp" in one["metadata"],
    }


def _rollout(one: JsonObject) -> JsonObject:
    status = one.get("status") or {}
    progress = status.get("canaryStatus") or status.get("blueGreenStatus") or {}
    return {
        "phase": status.get("phase"),
        "step": progress.get("currentStepIndex"),
        "state": progress.get("currentStepState"),
        "deleting": "deletionTimestamp" in one["metadata"],
    }
