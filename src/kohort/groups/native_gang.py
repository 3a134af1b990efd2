"""Gangs by Kubernetes itself: Workload and PodGroup of `scheduling.k8s.io/v1alpha2`.

The API is alpha in 1.36 and served only with the feature gate GenericWorkload; its scheduler uses it with
GangScheduling. A pod whose PodGroup does not exist yet, or that has too few members yet, is not scheduled, so members
may come in any order.

The PodGroup of a group is owned by its leader, but must not hold up the leader's end: Kubernetes keeps a PodGroup until
the last of its pods is gone, the leader included, and both would wait for each other for ever.

How many members there must be at once: all of them, unless workers are made only when their leader runs or has a node.
"""

from collections.abc import Sequence
from typing import Final

from kohort.groups.child_objects import pod_reference
from kohort.groups.gang import gang_labels, gang_of
from kohort.groups.leaderworkerset import API_VERSION, KIND, LeaderWorkerSet
from kohort.groups.revisions import Revision
from kohort.kube.resources import Resource
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rules import group_labels

POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup")
WORKLOADS: Final = Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload")
_TEMPLATE: Final = "group"


class KubernetesPodGroups:
    name = "kubernetes"
    resource = POD_GROUPS
    needs = (
        "the API server must serve scheduling.k8s.io/v1alpha2, with the feature gates GenericWorkload and "
        "GangScheduling switched on"
    )

    def join(self, metadata: JsonObject, spec: JsonObject) -> None:
        spec["schedulingGroup"] = {"podGroupName": gang_of(metadata["labels"])}

    def shared(self, group_set: LeaderWorkerSet, revision: Revision) -> Sequence[tuple[Resource, JsonObject]]:
        """The Workload, which goes with the revision."""
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "name": revision.metadata.name,
            "uid": revision.metadata.uid,
            "controller": True,
        }
        controller = {"apiGroup": API_VERSION.partition("/")[0], "kind": KIND, "name": group_set.metadata.name}
        template = {"name": _TEMPLATE, "schedulingPolicy": _policy(group_set)}
        body = {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "metadata": {
                "name": _workload_name(group_set.metadata.name, revision.key),
                "namespace": group_set.metadata.namespace,
                "labels": {group_labels.NAME: group_set.metadata.name, group_labels.REVISION: revision.key},
                "ownerReferences": [owner],
            },
            "spec": {"controllerRef": controller, "podGroupTemplates": [template]},
        }
        return [(WORKLOADS, body)]

    def pod_group(self, group_set: LeaderWorkerSet, leader: ObjectMeta) -> JsonObject:
        workload = _workload_name(group_set.metadata.name, leader.labels.get(group_labels.REVISION, ""))
        template = {"workloadName": workload, "podGroupTemplateName": _TEMPLATE}
        return {
            "apiVersion": POD_GROUPS.api_version,
            "kind": POD_GROUPS.kind,
            "metadata": {
                "name": gang_of(leader.labels),
                "namespace": leader.namespace,
                "labels": gang_labels(leader),
                "ownerReferences": [{**pod_reference(leader), "blockOwnerDeletion": False}],
            },
            "spec": {"podGroupTemplateRef": {"workload": template}, "schedulingPolicy": _policy(group_set)},
        }


def _workload_name(name: str, key: str) -> str:
    return f"{name}-{key}"


def _policy(group_set: LeaderWorkerSet) -> JsonObject:
    one_by_one = group_set.startup_policy == group_labels.LEADER_READY or bool(group_set.exclusive_topology)
    return {"gang": {"minCount": 1 if one_by_one else group_set.template.size}}
