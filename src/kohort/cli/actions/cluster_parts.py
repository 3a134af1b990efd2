"""`kohort status --cluster`: the parts of an embedded cluster, from the records in its data directory."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kohort.cli.actions import output_formats
from kohort.cli.connection import CommandTarget, print_error
from kohort.kube import clock
from kohort.kube.kubeconfig import files_in_use
from kohort.objects.counted_nouns import how_often
from kohort.up import status_records
from kohort.up.data_directory import DataDirectory, default_directory, directory_in_use
from kohort.up.part_supervision import PartState
from kohort.up.restart_policy import PROCESS_RESTARTS, EndReason
from kohort.up.status_records import PartRecord, ProcessRecord, SupervisorRecord

NOT_READY = 3


class ClusterStatus(msgspec.Struct, rename="camel"):
    data_directory: str
    running: bool
    """False while a supervisor waits to restart the process."""
    process: ProcessRecord | None = None
    supervisor: SupervisorRecord | None = None

    @property
    def ready(self) -> bool:
        parts = self.process.parts if self.running and self.process is not None else []
        return bool(parts) and all(part.state == PartState.READY.value for part in parts)


def read(data: DataDirectory) -> ClusterStatus | None:
    """None when nothing runs. Records of processes that have ended are not shown."""
    owner, supervisor = data.owner(), data.supervisor()
    if owner is None and supervisor is None:
        return None
    process = status_records.read(data.path, status_records.STATUS, ProcessRecord)
    supervision = status_records.read(data.path, status_records.SUPERVISOR, SupervisorRecord)
    return ClusterStatus(
        str(data.path),
        owner is not None,
        process if process is not None and process.pid == owner else None,
        supervision if supervision is not None and supervision.pid == supervisor else None,
    )


def show(directory: Path | None, output: str, target: CommandTarget) -> int:
    """The exit code. Without a directory it is about the cluster that other commands would talk to, if that is one of
    this machine."""
    in_use = directory_in_use(files_in_use(target.kubeconfig))
    data = DataDirectory(directory or in_use or default_directory())
    found = read(data)
    if found is None:
        return print_error(f"kohort is not running on {data.path}{_given_up(data)}")
    output_formats.show(text(found, clock.now()) if output == "text" else [output_formats.document(found, output)])
    return 0 if found.ready else NOT_READY


def _given_up(data: DataDirectory) -> str:
    """Why a supervisor started it no more; empty if it was not that."""
    found = status_records.read(data.path, status_records.SUPERVISOR, SupervisorRecord)
    if found is None or found.state != EndReason.TOO_MANY_RESTARTS.value:
        return ""
    return f": {found.restarts[-1].reason}; see {data.log}, then start it again with {data.start_command}"


def text(found: ClusterStatus, now: datetime) -> list[str]:
    lines = [_head(found)]
    if (supervisor := found.supervisor) is not None and supervisor.restarts:
        last = supervisor.restarts[-1]
        times = how_often(len(supervisor.restarts))
        lines.append(
            f"restarted {times} (at most {PROCESS_RESTARTS} times in 10 minutes); "
            f"the last time, {_since(last.at, now)} ago, it {last.reason}"
        )
    if found.process is not None:
        rows = [_row(part, now) for part in found.process.parts]
        lines += ["", *output_formats.table(("PART", "STATE", "SINCE", "RESTARTS", "LAST FAILURE"), rows)]
    return lines


def _head(found: ClusterStatus) -> str:
    by = f", supervised by pid {found.supervisor.pid}" if found.supervisor is not None else ""
    if not found.running:
        return f"kohort on {found.data_directory} is about to be restarted{by}"
    if found.process is None:
        return f"kohort on {found.data_directory} is starting{by}"
    at = f"at {found.process.server} since {found.process.started_at}, pid {found.process.pid}"
    return f"kohort on {found.data_directory} runs {at}{by}"


def _row(part: PartRecord, now: datetime) -> tuple[str, ...]:
    failure = f"{part.reason} ({_since(part.failed_at, now)} ago)" if part.reason else ""
    return part.name, part.state, _since(part.since, now), str(part.restarts), failure


def _since(stamp: str, now: datetime) -> str:
    seconds = max(0, int((now - datetime.fromisoformat(stamp).astimezone(UTC)).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 7200 else f"{seconds // 3600}h"
