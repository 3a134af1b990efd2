"""A Deployment or a StatefulSet and what belongs to it, read at one time: what a Rollout may release besides sets of
groups.

| | Deployment | StatefulSet |
|---|---|---|
| a version is kept as | a ReplicaSet, numbered by its annotation | a ControllerRevision |
| the wanted one | that with its template; none while a release holds it back | status.updateRevision |
| the stable one | as the release has noted it, else the newest other one that still has pods | status.currentRevision |
| it is held by | spec.paused | spec.updateStrategy.rollingUpdate.partition |
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kohort.inspection.pod_context import PodContext
from kohort.inspection.release_subject import is_releasing
from kohort.inspection.served_revisions import CHANGE_CAUSE, SERVED_AT, Version, images
from kohort.objects import well_known_names
from kohort.objects.apps import ReplicaSet
from kohort.objects.core import Event, PersistentVolumeClaim, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.view import View
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.workloads.deployment_hold import earlier_revision_of, revision_of, template_content
from kohort.rules import rollout_labels

DEPLOYMENT: Final = "Deployment"
STATEFUL_SET: Final = "StatefulSet"
NUMBER: Final = well_known_names.DEPLOYMENT_REVISION
STATEFUL_SET_REVISION: Final = well_known_names.CONTROLLER_REVISION_HASH


class StoredRevision(View, frozen=True):
    """A ControllerRevision of a StatefulSet."""

    metadata: ObjectMeta = ObjectMeta()
    revision: int = 0
    data: JsonObject = {}  # noqa: RUF012

    @property
    def template(self) -> JsonObject:
        found = (self.data.get("spec") or {}).get("template") or {}
        return {key: value for key, value in found.items() if key != "$patch"}


class PlainWorkload(msgspec.Struct, frozen=True):
    kind: str
    metadata: ObjectMeta
    spec: JsonObject
    status: JsonObject
    pods: Sequence[Pod] = ()
    replica_sets: Sequence[ReplicaSet] = ()
    revisions: Sequence[StoredRevision] = ()
    rollout: Rollout | None = None
    routes: Sequence[JsonObject] = ()
    events: Sequence[Event] = ()
    claims: Sequence[PersistentVolumeClaim] = ()
    silent_nodes: Mapping[str, str] = {}
    """Nodes of its pods that do not report that they are ready, by name: since when."""
    canary: "PlainWorkload | None" = None
    """The extra Deployment that carries the new version while a Rollout is under way."""

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def reference(self) -> str:
        return f"{self.kind.lower()}/{self.metadata.name}"

    @property
    def replicas(self) -> int:
        count = self.spec.get("replicas")
        return 1 if count is None else count

    @property
    def ready(self) -> int:
        return self.status.get("readyReplicas") or 0

    @property
    def updated(self) -> int:
        return self.status.get("updatedReplicas") or 0

    @property
    def existing(self) -> int:
        return self.status.get("replicas") or 0

    @property
    def observed(self) -> bool:
        return (self.status.get("observedGeneration") or 0) >= self.metadata.generation

    @property
    def partition(self) -> int:
        strategy = self.spec.get("updateStrategy") or {}
        return (strategy.get("rollingUpdate") or {}).get("partition") or 0

    @property
    def pod_context(self) -> PodContext:
        return PodContext(
            self.reference,
            self.metadata.namespace,
            self.pods,
            self.events,
            self.claims,
            silent_nodes=self.silent_nodes,
        )

    @property
    def complete(self) -> bool:
        """Its controller has seen the last edit, and all replicas are up to date and ready."""
        wanted = self.replicas
        return self.observed and (self.existing, self.updated, self.ready) == (wanted, wanted, wanted)

    @property
    def releasing(self) -> bool:
        return is_releasing(self.metadata, self.rollout)

    @property
    def held(self) -> bool:
        if self.kind == DEPLOYMENT:
            return bool(self.spec.get("paused"))
        return self.partition > 0

    @property
    def template(self) -> JsonObject:
        return self.spec.get("template") or {}

    @property
    def versions(self) -> Sequence[Version]:
        if self.kind == DEPLOYMENT:
            return [_of_replica_set(one) for one in self.replica_sets]
        return [_of_revision(one) for one in self.revisions]

    def has_version(self, recorded: str) -> bool:
        if self.kind == STATEFUL_SET:
            return self.observed and self.status.get("updateRevision") == recorded
        return recorded in (revision_of(self.template), earlier_revision_of(self.template))

    @property
    def update_key(self) -> str:
        if self.kind == STATEFUL_SET:
            return _short(self.status.get("updateRevision") or "", self.name)
        wanted = revision_of(self.template)
        return next((_hash(one) for one in self.replica_sets if revision_of(one.spec.template) == wanted), "")

    @property
    def stable_key(self) -> str:
        if self.releasing and (noted := self.metadata.labels.get(rollout_labels.STABLE_REVISION)):
            return _short(noted, self.name) if self.kind == STATEFUL_SET else noted
        if self.kind == STATEFUL_SET:
            return _short(self.status.get("currentRevision") or "", self.name)
        wanted = self.update_key
        before = [one for one in self.replica_sets if one.spec.replicas and _hash(one) != wanted]
        return wanted if self.complete or not before else _hash(max(before, key=_number))

    @property
    def using(self) -> Mapping[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for pod in self.pods:
            found.setdefault(self.version_of(pod), []).append(0)
        return {key: tuple(value) for key, value in found.items()}

    def version_of(self, pod: Pod) -> str:
        labels = pod.metadata.labels
        if self.kind == DEPLOYMENT:
            return labels.get(rollout_labels.TEMPLATE_HASH, "")
        return _short(labels.get(STATEFUL_SET_REVISION, ""), self.name)


def _hash(replica_set: ReplicaSet) -> str:
    return replica_set.metadata.labels.get(rollout_labels.TEMPLATE_HASH, "")


def _number(replica_set: ReplicaSet) -> int:
    text = replica_set.metadata.annotations.get(NUMBER, "")
    return int(text) if text.isdigit() else 0


def _short(revision: str, name: str) -> str:
    """The key of a ControllerRevision: its name without that of the workload.

    >>> _short("web-6b7d", "web")
    '6b7d'
    """
    return revision.removeprefix(f"{name}-")


def _of_replica_set(one: ReplicaSet) -> Version:
    template = template_content(one.spec.template)
    return Version(
        number=_number(one),
        key=_hash(one),
        created=one.metadata.creation_timestamp or "",
        served_at=one.metadata.annotations.get(SERVED_AT, ""),
        change_cause=one.metadata.annotations.get(CHANGE_CAUSE, ""),
        content={"template": template},
        images=images(template),
    )


def _of_revision(one: StoredRevision) -> Version:
    owner = one.metadata.controller
    return Version(
        number=one.revision,
        key=_short(one.metadata.name, owner.name if owner is not None else ""),
        created=one.metadata.creation_timestamp or "",
        served_at=one.metadata.annotations.get(SERVED_AT, ""),
        change_cause=one.metadata.annotations.get(CHANGE_CAUSE, ""),
        content={"template": one.template},
        images=images(one.template),
    )
