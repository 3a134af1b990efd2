"""Errors of the database file, each with a sentence that says what to do.

None of these is raised after something was overwritten: a database that cannot be used is left exactly as it was found.
"""

from pathlib import Path


class StorageError(Exception):
    """The store cannot be used, or a write could not be made durable."""

    PUBLIC = ""
    """Why a write failed, for clients, who need not know where the database is."""


class DatabaseCorrupt(StorageError):
    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"the database {path} is damaged ({detail}); it was left untouched: "
            f"restore it from a copy, or move {path.name} and {path.name}-wal away to start with an empty cluster"
        )


class DatabaseLocked(StorageError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"the database {path} is in use by another process")


class DatabaseReadOnly(StorageError):
    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"the database {path} cannot be written ({detail}); check the permissions of its directory")


class DiskFull(StorageError):
    """Nothing is known of the database: to read it, too, needs a little room."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"the disk that holds {path} is full; nothing was changed: make room and start again")


class DiskError(StorageError):
    """The system could not read or write; the stored data may be intact or not."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(f"the database {path} cannot be read ({detail}); it was left untouched: see to its disk")


class DatabaseTooNew(StorageError):
    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"the database {path} has format {found}, this version of kohort knows up to {known}; use a newer kohort"
        )


class DatabaseGone(StorageError):
    """A file of the database was deleted or replaced while it was open. What is written into it would be lost."""

    PUBLIC = "the database was deleted or replaced while the server was running; no write is possible until a restart"

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} was deleted or replaced while the server was running: writes are refused, reads show what is in "
            f"memory; save what is needed (kubectl get), put the data directory back if there is a copy, and restart"
        )


class WriteFailed(StorageError):
    """The write did not become durable (disk full, input/output error) and is not visible to any reader."""


class StoreFull(WriteFailed):
    PUBLIC = "the disk that holds the database is full; make room there"


class StoreClosed(StorageError):
    def __init__(self) -> None:
        super().__init__("the store is closed")
