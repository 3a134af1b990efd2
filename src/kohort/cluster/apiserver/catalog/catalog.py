"""Everything that is served at this moment: built-in kinds and, as they come and go, custom ones.

A custom kind enters and leaves as a whole: endpoint, discovery and OpenAPI all read from here, so they never disagree.
`revision` grows with every change; what is derived from the catalogue (discovery documents, OpenAPI) is cached by it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from kohort.cluster.apiserver.catalog.view import KindView
from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.kinds.version_priority import version_priority
from kohort.objects.json_types import JsonObject


class Catalog:
    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self.revision = 0
        self._views: dict[tuple[str, str, str], KindView] = {}
        self._by_bucket: dict[str, list[KindView]] = {}
        self._by_kind: dict[tuple[str, str], KindView] = {}
        self._closed: set[str] = set()
        for kind in kinds:
            self._add(KindView(kind))
        self._built_in = frozenset(group for group, _, _ in self._views)

    def find(self, group: str, version: str, plural: str) -> KindView | None:
        return self._views.get((group, version, plural))

    def by_kind(self, group: str, kind: str) -> KindView | None:
        """The preferred version of a kind."""
        return self._by_kind.get((group, kind))

    def of_bucket(self, bucket: str) -> Sequence[KindView]:
        """All served versions of what one bucket holds, the storage version first."""
        return self._by_bucket.get(bucket, ())

    def siblings(self, kind: Kind) -> list[Kind]:
        return [view.kind for view in self._by_bucket.get(kind.bucket, ())] or [kind]

    def is_built_in(self, group: str) -> bool:
        return group in self._built_in

    def kinds(self) -> Iterator[Kind]:
        return (view.kind for view in self._views.values())

    def serve(
        self,
        kinds: Iterable[Kind],
        *,
        revision: int,
        refresh: Callable[..., JsonObject],
    ) -> None:
        """Serve the versions of one custom resource, in place of what was served of it before.

        `revision` is that of the definition: what was written up to it had an older schema, and `refresh` shows such an
        object in a `version` of the present one.
        """
        added = list(kinds)
        since = revision
        for bucket in {kind.bucket for kind in added}:
            since = min((view.served_since for view in self._by_bucket.get(bucket, ())), default=since)
            self._drop(bucket)
        for kind in added:
            shown = partial(refresh, version=kind.resource.version)
            self._add(KindView(kind, fresh_since=revision, served_since=since, refresh=shown))
        self.revision += 1

    def close(self, bucket: str) -> None:
        """Take no new objects of a custom resource whose definition is being deleted."""
        self._closed.add(bucket)

    def is_closed(self, kind: Kind) -> bool:
        return kind.bucket in self._closed

    def withdraw(self, bucket: str) -> None:
        """Stop serving a custom resource."""
        self._closed.discard(bucket)
        if self._drop(bucket):
            self.revision += 1

    def groups(self) -> list[tuple[str, list[str]]]:
        """Group names with their versions in order of preference; built-in groups first, in their own order."""
        versions: dict[str, list[str]] = {}
        custom: set[str] = set()
        for group, version, _ in self._views:
            known = versions.setdefault(group, [])
            if version not in known:
                known.append(version)
        for view in self._views.values():
            if view.kind.custom:
                custom.add(view.kind.resource.group)
        ordered = [name for name in versions if name not in custom] + sorted(custom)
        return [
            (name, sorted(versions[name], key=version_priority) if name in custom else versions[name])
            for name in ordered
        ]

    def of_group_version(self, group: str, version: str) -> list[Kind]:
        return [view.kind for key, view in self._views.items() if key[:2] == (group, version)]

    def _add(self, view: KindView) -> None:
        resource = view.kind.resource
        self._views[resource.group, resource.version, resource.plural] = view
        versions = self._by_bucket.setdefault(view.kind.bucket, [])
        versions.append(view)
        versions.sort(key=lambda one: one.kind.from_storage is not None)
        self._by_kind.setdefault((resource.group, resource.kind), view)

    def _drop(self, bucket: str) -> bool:
        gone = self._by_bucket.pop(bucket, [])
        for view in gone:
            resource = view.kind.resource
            self._views.pop((resource.group, resource.version, resource.plural), None)
            if self._by_kind.get((resource.group, resource.kind)) is view:
                del self._by_kind[resource.group, resource.kind]
        return bool(gone)
