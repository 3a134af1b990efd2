"""Which pods make up a group, by cached objects."""

from kohort.groups.caches import BY_GROUP, GroupCache, by_group
from kohort.kube.resources import Key
from kohort.objects.core import Pod
from kohort.objects.meta import ObjectMeta
from kohort.rules.group_identity import is_leader, parse_pod_name


class GroupMembers:
    def __init__(self, cache: GroupCache) -> None:
        self._cache = cache

    def of(self, pod: Pod) -> list[Pod]:
        """All pods of the group of a pod."""
        return [member for value in by_group(pod) for member in self._cache.pods.by_index(BY_GROUP, value)]

    def by_name(self, pod: Pod) -> list[Pod]:
        return sorted(self.of(pod), key=lambda member: member.metadata.name)

    def leader_of(self, pod: Pod) -> Pod | None:
        if is_leader(pod.metadata.labels):
            return pod
        parsed = parse_pod_name(pod.metadata.name)
        return self._cache.pods.get(Key(pod.metadata.namespace, parsed.parent)) if parsed else None

    def is_owned(self, pod: Pod, leader: Pod) -> bool:
        """Whether a worker is owned, through the StatefulSet that exists now, by the leader that exists now."""
        owner = pod.metadata.controller
        if owner is None:
            return False
        if owner.kind == "Pod":
            return owner.uid == leader.metadata.uid
        workers = self._cache.stateful_sets.get(Key(pod.metadata.namespace, owner.name))
        return workers is not None and workers.metadata.uid == owner.uid and is_controlled_by(workers.metadata, leader)

    def is_member(self, pod: Pod, leader: Pod) -> bool:
        return pod.metadata.uid == leader.metadata.uid or self.is_owned(pod, leader)


def key_of(pod: Pod) -> Key:
    return Key(pod.metadata.namespace, pod.metadata.name)


def is_controlled_by(metadata: ObjectMeta, leader: Pod) -> bool:
    return metadata.is_controlled_by(leader.metadata.uid)
