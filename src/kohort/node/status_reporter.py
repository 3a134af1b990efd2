"""Tells the API server how a pod is, when that is news.

Nothing waits for it: while the API server is away, containers are started, resized and ended as ever, and what could
not be said is owed.
"""

import asyncio

import msgspec

from kohort.kube import clock
from kohort.kube.client import PatchType
from kohort.kube.controller import Requeue
from kohort.kube.errors import ApiError, NotFound
from kohort.kube.log import Log
from kohort.kube.resources import PODS
from kohort.node import container_order
from kohort.node.container_spec import log_path, message_path, parsed_id
from kohort.node.pod_record import HeldPod
from kohort.node.pod_status import Report, pod_status
from kohort.node.resize.actuation import actuated_from_cgroups
from kohort.node.runtimes.interface import Instance
from kohort.node.termination_message import read_termination_message
from kohort.node.views import Applied
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodeContainer
from kohort.rules.pod_status import rejected_status, reported_conditions, status_patch

RETRY_SECONDS = 5.0
_log = Log(part="node")


class Reporting:
    def __init__(self, held: HeldPod) -> None:
        self._held = held
        self._said: JsonObject = reported_conditions(held.pod)
        if address := held.pod.status.pod_ip:  # an earlier agent may have given the pod another one
            self._said["podIPs"] = [{"ip": address}]
        if host := held.pod.status.host_ip:
            self._said["hostIPs"] = [{"ip": host}]
        self._owed: JsonObject | None = None
        """A status that could not be told."""

    async def report(self, *, phase: str = "", reason: str = "", message: str = "", stopping: bool = False) -> None:
        held = self._held
        report = Report(
            held.pod,
            held.allocated(),
            held.runs,
            phase or container_order.phase(held.pod.spec, held.runs, held.restarting()),
            clock.timestamp(),
            held.started_at,
            f"{held.node.runtime.name}://",
            held.node.host,
            held.address,
            sandbox=held.places is not None,
            actual=self.actual(),
            resize=held.resize,
            reason=reason,
            message=message,
            stopping=stopping,
            unenforced=held.unenforced,
            gates=held.node.facts().gates,
        )
        await self._write(pod_status(report, self._said))

    async def refuse(self, reason: str, message: str) -> None:
        """The node does not take this pod in."""
        self._held.event("Warning", reason, message)
        message = f"Pod was rejected: {message}"
        await self._write(rejected_status(self._held.pod, reason, message, clock.timestamp()))

    async def catch_up(self) -> Requeue | None:
        """Tell what is owed."""
        if self._owed is not None:
            await self._write(self._owed)
        return Requeue(after=RETRY_SECONDS) if self._owed is not None else None

    def actual(self) -> Applied | None:
        """What the kernel holds; memory requests, which it does not know, as they were pushed."""
        held = self._held
        actuated = held.node.allocations.actuated(held.uid)
        if actuated is None or held.node.cgroups is None or not held.cgroup.is_dir():
            return actuated
        found = actuated_from_cgroups(held.node.cgroups, held.allocated())
        containers = {
            name: msgspec.structs.replace(figures, memory_request=actuated.containers.get(name, figures).memory_request)
            for name, figures in found.containers.items()
        }
        return Applied(msgspec.structs.replace(found.pod, memory_request=actuated.pod.memory_request), containers)

    async def termination_message(self, container: NodeContainer, instance: Instance) -> str:
        """What a container has left in its file for that; or, if it failed and asks for it, the end of its output. The
        container writes both files, so they are read elsewhere than on the event loop."""
        uid, name, attempt = parsed_id(instance.id)
        falls_back = container.termination_message_policy == "FallbackToLogsOnError" and instance.exit_code != 0
        return await asyncio.to_thread(
            read_termination_message,
            message_path(self._held.node, uid, name, attempt),
            log_path(self._held.node, uid, name, attempt) if falls_back else None,
        )

    async def _write(self, status: JsonObject) -> None:
        self._owed = None
        if status == self._said:
            return
        held = self._held
        patch = {"metadata": {"uid": held.uid}, "status": status_patch(self._said, status)}
        try:
            await held.node.client.patch(
                PODS, held.key.name, held.key.namespace, patch, PatchType.STRATEGIC, "status", type=msgspec.Raw
            )
        except NotFound:
            pass
        except ApiError as problem:
            _log.warning("the status of a pod could not be told", pod=str(held.key), problem=problem.message)
            self._owed = status
            held.wake(RETRY_SECONDS)
            return
        self._said = status
