"""A file that keeps records of the agent through crashes of the agent or the machine.

A checkpoint is written *before* the memory of the process changes: to another file, flushed to the disk, renamed over
the old one. If writing fails, nothing has happened and the caller must refuse what it was about to do. The content is
wrapped with a checksum and a version of the format. The last good content stays beside it as `NAME.previous`; a file
that cannot be read is replaced by it, and `recovered_from_previous` is set.
"""

import contextlib
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from kohort.kube.private_files import make_private_directory, open_private, sync_directory

VERSION: Final = 1
T = TypeVar("T")

WriteObserver = Callable[[str, Path, str], None]
"""Called before every write, with its kind (cgroup, checkpoint, rename), path and content. A checkpoint is first
written beside its file and then renamed: two calls."""


def unobserved(kind: str, path: Path, content: str) -> None:
    """The default: observes nothing."""


class Corrupt(Exception):
    """Neither a checkpoint nor its previous version can be read."""


class _Envelope(msgspec.Struct):
    version: int
    checksum: int
    data: msgspec.Raw


class Checkpoint(Generic[T]):
    """Entries by pod UID."""

    def __init__(self, path: Path, entry: type[T], observer: WriteObserver = unobserved) -> None:
        self.path = path
        self.recovered_from_previous = False
        self._entry = entry
        self._observer = observer
        self._written = b""
        self._entries: dict[str, T] = self._read()

    def get(self, uid: str) -> T | None:
        return self._entries.get(uid)

    def known(self) -> list[str]:
        return list(self._entries)

    def put(self, uid: str, entry: T) -> None:
        """Remember, on the disk first. Raises OSError, and then nothing has changed."""
        if self._entries.get(uid) == entry:
            return
        changed = {**self._entries, uid: entry}
        self._write(changed)
        self._entries = changed

    def drop(self, uids: "set[str] | frozenset[str]") -> None:
        """Forget pods that are gone. The file follows at once, or with the next write if it cannot."""
        kept = {uid: entry for uid, entry in self._entries.items() if uid not in uids}
        if len(kept) != len(self._entries):
            self._entries = kept
            with contextlib.suppress(OSError):
                self._write(kept)

    def _write(self, entries: dict[str, T]) -> None:
        data = msgspec.json.encode(entries)
        if data == self._written:
            return
        self._observer("checkpoint", self.path, data.decode())
        make_private_directory(self.path.parent)
        fresh = self.path.with_suffix(".new")
        with open(open_private(fresh), "wb") as file:
            file.write(msgspec.json.encode(_Envelope(VERSION, zlib.crc32(data), msgspec.Raw(data))))
            file.flush()
            os.fsync(file.fileno())
        self._observer("rename", self.path, "")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._previous)
        with contextlib.suppress(FileNotFoundError):
            os.link(self.path, self._previous)
        os.replace(fresh, self.path)
        sync_directory(self.path.parent)
        self._written = data

    def _read(self) -> dict[str, T]:
        for path in (self.path, self._previous):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue
            found = self._decoded(content)
            if found is not None:
                self.recovered_from_previous = path != self.path
                return found
        if self.path.exists():
            raise Corrupt(f"{self.path} cannot be read; drain this node, remove the file and start again")
        return {}

    def _decoded(self, content: bytes) -> dict[str, T] | None:
        try:
            envelope = msgspec.json.decode(content, type=_Envelope)
            if envelope.version > VERSION or zlib.crc32(bytes(envelope.data)) != envelope.checksum:
                return None
            return msgspec.json.decode(bytes(envelope.data), type=dict[str, self._entry])  # type: ignore[name-defined]
        except msgspec.MsgspecError:
            return None

    @property
    def _previous(self) -> Path:
        return self.path.with_suffix(".previous")
