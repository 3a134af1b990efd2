"""What the rest of the API server sees of storage.

An object is kept as the JSON bytes that clients will read. Lists and watches hand those bytes on untouched; code that
needs the object decodes it and thereby gets a private copy, so nothing is ever copied defensively and nothing stored
can be changed by accident. Labels and selectable fields are taken out once, at commit, for selectors.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from kohort.objects.json_types import JsonObject

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One version of one object."""

    bucket: str
    """Which kind it is: `pods`, `statefulsets.apps`; shared by all versions of a resource."""
    namespace: str
    name: str
    revision: int
    raw: bytes
    """The object in its storage version as compact JSON, `metadata.resourceVersion` included."""
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """Values of the kind's selectable fields other than metadata.name and metadata.namespace."""

    def decode(self) -> JsonObject:
        """A private copy of the object."""
        document: JsonObject = msgspec.json.decode(self.raw)
        return document


class Change(msgspec.Struct, frozen=True, gc=False):
    """One committed write. `before` is None for a creation; for a deletion `after` is the last state with the
    revision of the deletion."""

    type: EventType
    before: Stored | None
    after: Stored

    @property
    def revision(self) -> int:
        return self.after.revision


class StaleRevision(Exception):
    """The object is not at the revision that the writer saw."""

    def __init__(self, current: Stored | None) -> None:
        super().__init__("the object changed since it was read")
        self.current = current


class HistoryExpired(Exception):
    """The wanted revision is older than what is kept. `oldest` is the oldest revision still available."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history before revision {oldest} is gone")
        self.oldest = oldest


class SlowWatcher(Exception):
    """The reader fell too far behind; it must start again from its last revision."""


class Changes(Protocol):
    """What one watcher reads: batches of changes in commit order, for ever. Waiting for the next one may be cancelled;
    nothing is lost by it."""

    def __aiter__(self) -> "Changes": ...

    async def __anext__(self) -> Sequence[Change]: ...

    def take(self) -> Sequence[Change]:
        """The next batch if there is one now, else nothing."""
        ...

    def interrupt(self) -> None:
        """End the waiting with an empty batch."""
        ...


class Store(Protocol):
    @property
    def revision(self) -> int:
        """Revision of the newest visible write."""
        ...

    @property
    def oldest(self) -> int:
        """Watches and exact reads can go back to this revision."""
        ...

    @property
    def problem(self) -> str:
        """Why nothing can be written any more; empty while all is well."""
        ...

    def get(self, bucket: str, namespace: str, name: str) -> Stored | None: ...

    def list(self, bucket: str, namespace: str = "") -> Sequence[Stored]:
        """The objects in key order (namespace, then name); all namespaces when `namespace` is empty."""
        ...

    def list_at(self, bucket: str, revision: int, namespace: str = "") -> Sequence[Stored]:
        """The list as it was at `revision`. Raises HistoryExpired."""
        ...

    def buckets(self) -> Sequence[str]: ...

    async def write(
        self,
        bucket: str,
        namespace: str,
        name: str,
        document: JsonObject | None,
        *,
        expected: int,
        labels: Mapping[str, str] = {},
        fields: Mapping[str, str] = {},
    ) -> Stored:
        """Commit one write and return when it is durable.

        `expected` is the revision of the version that the writer decided upon, 0 for "must not exist"; otherwise
        StaleRevision. `document` None deletes. The store sets `metadata.resourceVersion`.
        """
        ...

    def watch(self, bucket: str, since: int) -> Changes:
        """Changes after `since`. Raises HistoryExpired at once or SlowWatcher later. Subscribes when called, not when
        first iterated: nothing committed after the call is missed."""
        ...

    def begin_history(self) -> None:
        """Forget the history: nothing before this revision can be watched or read."""

    async def wait_for(self, revision: int, timeout: float) -> bool:
        """True as soon as `revision` is visible, False after `timeout` seconds."""
        ...

    async def close(self) -> None: ...
