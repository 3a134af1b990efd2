"""Gang scheduling: a scheduler that places a whole group or nothing of it.

A provider says how pods join their gang (written by the webhook) and which objects describe a group to its scheduler.
Those are made when the leader exists, and the gang's own object goes with it. Its name holds the revision, so a roll
makes a new one; a group that is recreated at the same revision has to wait until the old one is collected.

| provider | pods join by | objects |
|---|---|---|
| volcano | annotation `scheduling.k8s.io/group-name` | a Volcano PodGroup per group |
| kubernetes | field `spec.schedulingGroup` | a Workload per revision, a PodGroup per group (see `native_gang`) |

Where the cluster does not serve the API of the provider, groups come up without it, and an event says so.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from kohort.groups import messages
from kohort.groups.child_objects import pod_reference
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.revisions import Revision
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists, ApiError, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.resources import LEADER_WORKER_SETS, Resource
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.quantity import Quantity
from kohort.resources import effective
from kohort.resources.amounts import summed, written_of
from kohort.rules import group_labels
from kohort.rules.group_identity import pod_group_name

VOLCANO_POD_GROUPS: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
_VOLCANO_PREFIX: Final = "volcano.sh/"
_VOLCANO_QUEUE: Final = "scheduling.volcano.sh/queue-name"
COLLECTED_SECONDS: Final = 1.0
"""How often to look whether the gang of the previous leader is gone."""
INSTALLED_SECONDS: Final = 60.0
"""How often to look whether the provider's API is served by now."""


class GangProvider(Protocol):
    name: str
    resource: Resource
    """The gang's own object."""
    needs: str
    """What to do so that its API is served, for an event."""

    def join(self, metadata: JsonObject, spec: JsonObject) -> None:
        """Make a pod a member of its gang. Changes both."""
        ...

    def shared(self, group_set: LeaderWorkerSet, revision: Revision) -> Sequence[tuple[Resource, JsonObject]]:
        """Objects that all groups of a revision have together."""
        ...

    def pod_group(self, group_set: LeaderWorkerSet, leader: ObjectMeta) -> JsonObject:
        """The object for the group of `leader`; `group_set` is the set at the leader's revision."""
        ...


class Gangs:
    """Keeps a gang for every leader."""

    def __init__(self, client: Client, recorder: EventRecorder, provider: GangProvider) -> None:
        self._client = client
        self._recorder = recorder
        self.provider = provider
        self._shared: set[str] = set()
        """Revisions, by uid, whose shared objects exist."""

    async def ensure(self, then: LeaderWorkerSet, revision: Revision, leader: Pod) -> float:
        """Returns in how many seconds to try again, 0 when all is there."""
        resource = self.provider.resource
        body = self.provider.pod_group(then, leader.metadata)
        metadata = body["metadata"]
        try:
            existing = await self._client.get(resource, metadata["name"], metadata["namespace"])
        except NotFound:
            return await self._create(then, revision, body)
        owners = existing["metadata"].get("ownerReferences") or ()
        return 0.0 if any(one["uid"] == leader.metadata.uid for one in owners) else COLLECTED_SECONDS

    async def _create(self, then: LeaderWorkerSet, revision: Revision, body: JsonObject) -> float:
        try:
            await self._create_shared(then, revision)
            await self._client.create(self.provider.resource, body)
        except AlreadyExists:
            return COLLECTED_SECONDS
        except NotFound as problem:
            text = messages.gang_failed(problem.message, self.provider.needs)
            self._recorder.warning(LEADER_WORKER_SETS, then, "FailedCreate", text, action="Create")
            return INSTALLED_SECONDS
        except ApiError:
            # The shared objects may have been deleted since they were created, so they are asked for again.
            self._shared.discard(revision.metadata.uid)
            raise
        return 0.0

    async def _create_shared(self, then: LeaderWorkerSet, revision: Revision) -> None:
        uid = revision.metadata.uid
        if uid in self._shared:
            return
        for resource, body in self.provider.shared(then, revision):
            try:
                await self._client.create(resource, body)
            except AlreadyExists:
                continue
        self._shared.add(uid)


class Volcano:
    name = "volcano"
    resource = VOLCANO_POD_GROUPS
    needs = "install Volcano"

    def join(self, metadata: JsonObject, spec: JsonObject) -> None:
        metadata["annotations"][group_labels.POD_GROUP] = gang_of(metadata["labels"])

    def shared(self, group_set: LeaderWorkerSet, revision: Revision) -> Sequence[tuple[Resource, JsonObject]]:
        return ()

    def pod_group(self, group_set: LeaderWorkerSet, leader: ObjectMeta) -> JsonObject:
        annotations = group_set.metadata.annotations
        members = 1 if group_set.startup_policy == group_labels.LEADER_READY else group_set.template.size
        spec: JsonObject = {"minMember": members, "minResources": group_requests(group_set)}
        if annotations.get(_VOLCANO_QUEUE):
            spec["queue"] = annotations[_VOLCANO_QUEUE]
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {
                "name": gang_of(leader.labels),
                "namespace": leader.namespace,
                "labels": gang_labels(leader),
                "annotations": {key: value for key, value in annotations.items() if key.startswith(_VOLCANO_PREFIX)},
                "ownerReferences": [pod_reference(leader)],
            },
            "spec": spec,
        }


def gang_of(labels: JsonObject) -> str:
    """The name of the gang that a pod belongs to."""
    return pod_group_name(
        labels[group_labels.NAME], labels.get(group_labels.GROUP_INDEX, ""), labels.get(group_labels.REVISION, "")
    )


def gang_labels(leader: ObjectMeta) -> dict[str, str]:
    return {
        key: leader.labels.get(key, "") for key in (group_labels.NAME, group_labels.GROUP_INDEX, group_labels.REVISION)
    }


def group_requests(group_set: LeaderWorkerSet) -> dict[str, str]:
    """What one leader and its workers ask for together."""
    template = group_set.template
    workers = [pod_requests(template.worker)] * (template.size - 1)
    return dict(sorted(written_of(summed([pod_requests(template.leader), *workers])).items()))


def pod_requests(template: JsonObject) -> dict[str, Quantity]:
    """Requests of a template, which no API server has defaulted: where only a limit is given, that is the request."""
    spec = template.get("spec") or {}
    defaulted = {**_defaulted(spec)}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            defaulted[kind] = [_defaulted(container) for container in spec[kind]]
    return effective.requests(effective.view_of({"spec": defaulted}))


def _defaulted(holder: JsonObject) -> JsonObject:
    resources = holder.get("resources")
    if not resources:
        return holder
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {**holder, "resources": {**resources, "requests": requests}}
