"""The pods of this node: those that the API binds to it, and those that it runs."""

from kohort.kube.informer import Informer
from kohort.kube.resources import Key
from kohort.node.pod_record import PodRecord
from kohort.objects.node_pods import NodePod


class PodRegistry:
    def __init__(self, bound: Informer[NodePod]) -> None:
        """`bound` caches the pods that the API binds to this node."""
        self.bound = bound
        self._records: dict[Key, PodRecord] = {}

    def add(self, record: PodRecord) -> None:
        self._records[record.key] = record

    def remove(self, key: Key) -> None:
        self._records.pop(key, None)

    def records(self) -> list[PodRecord]:
        return list(self._records.values())

    def find(self, namespace: str, name: str) -> PodRecord | None:
        return self._records.get(Key(namespace, name))

    def with_uid(self, uid: str) -> PodRecord | None:
        return next((each for each in self._records.values() if each.uid == uid), None)

    def known(self) -> set[str]:
        """UIDs of pods that are bound here, and of those that are gone from the API but not from this node."""
        return {each.uid for each in self.records()} | {pod.metadata.uid for pod in self.bound.list()}

    def others(self, uid: str) -> list[NodePod]:
        """Pods that hold resources of this node, except the one with this UID.

        A pod that is gone from the API holds none, though its containers may still be ending: the scheduler has given
        its room away, and a pod that the node rejects for that would never run."""
        return [each.pod for each in self.records() if each.uid != uid and self._holds_resources(each)]

    def _holds_resources(self, record: PodRecord) -> bool:
        return not (self.is_gone(record.key, record.uid) or record.finished or record.rejected)

    def is_gone(self, key: Key, uid: str) -> bool:
        """Whether the API does not have this pod any more."""
        bound = self.bound.get(key)
        return bound is None or bound.metadata.uid != uid

    def addressed(self) -> list[tuple[NodePod, str]]:
        """Pods as they were last reported, with their addresses."""
        return [
            (self.bound.get(key) or each.pod, each.address)
            for key, each in self._records.items()
            if each.address and not each.finished
        ]
