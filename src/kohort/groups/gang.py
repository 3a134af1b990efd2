"""Gang scheduling: a scheduler that places a whole group or nothing of it.

A provider says which object tells its scheduler about a group. Membership is an annotation on every pod, written by the
webhook; the object itself is made when the leader exists and goes with it.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from kohort.groups import wire
from kohort.groups.api import LeaderWorkerSet
from kohort.groups.identity import pod_group_name
from kohort.groups.objects import pod_reference
from kohort.kube.resources import Resource
from kohort.objects.jsontypes import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.quantity import Quantity

VOLCANO_POD_GROUPS: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
_VOLCANO_PREFIX: Final = "volcano.sh/"
_VOLCANO_QUEUE: Final = "scheduling.volcano.sh/queue-name"


class GangProvider(Protocol):
    name: str
    resource: Resource

    def pod_group(self, group_set: LeaderWorkerSet, leader: ObjectMeta) -> JsonObject:
        """The object for the group of `leader`; `group_set` is the set at the leader's revision."""
        ...


class Volcano:
    name = "volcano"
    resource = VOLCANO_POD_GROUPS

    def pod_group(self, group_set: LeaderWorkerSet, leader: ObjectMeta) -> JsonObject:
        labels = {key: leader.labels.get(key, "") for key in (wire.NAME, wire.GROUP_INDEX, wire.REVISION)}
        annotations = group_set.metadata.annotations
        members = 1 if group_set.startup_policy == wire.LEADER_READY else group_set.template.size
        spec: JsonObject = {"minMember": members, "minResources": group_requests(group_set)}
        if annotations.get(_VOLCANO_QUEUE):
            spec["queue"] = annotations[_VOLCANO_QUEUE]
        name = pod_group_name(labels[wire.NAME], labels[wire.GROUP_INDEX], labels[wire.REVISION])
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {
                "name": name,
                "namespace": leader.namespace,
                "labels": labels,
                "annotations": {key: value for key, value in annotations.items() if key.startswith(_VOLCANO_PREFIX)},
                "ownerReferences": [pod_reference(leader)],
            },
            "spec": spec,
        }


PROVIDERS: Final[Mapping[str, type[Volcano]]] = {"volcano": Volcano}


def group_requests(group_set: LeaderWorkerSet) -> dict[str, str]:
    """What one leader and its workers ask for together."""
    template = group_set.template
    total: dict[str, Quantity] = {}
    for spec, count in ((template.leader, 1), (template.worker, template.size - 1)):
        for name, amount in pod_requests(spec.get("spec") or {}).items():
            for _ in range(count):
                total[name] = total[name] + amount if name in total else amount
    return {name: str(amount) for name, amount in sorted(total.items())}


def pod_requests(spec: JsonObject) -> dict[str, Quantity]:
    """Requests of a template, which no API server has defaulted: where only a limit is given, that is the request."""
    running: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        _add(running, _requests(container))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        wanted = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, wanted)
            wanted = {}
        together = dict(sidecars)
        _add(together, wanted)
        _raise(peak, together)
    _add(running, sidecars)
    _raise(running, peak)
    running.update(_requests(spec))
    _add(running, {name: Quantity.parse(amount) for name, amount in (spec.get("overhead") or {}).items()})
    return running


def _requests(holder: JsonObject) -> dict[str, Quantity]:
    resources = holder.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: Quantity.parse(amount) for name, amount in wanted.items()}


def _add(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: dict[str, Quantity], floor: Mapping[str, Quantity]) -> None:
    for name, amount in floor.items():
        if name not in total or total[name] < amount:
            total[name] = amount
