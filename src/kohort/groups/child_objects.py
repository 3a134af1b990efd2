"""The objects that make up a set: the leader StatefulSet, a worker StatefulSet per group, Services, revisions.

The leader StatefulSet is applied, so it holds exactly the fields listed here and nothing else: one more label in its
pod template would restart every group of a set that another implementation created. A worker StatefulSet is created
once and never changed; a group gets a new one with its next leader.
"""

from collections.abc import Mapping

from kohort.groups.leaderworkerset import LeaderWorkerSet, LeaderWorkerTemplate
from kohort.groups.rolling_update import RollPlan
from kohort.objects import int_or_string
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta, controller_reference
from kohort.rules import group_labels
from kohort.rules.group_identity import leader_labels

Labels = Mapping[str, str]


def leader_stateful_set(
    group_set: LeaderWorkerSet,
    revision: str,
    plan: RollPlan,
    existing: JsonObject | None = None,
    *,
    on_delete: bool = False,
) -> JsonObject:
    """What is applied under the field manager `lws`. `on_delete`: it shall replace no pod by itself (`early_rolls`).

    The claims of an existing StatefulSet cannot change, and another implementation may have written fewer of their
    fields than we would: they are sent back as they are.
    """
    name = group_set.metadata.name
    template = group_set.template
    unavailable = min(group_set.limits.replaced_at_once, int_or_string.LARGEST)
    strategy = group_set.spec.get("rolloutStrategy") or {}
    spec: JsonObject = {
        "serviceName": name,
        "replicas": plan.replicas,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": leader_labels(name)},
        "updateStrategy": {"type": "OnDelete"}
        if on_delete
        else {
            "type": strategy.get("type") or "RollingUpdate",
            "rollingUpdate": {"partition": plan.partition, "maxUnavailable": unavailable},
        },
        "template": _template(
            template.leader,
            {**leader_labels(name), group_labels.REVISION: revision},
            _leader_annotations(group_set),
        ),
        **_claims(template, group_set.metadata.namespace),
    }
    claims = (existing or {}).get("spec", {}).get("volumeClaimTemplates")
    if claims:
        spec["volumeClaimTemplates"] = claims
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": group_set.metadata.namespace,
            "labels": {**group_set.metadata.labels, group_labels.NAME: name, group_labels.REVISION: revision},
            "annotations": {**_copied(group_set), group_labels.REPLICAS: str(group_set.replicas)},
            "ownerReferences": [group_set.owner_reference()],
        },
        "spec": spec,
    }


def worker_stateful_set(
    group_set: LeaderWorkerSet, leader: ObjectMeta, *, leader_has_tpus: bool, topology_value: str = ""
) -> JsonObject:
    """The workers of one group. `group_set` is the set as it was at the leader's revision."""
    name, labels = leader.name, leader.labels
    template = group_set.template
    group = {
        group_labels.NAME: group_set.metadata.name,
        group_labels.GROUP_INDEX: labels.get(group_labels.GROUP_INDEX, ""),
        group_labels.GROUP_KEY: labels.get(group_labels.GROUP_KEY, ""),
        group_labels.REVISION: labels.get(group_labels.REVISION, ""),
    }
    pod = _template(template.worker, group, _worker_annotations(group_set, name, leader_has_tpus))
    if group_set.exclusive_topology:
        spec = pod.setdefault("spec", {})
        selector = {**(spec.get("nodeSelector") or {}), group_set.exclusive_topology: topology_value}
        pod["spec"] = {**spec, "nodeSelector": selector}
    unique = group_set.subdomain_policy == group_labels.UNIQUE
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name,
            "namespace": leader.namespace,
            "labels": {**group_set.metadata.labels, **group},
            "annotations": _copied(group_set),
            "ownerReferences": [pod_reference(leader)],
        },
        "spec": {
            "serviceName": name if unique else group_set.metadata.name,
            "replicas": template.size - 1,
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": 1},
            "selector": {
                "matchLabels": {
                    key: group[key] for key in (group_labels.NAME, group_labels.GROUP_INDEX, group_labels.GROUP_KEY)
                }
            },
            "template": pod,
            **_claims(template, leader.namespace),
        },
    }


