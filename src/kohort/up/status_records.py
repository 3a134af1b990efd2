"""Status files in the data directory of a running cluster, for `kohort status --cluster` and the supervisor.

    status.json        by the process: its parts, their states and failures
    supervisor.json    by the supervisor of a detached process: how often it restarted it, and why

Each file has one writer and is replaced as a whole. Whether the writer still runs is decided by the locks, not by these
files.
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from kohort.kube.private_files import write_private

STATUS, SUPERVISOR = "status.json", "supervisor.json"


class StatusRecord(msgspec.Struct, rename="camel"):
    pass


class PartRecord(StatusRecord):
    name: str
    state: str
    since: str
    restarts: int = 0
    reason: str = ""
    """Why it failed last."""
    failed_at: str = ""
    retry_at: str = ""
    """When it is started again, while it waits for that."""


class ProcessRecord(StatusRecord):
    pid: int
    started_at: str
    server: str = ""
    ready: bool = False
    parts: list[PartRecord] = []


class RestartRecord(StatusRecord):
    at: str
    reason: str


class SupervisorRecord(StatusRecord):
    pid: int
    state: str
    """Running, BackOff, or why it ended."""
    restarts: list[RestartRecord] = []
    """All of its life, the newest last."""
    retry_at: str = ""


R = TypeVar("R", bound=StatusRecord)


def write(directory: Path, name: str, record: StatusRecord) -> None:
    """A write that fails is ignored: a full disk must not end the process that the record describes."""
    try:
        write_private(directory / name, msgspec.json.encode(record) + b"\n")
    except OSError:
        return


def read(directory: Path, name: str, kind: type[R]) -> R | None:
    """None when there is none, or none that this version understands."""
    try:
        return msgspec.json.decode((directory / name).read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None
