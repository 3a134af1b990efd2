"""Whether the node admits a pod that is bound to it. Checked in this order:

| check | may take long |
|---|---|
| kernel settings that the pod must not change, groups that the runtime cannot give exactly | no |
| devices of plugins | yes: a plugin may not answer |
| room for the pod, and what `admission_checks` says (`ResizeQueue.admit`) | no |

Devices come before the room: a pod that a device plugin refuses must not leave resources allocated.
"""

import asyncio
from enum import Enum, auto

from kohort.kube.tasks import cancel_all
from kohort.node.admission_checks import NO_EXACT_GROUPS, needs_exact_groups
from kohort.node.devices.interface import Devices
from kohort.node.pod_record import PodRecord
from kohort.node.resize.resize_and_admission import ResizeQueue
from kohort.node.runtimes.interface import Runtime
from kohort.node.security_context import forbidden_sysctls
from kohort.objects.node_pods import NodePod
from kohort.rules.pod_admission import Rejection, RejectionReason


class Admission(Enum):
    ADMITTED = auto()
    WAITS_FOR_DEVICES = auto()
    """The pod is synced again when the plugins have answered."""


class PodAdmission:
    def __init__(self, record: PodRecord, resizes: ResizeQueue, devices: Devices, runtime: Runtime) -> None:
        self._record = record
        self._resizes = resizes
        self._devices = devices
        self._runtime = runtime
        self._giving_devices: asyncio.Task[Rejection | None] | None = None

    async def decide(self, pod: NodePod) -> Admission | Rejection:
        """An admitted pod has its devices, and its resources are allocated."""
        if forbidden := forbidden_sysctls(pod):
            return Rejection(RejectionReason.SYSCTL, f'forbidden sysctl: "{forbidden[0]}" not allowlisted')
        if needs_exact_groups(pod) and not self._runtime.gives_exact_groups:
            return NO_EXACT_GROUPS
        giving = await self._begin_giving_devices(pod)
        if not giving.done():
            return Admission.WAITS_FOR_DEVICES
        self._giving_devices = None
        rejection = giving.result() or self._resizes.admit(pod)
        if rejection is not None:
            self.release_devices()
            return rejection
        return Admission.ADMITTED

    async def _begin_giving_devices(self, pod: NodePod) -> "asyncio.Task[Rejection | None]":
        """A plugin may not answer for long: the pod is reconciled again when it has, and can be deleted before."""
        if self._giving_devices is None:
            self._giving_devices = asyncio.create_task(self._devices.admit(pod), name=f"devices-{self._record.key}")
            await asyncio.sleep(0)  # without a call to a plugin, it is done after this
            if not self._giving_devices.done():
                self._giving_devices.add_done_callback(lambda _: self._record.wake())
        return self._giving_devices

    async def cancel(self) -> None:
        """The pod has been deleted: do not wait for its devices any more."""
        giving, self._giving_devices = self._giving_devices, None
        if giving is not None:
            await cancel_all(giving)

    def release_devices(self) -> None:
        """Before the API says that the pod has ended: the scheduler may bind another one that needs them at once."""
        self._devices.release(self._record.uid)