def shared_service(group_set: LeaderWorkerSet) -> JsonObject:
    name = group_set.metadata.name
    selector = {group_labels.NAME: name}
    return _service(name, group_set.metadata.namespace, name, selector, group_set.owner_reference())


def replica_service(group_set: LeaderWorkerSet, leader: ObjectMeta) -> JsonObject:
    name = group_set.metadata.name
    selector = {group_labels.NAME: name, group_labels.GROUP_INDEX: leader.labels.get(group_labels.GROUP_INDEX, "")}
    return _service(leader.name, leader.namespace, name, selector, pod_reference(leader))


def _service(name: str, namespace: str, set_name: str, selector: Labels, owner: JsonObject) -> JsonObject:
    """Headless, and publishing addresses before readiness: members look each other up while they start."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {group_labels.NAME: set_name},
            "ownerReferences": [owner],
        },
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": dict(selector)},
    }


def pod_reference(pod: ObjectMeta) -> JsonObject:
    return controller_reference("v1", "Pod", pod.name, pod.uid)


def _template(template: JsonObject, labels: Labels, annotations: Labels) -> JsonObject:
    meta = template.get("metadata") or {}
    return {
        **template,
        "metadata": {
            **meta,
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": {**(meta.get("annotations") or {}), **annotations},
        },
    }


def _leader_annotations(group_set: LeaderWorkerSet) -> dict[str, str]:
    annotations = _common_annotations(group_set)
    if group_set.subdomain_policy == group_labels.UNIQUE:
        annotations[group_labels.SUBDOMAIN_POLICY] = group_labels.UNIQUE
    return annotations


def _worker_annotations(group_set: LeaderWorkerSet, leader: str, leader_has_tpus: bool) -> dict[str, str]:
    annotations = _common_annotations(group_set)
    annotations[group_labels.LEADER_NAME] = leader
    if leader_has_tpus:
        annotations[group_labels.LEADER_REQUESTS_TPUS] = "true"
    return annotations


def _common_annotations(group_set: LeaderWorkerSet) -> dict[str, str]:
    template = group_set.template
    annotations = {group_labels.SIZE: str(template.size), **group_set.placement_annotations}
    subgroups = template.subgroups
    if subgroups is not None:
        annotations[group_labels.SUBGROUP_SIZE] = str(subgroups.sub_group_size)
        if subgroups.sub_group_policy_type is not None:
            annotations[group_labels.SUBGROUP_POLICY] = subgroups.sub_group_policy_type
    scheduling = template.scheduling
    if scheduling is not None:
        if scheduling.replica_unique_node_selector:
            annotations[group_labels.UNIQUE_NODE_SELECTOR] = scheduling.replica_unique_node_selector
        if scheduling.replica_unique_toleration is not None:
            annotations[group_labels.UNIQUE_TOLERATION_KEY] = scheduling.replica_unique_toleration.key
            annotations[group_labels.UNIQUE_TOLERATION_EFFECT] = scheduling.replica_unique_toleration.effect
    return annotations


def _copied(group_set: LeaderWorkerSet) -> dict[str, str]:
    """Annotations of the set go to its StatefulSets; kubectl's note of what was applied to the set would only mislead
    there."""
    return {key: value for key, value in group_set.metadata.annotations.items() if key != group_labels.LAST_APPLIED}


def _claims(template: LeaderWorkerTemplate, namespace: str) -> JsonObject:
    found: JsonObject = {}
    if template.claims:
        found["volumeClaimTemplates"] = [_claim(claim, namespace) for claim in template.claims]
    if template.retention is not None:
        found["persistentVolumeClaimRetentionPolicy"] = template.retention
    return found


def _claim(claim: JsonObject, namespace: str) -> JsonObject:
    metadata = {key: value for key, value in (claim.get("metadata") or {}).items() if key != "creationTimestamp"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**metadata, "namespace": namespace},
        "spec": claim.get("spec") or {},
    }
