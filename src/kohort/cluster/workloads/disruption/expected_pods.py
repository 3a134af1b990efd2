"""How many pods the controllers of some pods want, read from the subresource `scale` that all of them have."""

from collections.abc import Sequence

import msgspec

from kohort.kube.client import Client
from kohort.kube.discovery import ServedResource, served_resources
from kohort.kube.errors import NotFound
from kohort.kube.event_mapping import controller_of
from kohort.kube.resources import REPLICA_SETS
from kohort.objects.core import Pod
from kohort.objects.meta import OwnerReference


class NoController(Exception):
    """The controller of a pod is gone, or has no subresource `scale`."""


class Wanted(msgspec.Struct, frozen=True):
    count: int = 0
    unmanaged: tuple[str, ...] = ()
    """Pods without a controller."""


class Scales:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._served: dict[tuple[str, str], ServedResource] = {}

    async def wanted(self, pods: Sequence[Pod]) -> Wanted:
        """What the controllers of these pods want, each counted once. Raises NoController."""
        counts: dict[str, int] = {}
        asked: set[str] = set()
        unmanaged: list[str] = []
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                unmanaged.append(pod.metadata.name)
            elif reference.uid not in asked:
                asked.add(reference.uid)
                uid, count = await self._of(pod, reference)
                counts[uid] = count
        return Wanted(sum(counts.values()), tuple(unmanaged))

    async def _of(self, pod: Pod, reference: OwnerReference) -> tuple[str, int]:
        """The controller whose scale counts, and that scale: for a ReplicaSet of a Deployment it is the Deployment."""
        not_found = NoController(f'found no controllers for pod "{pod.metadata.name}"')
        namespace = pod.metadata.namespace
        try:
            if reference.kind == "ReplicaSet":
                replica_set = await self._client.get(REPLICA_SETS, reference.name, namespace)
                if replica_set["metadata"]["uid"] != reference.uid:
                    raise not_found
                reference = controller_of(replica_set) or reference
            served = await self._resource_of(reference)
            scale = await self._client.get(served.resource, reference.name, namespace, subresource="scale")
        except NotFound:
            raise not_found from None
        if scale["metadata"]["uid"] != reference.uid:
            raise not_found
        return reference.uid, scale["spec"].get("replicas") or 0

    async def _resource_of(self, reference: OwnerReference) -> ServedResource:
        key = (reference.api_version, reference.kind)
        if key not in self._served or "scale" not in self._served[key].subresources:
            served = await served_resources(self._client, all_versions=True)
            self._served = {(one.resource.api_version, one.resource.kind): one for one in served}
        found = self._served.get(key)
        if found is None:
            raise NoController(f'no matches for kind "{reference.kind}" in version "{reference.api_version}"')
        if "scale" not in found.subresources:
            raise NoController(f"{found.resource.qualified} does not implement the scale subresource")
        return found
