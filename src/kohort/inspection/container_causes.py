"""Causes why a container does not run, from its status; and containers that restarted recently."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from kohort.inspection.advice import Advice, Command, Verb
from kohort.inspection.cause import CauseKind
from kohort.inspection.pod_context import PodContext
from kohort.kube.clock import parse_time
from kohort.objects.core import ContainerStatus, Pod
from kohort.objects.pods import ContainerStateTerminated

_PULLING: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})
"""One problem: the first during a pull, the second between two pulls."""
_IMAGE: Final = frozenset({*_PULLING, "InvalidImageName", "ErrImageNeverPull"})
_START: Final = "correct the command, the working directory or the mounts of this container in the template"
_HOOK: Final = "correct the lifecycle hook of this container in the template"
_CONFIGURATION: Final[Mapping[str, str]] = {
    "CreateContainerConfigError": "create the ConfigMap or Secret that is missing, or correct the template",
    "CreateContainerError": _START,
    "RunContainerError": _START,
    "PreStartHookError": _HOOK,
    "PostStartHookError": _HOOK,
}
_NEVER_RAN: Final = frozenset({"StartError", "ContainerCannotRun"})
_ORDINARY: Final = frozenset({"", "PodInitializing", "ContainerCreating"})
RECENTLY: Final = timedelta(minutes=10)


def container_cause(status: ContainerStatus, pod: Pod, context: PodContext) -> tuple[CauseKind, str, Advice] | None:
    """(kind, what was found, what to do)"""
    waiting, name = status.state.waiting, f"container {status.name}"
    logs = Advice("{}", (_logs(pod, context),))
    if waiting is not None and waiting.reason in _IMAGE:
        text = _of_image(_image(pod, status), waiting.reason, context)
        return CauseKind.IMAGE, text, Advice("correct the image in the template, or its imagePullSecrets")
    if waiting is not None and waiting.reason in _CONFIGURATION:
        text = f"{name}: {waiting.reason}" + (f": {waiting.message}" * bool(waiting.message))
        return CauseKind.CONFIGURATION, text, Advice(_CONFIGURATION[waiting.reason])
    ended = status.last_state.terminated
    if waiting is not None and waiting.reason == "CrashLoopBackOff":
        if ended is not None and ended.reason in _NEVER_RAN:
            return CauseKind.CONFIGURATION, f"{name} cannot be started{_reason_and_message(ended)}", Advice(_START)
        before = Advice("{}", (_logs(pod, context, "--previous"),))
        return CauseKind.CRASH, f"{name} ends again and again{_last_exit(status)}", before
    if waiting is not None and waiting.reason not in _ORDINARY:
        text = f"{name}: {waiting.reason}" + (f": {waiting.message}" * bool(waiting.message))
        look = f"kubectl -n {pod.metadata.namespace} describe pod {pod.metadata.name}"
        return CauseKind.CONFIGURATION, text, Advice(look)
    ended = status.state.terminated
    if ended is not None and ended.reason in _NEVER_RAN:
        return CauseKind.CONFIGURATION, f"{name} cannot be started{_reason_and_message(ended)}", Advice(_START)
    if ended is not None and ended.exit_code and pod.status.phase != "Succeeded":
        return CauseKind.CRASH, f"{name} ended with code {ended.exit_code}{_reason_and_message(ended)}", logs
    return None


def restarts(context: PodContext, now: datetime) -> Iterator[str]:
    """Containers that run but ended recently: between two crashes a set looks ready."""
    for pod in context.pods:
        for status in pod.status.container_statuses:
            ended = status.last_state.terminated
            if status.state.running is None or ended is None or not ended.finished_at or not status.restart_count:
                continue
            age = now - parse_time(ended.finished_at)
            if age > RECENTLY:
                continue
            times = "once" if status.restart_count == 1 else f"{status.restart_count} times"
            text = f"{pod.metadata.name}: container {status.name} has restarted {times}, last"
            ago = f"{max(0, int(age.total_seconds()))} s ago"
            logs = _logs(pod, context, "--previous").text
            yield f"{text} {ago} after code {ended.exit_code}{_reason_and_message(ended)} → {logs}"


def _logs(pod: Pod, context: PodContext, *options: str) -> Command:
    return context.command(Verb.LOGS, "--pod", pod.metadata.name, *options)


def _of_image(image: str, reason: str, context: PodContext) -> str:
    """The same text for all pods that wait for an image, in any state of the pull, so that they are one cause."""
    if reason not in _PULLING:
        message = next((text for found, text in _waiting_reasons(image, context) if found == reason and text), "")
        return f"{reason} for {image}" + (f": {message}" * bool(message))
    known = [(found, text) for found, text in _waiting_reasons(image, context) if found in _PULLING and text]
    known.sort(key=lambda one: one[0] != "ErrImagePull")  # ImagePullBackOff has no details
    return f"cannot pull image {image}" + (f": {known[0][1]}" if known else "")


def _waiting_reasons(image: str, context: PodContext) -> Iterator[tuple[str, str]]:
    """Reasons and messages of all containers that wait with this image."""
    for pod in context.pods:
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
            waiting = status.state.waiting
            if waiting is not None and _image(pod, status) == image:
                yield waiting.reason, waiting.message


def _image(pod: Pod, status: ContainerStatus) -> str:
    written = {one.name: one.image for one in pod.spec.all_containers}
    return written.get(status.name) or status.image


def _last_exit(status: ContainerStatus) -> str:
    ended = status.last_state.terminated
    times = f", {status.restart_count} times" if status.restart_count else ""
    return f"{times}; last with code {ended.exit_code}{_reason_and_message(ended)}" if ended is not None else times


def _reason_and_message(ended: ContainerStateTerminated) -> str:
    """The reason, where it adds to the exit code, and the last line of the message."""
    reason = f" ({ended.reason})" if ended.reason not in ("", "Error", "Completed") else ""
    lines = ended.message.strip().splitlines()
    return f"{reason}: {lines[-1].strip()}" if lines else reason
