"""The ControllerRevisions of a StatefulSet or DaemonSet: find, choose, create and prune them."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kohort.cluster.workloads import controller_ref, revisions
from kohort.cluster.workloads.revisions import HASH_LABEL, CreateRevision, Revision
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists, NotFound
from kohort.kube.informer import Informer
from kohort.kube.resources import CONTROLLER_REVISIONS
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta

DEFAULT_LIMIT: Final = 10
"""Of `spec.revisionHistoryLimit`."""


class StoredRevision(msgspec.Struct, frozen=True):
    """A ControllerRevision as read from the cache."""

    metadata: ObjectMeta
    revision: int = 0
    data: JsonObject = {}

    def revision_with(self, hash_label: str) -> Revision:
        """A revision without the label is known by its name."""
        hash = self.metadata.labels.get(hash_label) or self.metadata.name
        return Revision(self.metadata.name, self.revision, self.data, hash)


class Resolved(msgspec.Struct, frozen=True):
    current: Revision
    update: Revision
    collisions: int
    all: list[Revision]

    @property
    def duplicates(self) -> list[Revision]:
        """Revisions with the same template as the update revision, made by hand or by another version of the
        software."""
        return [one for one in self.all if one.data == self.update.data and one.name != self.update.name]


def template_data(template: JsonObject) -> JsonObject:
    """What a revision stores: a patch that puts the template back."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_of(revision: Revision) -> JsonObject:
    template: JsonObject = dict(revision.data["spec"]["template"])
    template.pop("$patch", None)
    return template


class History:
    """`hash_label` is the label of a revision that holds the hash at the end of its name."""

    def __init__(self, client: Client, cache: Informer[StoredRevision], hash_label: str = HASH_LABEL) -> None:
        self._client = client
        self._cache = cache
        self._hash_label = hash_label

    async def resolve(self, owner: JsonObject) -> Resolved:
        """The current and the update revision of the set, written if they do not exist yet."""
        stored = await self._owned(owner)
        known = [one.revision_with(self._hash_label) for one in stored]
        status = owner.get("status") or {}
        update, collisions = await self._update_revision(owner, known, status.get("collisionCount") or 0)
        known = [one for one in known if one.name != update.name] + [update]
        current = next((one for one in known if one.name == status.get("currentRevision")), update)
        return Resolved(current, update, collisions, known)

    async def delete_surplus(self, owner: JsonObject, resolved: Resolved, used: set[str], limit: int) -> None:
        live = used | {resolved.current.name, resolved.update.name}
        await self.delete(owner, revisions.surplus(resolved.all, live, limit))

    async def delete(self, owner: JsonObject, surplus: Sequence[Revision]) -> None:
        for one in surplus:
            try:
                await self._client.delete(CONTROLLER_REVISIONS, one.name, owner["metadata"]["namespace"])
            except NotFound:
                continue

    async def _owned(self, owner: JsonObject) -> list[StoredRevision]:
        found = controller_ref.classify(owner, controller_ref.candidates(self._cache, owner))
        reference = controller_ref.controller_reference(owner)
        for orphan in found.adopt:
            if await controller_ref.adopt(self._client, CONTROLLER_REVISIONS, orphan.metadata, reference):
                found.kept.append(orphan)
        return found.kept

    async def _update_revision(self, owner: JsonObject, known: list[Revision], collisions: int) -> tuple[Revision, int]:
        data = template_data(owner["spec"]["template"])
        choice = revisions.choose(data, known)
        if isinstance(choice, CreateRevision):
            return await self._create(owner, data, choice.number, collisions)
        if choice.number != choice.revision.number:
            await self._client.patch(
                CONTROLLER_REVISIONS,
                choice.revision.name,
                owner["metadata"]["namespace"],
                {"revision": choice.number},
            )
        return msgspec.structs.replace(choice.revision, number=choice.number), collisions

    async def _create(self, owner: JsonObject, data: JsonObject, number: int, collisions: int) -> tuple[Revision, int]:
        """A new revision. A name that is taken by other data is a hash collision: count it and try the next name."""
        namespace = owner["metadata"]["namespace"]
        while True:
            body = build_revision(owner, data, number, collisions, self._hash_label)
            name = body["metadata"]["name"]
            try:
                await self._client.create(CONTROLLER_REVISIONS, body)
                return Revision(name, number, data, body["metadata"]["labels"][self._hash_label]), collisions
            except AlreadyExists:
                existing = await self._client.find(CONTROLLER_REVISIONS, name, namespace)
                if existing is not None and existing.get("data") == data:
                    labels = existing["metadata"].get("labels") or {}
                    hash = labels.get(self._hash_label) or name
                    return Revision(name, existing["revision"], data, hash), collisions
                collisions += 1


def build_revision(
    owner: JsonObject, data: JsonObject, number: int, collisions: int, hash_label: str = HASH_LABEL
) -> JsonObject:
    digest = revisions.data_hash(data, collisions)
    template_labels = owner["spec"]["template"].get("metadata", {}).get("labels") or {}
    metadata: JsonObject = {
        "name": f"{owner['metadata']['name'][:223]}-{digest}",
        "namespace": owner["metadata"]["namespace"],
        "labels": {**template_labels, hash_label: digest},
        "ownerReferences": [controller_ref.controller_reference(owner)],
    }
    if owner["metadata"].get("annotations"):
        metadata["annotations"] = owner["metadata"]["annotations"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata,
        "data": revisions.canonical(data),
        "revision": number,
    }
