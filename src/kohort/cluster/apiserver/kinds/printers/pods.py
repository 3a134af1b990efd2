"""How pods, and templates of pods, are shown in a table.

The status of a pod in one word, as kubectl shows it, is a summary without a definition in the API: the phase, overruled
by the reason of the pod, overruled by what its init containers wait for, overruled by what its containers do, overruled
by its deletion.
"""

from datetime import datetime

from kohort.cluster.apiserver.kinds.printers.cells import (
    AGE,
    NAME,
    NONE,
    Printer,
    age,
    condition,
    labels_text,
    name_of,
    names_and_images,
    since,
    text,
)
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.pods import FINISHED_PHASES, is_sidecar


class _Summary:
    """The counts and the reason, gathered while walking over the containers."""

    def __init__(self, pod: JsonObject) -> None:
        self.pod = pod
        self.spec: JsonObject = pod.get("spec") or {}
        self.status: JsonObject = pod.get("status") or {}
        inits: list[JsonObject] = self.spec.get("initContainers") or []
        self.init_count = len(inits)
        self.sidecars = {init.get("name") for init in inits if is_sidecar(init)}
        self.total = len(self.spec.get("containers") or ()) + len(self.sidecars)
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        self.sidecar_statuses: list[JsonObject] = []
        """Those that were met before the first init container that is not done."""
        self.reason = self._first_reason()
        initializing = self._walk_init_containers()
        if not initializing or (condition(pod, "Initialized") or {}).get("status") == "True":
            self._walk_containers()
        self._mark_deleted()

    def _first_reason(self) -> str:
        scheduled = condition(self.pod, "PodScheduled") or {}
        if scheduled.get("reason") == "SchedulingGated":
            return "SchedulingGated"
        return self.status.get("reason") or self.status.get("phase") or ""

    def _count_restarts(self, container: JsonObject) -> None:
        self.restarts += container.get("restartCount") or 0
        finished = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)

    def _walk_init_containers(self) -> bool:
        """Whether an init container is not done yet; then the reason says so."""
        for index, container in enumerate(self.status.get("initContainerStatuses") or ()):
            self._count_restarts(container)
            if container.get("name") in self.sidecars:
                self.sidecar_statuses.append(container)
            state = container.get("state") or {}
            terminated, waiting = state.get("terminated"), state.get("waiting") or {}
            if terminated is not None and not terminated.get("exitCode"):
                continue
            if container.get("name") in self.sidecars and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            if terminated is not None:
                self.reason = f"Init:{_ended(terminated)}"
            elif waiting.get("reason") not in (None, "", "PodInitializing"):
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{index}/{self.init_count}"
            return True
        return False

    def _walk_containers(self) -> None:
        """From the last to the first, so that the first one with something to say has the last word."""
        self.restarts, self.last_restart = 0, ""
        for container in self.sidecar_statuses:
            self._count_restarts(container)
        running, failure = False, ""
        for container in reversed(self.status.get("containerStatuses") or ()):
            self._count_restarts(container)
            state = container.get("state") or {}
            terminated, waiting = state.get("terminated"), state.get("waiting") or {}
            if waiting.get("reason"):
                self.reason = waiting["reason"]
            elif terminated is not None:
                self.reason = _ended(terminated)
                if terminated.get("exitCode"):
                    failure = self.reason
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed":
            if running and (condition(self.pod, "Ready") or {}).get("status") == "True":
                self.reason = "Running"
            elif failure:
                self.reason = failure
            elif running:
                self.reason = "NotReady"

    def _mark_deleted(self) -> None:
        if not self.pod["metadata"].get("deletionTimestamp"):
            return
        if self.status.get("reason") == "NodeLost":
            self.reason = "Unknown"
        elif self.status.get("phase") not in FINISHED_PHASES:
            self.reason = "Terminating"


def _ended(terminated: JsonObject) -> str:
    if terminated.get("reason"):
        reason: str = terminated["reason"]
        return reason
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _pod(pod: JsonObject, now: datetime) -> list[Json]:
    summary = _Summary(pod)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{restarts} ({since(summary.last_restart, now)} ago)"
    addresses: list[JsonObject] = summary.status.get("podIPs") or [{}]
    return [
        name_of(pod),
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        age(pod, now),
        addresses[0].get("ip") or NONE,
        summary.spec.get("nodeName") or NONE,
        summary.status.get("nominatedNodeName") or NONE,
        _readiness_gates(pod, summary.spec),
    ]


def _readiness_gates(pod: JsonObject, spec: JsonObject) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    open_ = [gate for gate in gates if (condition(pod, gate.get("conditionType", "")) or {}).get("status") == "True"]
    return f"{len(open_)}/{len(gates)}"


FINISHED: dict[str, str] = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def row_conditions(obj: JsonObject) -> list[JsonObject]:
    """Rows of finished pods say so, for clients that leave them out."""
    phase = (obj.get("status") or {}).get("phase")
    if obj.get("kind") != "Pod" or phase not in FINISHED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": FINISHED[phase]}]


def _pod_template(obj: JsonObject, now: datetime) -> list[Json]:
    template = obj.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    return [name_of(obj), *names_and_images(template), labels_text(labels)]


POD: Printer = (
    (
        NAME,
        text("Ready", "How many of the containers are ready."),
        text("Status", "What the pod is doing, in one word."),
        text("Restarts", "How often containers were restarted, and when last."),
        AGE,
        text("IP", "Address of the pod.", wide=True),
        text("Node", "Node on which the pod runs.", wide=True),
        text("Nominated Node", "Node on which room is being made for the pod.", wide=True),
        text("Readiness Gates", "How many of the readiness gates are open.", wide=True),
    ),
    _pod,
)
POD_TEMPLATE: Printer = (
    (
        NAME,
        text("Containers", "Names of the containers in the template."),
        text("Images", "Images of the containers in the template."),
        text("Pod Labels", "Labels of the pods made from the template."),
    ),
    _pod_template,
)
