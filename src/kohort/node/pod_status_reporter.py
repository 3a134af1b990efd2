"""Writes the status of a pod to the API server when it has changed: patch -> decide -> allocate -> actuate -> REPORT.

Nothing waits for the API server: while it is away, containers are started, resized and stopped as usual, and a status
that could not be written is written later.
"""

import asyncio
import contextlib

import msgspec

from kohort.kube import clock
from kohort.kube.client import Client, PatchType
from kohort.kube.controller import Requeue
from kohort.kube.errors import ApiError, Conflict, NotFound
from kohort.kube.log import Log
from kohort.kube.resources import PODS
from kohort.node import container_order
from kohort.node.cgroups import Cgroups
from kohort.node.node_state import NodeState
from kohort.node.pod_files import PodFiles
from kohort.node.pod_record import PodRecord
from kohort.node.pod_status import Report, pod_status
from kohort.node.resize.actuation import actuated_from_cgroups
from kohort.node.resize.allocation import Allocations
from kohort.node.resource_views import Applied
from kohort.node.runtimes.interface import Instance, parse_container_key
from kohort.node.termination_message import read_termination_message
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodeContainer
from kohort.rules.pod_status import rejected_status, reported_conditions, says_ready, status_patch

RETRY_SECONDS = 5.0
_log = Log(part="node")


class PodStatusReporter:
    def __init__(
        self,
        record: PodRecord,
        client: Client,
        node: NodeState,
        allocations: Allocations,
        cgroups: Cgroups | None,
        files: PodFiles,
    ) -> None:
        self._record = record
        self._client = client
        self._node = node
        self._allocations = allocations
        self._cgroups = cgroups
        self._files = files
        self._reported: JsonObject = reported_conditions(record.pod)
        if address := record.pod.status.pod_ip:  # an earlier agent may have given the pod another one
            self._reported["podIPs"] = [{"ip": address}]
        if host := record.pod.status.host_ip:
            self._reported["hostIPs"] = [{"ip": host}]
        self._unwritten: JsonObject | None = None
        """A status that could not be written."""

    async def report(self, *, phase: str = "", reason: str = "", message: str = "", stopping: bool = False) -> None:
        record = self._record
        report = Report(
            record.pod,
            record.allocated(),
            record.runs,
            phase or container_order.phase(record.pod.spec, record.runs, record.restarting()),
            clock.timestamp(),
            record.started_at,
            self._node.container_id_scheme,
            self._node.machine.address,
            record.address,
            sandbox=record.volumes is not None,
            actual=self._actual(),
            resize=record.resize,
            reason=reason,
            message=message,
            stopping=stopping,
            restarting_all=record.restarting_all,
            unenforced=record.unenforced,
            gates=self._node.gates,
        )
        await self._write(pod_status(report, self._reported))

    async def reject(self, reason: str, message: str) -> None:
        """The node does not admit this pod."""
        self._record.event("Warning", reason, message)
        message = f"Pod was rejected: {message}"
        await self._write(rejected_status(self._record.pod, reason, message, clock.timestamp()))

    async def confirm_deletion(self) -> None:
        """Nothing of the pod is left on this node: delete it from the API."""
        key, uid = self._record.key, self._record.uid
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(PODS, key.name, key.namespace, grace_seconds=0, uid=uid)

    async def retry(self) -> Requeue | None:
        """Write a status that could not be written before."""
        if self._unwritten is not None:
            await self._write(self._unwritten)
        return Requeue(after=RETRY_SECONDS) if self._unwritten is not None else None

    def _actual(self) -> Applied | None:
        """What the kernel holds; memory requests, which it does not know, as they were actuated."""
        record = self._record
        actuated = self._allocations.actuated(record.uid)
        if actuated is None or self._cgroups is None or not self._cgroups.pod_of(record.pod).is_dir():
            return actuated
        held = actuated_from_cgroups(self._cgroups, record.allocated())
        containers = {
            name: msgspec.structs.replace(figures, memory_request=actuated.containers.get(name, figures).memory_request)
            for name, figures in held.containers.items()
        }
        return Applied(msgspec.structs.replace(held.pod, memory_request=actuated.pod.memory_request), containers)

    async def termination_message(self, container: NodeContainer, instance: Instance) -> str:
        """The container's termination message or, if it failed and asks for it, the end of its log. The container
        writes both files, so they are read in a thread."""
        key = parse_container_key(instance.id)
        falls_back = container.termination_message_policy == "FallbackToLogsOnError" and instance.exit_code != 0
        return await asyncio.to_thread(
            read_termination_message,
            self._files.termination_message(*key),
            self._files.log(*key) if falls_back else None,
        )

    async def _write(self, status: JsonObject) -> None:
        self._unwritten = None
        was_marked = self._record.became_unready and says_ready(status)
        self._record.became_unready = False
        if status == self._reported and not was_marked:
            return
        key = self._record.key
        patch = {"metadata": {"uid": self._record.uid}, "status": status_patch(self._reported, status)}
        try:
            await self._client.patch(
                PODS, key.name, key.namespace, patch, PatchType.STRATEGIC, "status", type=msgspec.Raw
            )
        except NotFound:
            pass
        except ApiError as problem:
            _log.warning("failed to update pod status", pod=str(key), problem=problem.message)
            self._unwritten = status
            self._record.wake(RETRY_SECONDS)
            return
        self._reported = status
