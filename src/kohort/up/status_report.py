"""The status of a running cluster: the record in its data directory, and events in the cluster.

Events are about the namespace kube-system, which stands for the control plane: `kubectl get events` shows them in the
namespace default, as those of all objects without a namespace.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Sequence

from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.events import EventRecorder, ObjectReference
from kohort.kube.http import Transport
from kohort.up import status_records
from kohort.up.data_directory import DataDirectory
from kohort.up.part_supervision import Part, PartState
from kohort.up.status_records import PartRecord, ProcessRecord, SupervisorRecord

PART_FAILED, PROCESS_RESTARTED = "PartFailed", "ProcessRestarted"
_CONTROL_PLANE = ObjectReference("Namespace", "v1", "kube-system")


class Report:
    def __init__(self, data: DataDirectory, server: str, parts: Sequence[Part], *, with_server: bool) -> None:
        now = clock.timestamp()
        self._data = data
        self._parts = parts
        self._server = [PartRecord("apiserver", PartState.READY.value, now)] if with_server else []
        self._record = ProcessRecord(os.getpid(), now, server)

    @contextlib.asynccontextmanager
    async def kept(self, transport: Transport) -> AsyncIterator[None]:
        """Keep the record current, from the moment when all parts are ready. Raises nothing of its own."""
        recorder = EventRecorder(Client(transport, user_agent="kohort-up"), "kohort-up")
        for part in self._parts:
            part.changed = self._write
            part.failed = lambda message: recorder.event(_CONTROL_PLANE, "Warning", PART_FAILED, message)
        self._record.ready = True
        self._write()
        if message := self._restarted():
            recorder.event(_CONTROL_PLANE, "Warning", PROCESS_RESTARTED, message)
        try:
            yield
        finally:
            await recorder.close()

    def _write(self) -> None:
        self._record.parts = [*self._server, *(part.record for part in self._parts)]
        status_records.write(self._data.path, status_records.STATUS, self._record)

    def _restarted(self) -> str:
        """Why the supervisor had to start this process; empty for a first start."""
        if self._data.supervisor() != os.getppid():
            return ""
        found = status_records.read(self._data.path, status_records.SUPERVISOR, SupervisorRecord)
        if found is None or not found.restarts:
            return ""
        last = found.restarts[-1]
        return f"kohort {last.reason} at {last.at} and was started again (restart {len(found.restarts)})"
