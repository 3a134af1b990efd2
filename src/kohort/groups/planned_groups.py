"""The pods that a group of a set will have, as they reach the scheduler: out of its templates, with what the operator
and the webhook write into them. They are made by the same functions, so that a rule about where pods go cannot be known
to one side only."""

import msgspec

from kohort.groups import tpu_environment
from kohort.groups.child_objects import leader_stateful_set, worker_stateful_set
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.pod_mutation import PodRefused, mutated
from kohort.groups.rolling_update import RollPlan, RollReason
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.rules import group_labels
from kohort.rules.group_identity import leader_name
from kohort.rules.scheduling.planned_group import PlannedGroup, Unit
from kohort.rules.stored_requests import with_stored_requests

_ANY = RollPlan(0, 0, RollReason.NEW_SET)


def plan_group(metadata: ObjectMeta, spec: JsonObject, index: int) -> PlannedGroup | None:
    """A group of the set with this metadata and spec; None if no pod of the set can be made."""
    try:
        return planned_group(LeaderWorkerSet(metadata, spec), index)
    except PodRefused:
        return None


def planned_group(group_set: LeaderWorkerSet, index: int) -> PlannedGroup:
    """Raises PodRefused if no pod of the set can be made at all."""
    pods = [_as_stored(one) for one in _documents(group_set, index)]
    units: dict[str, list[Pod]] = {}
    for pod in pods:
        units.setdefault(pod.metadata.labels.get(group_labels.SUBGROUP_KEY) or pod.metadata.name, []).append(pod)
    return PlannedGroup(
        pods[0].metadata.annotations.get(group_labels.EXCLUSIVE, ""),
        [Unit(_topology_of_subgroup(unit[0]), unit) for unit in units.values()],
    )


def _as_stored(document: JsonObject) -> Pod:
    return msgspec.convert({**document, "spec": with_stored_requests(document["spec"])}, Pod)


def _topology_of_subgroup(pod: Pod) -> str:
    """A leader may be in none."""
    member = group_labels.SUBGROUP_KEY in pod.metadata.labels
    return pod.metadata.annotations.get(group_labels.SUBGROUP_EXCLUSIVE, "") if member else ""


def _documents(group_set: LeaderWorkerSet, index: int) -> list[JsonObject]:
    namespace, name = group_set.metadata.namespace, leader_name(group_set.metadata.name, index)
    template = leader_stateful_set(group_set, "", _ANY)["spec"]["template"]
    leader = mutated(_pod(template, namespace, name), namespace)
    workers = worker_stateful_set(
        group_set,
        msgspec.convert(leader["metadata"], ObjectMeta),
        leader_has_tpus=tpu_environment.pod_requests_tpus(leader["spec"]),
    )["spec"]["template"]
    # The operator names the leader's domain here. There is no leader yet: who places the group keeps it together.
    (workers.get("spec") or {}).get("nodeSelector", {}).pop(group_set.exclusive_topology, None)
    names = [f"{name}-{worker}" for worker in range(1, group_set.template.size)]
    return [leader, *(mutated(_pod(workers, namespace, one), namespace) for one in names)]


def _pod(template: JsonObject, namespace: str, name: str) -> JsonObject:
    metadata = {**template["metadata"], "name": name, "namespace": namespace, "uid": f"to come: {namespace}/{name}"}
    return {"metadata": metadata, "spec": template.get("spec") or {"containers": []}}
