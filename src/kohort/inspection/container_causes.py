"""Why a container does not run, from its status; and containers that restarted recently."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from kohort.inspection.advice import Command, Verb
from kohort.inspection.cause import CauseKind
from kohort.inspection.messages import CREATION_PROBLEMS, restart_words
from kohort.inspection.pod_context import PodContext
from kohort.inspection.problems import (
    ContainerCannotStart,
    ContainerCrashes,
    ContainerEnded,
    ContainerExit,
    ContainerNotCreated,
    ContainerWaits,
    ImageNotThere,
    Problem,
)
from kohort.kube.clock import parse_time
from kohort.objects import container_reasons
from kohort.objects.container_reasons import CRASH_LOOP_BACK_OFF, FAILED_PULLS, IMAGE_PULL_BACK_OFF, NEVER_RAN
from kohort.objects.core import ContainerStatus, Pod
from kohort.objects.pods import ContainerStateTerminated, ContainerStateWaiting

_PULLING: Final = frozenset({*FAILED_PULLS, IMAGE_PULL_BACK_OFF})
"""One problem: a failed pull, and the pause between two pulls."""
_IMAGE: Final = frozenset({*_PULLING, container_reasons.INVALID_IMAGE_NAME, container_reasons.ERR_IMAGE_NEVER_PULL})
RECENTLY: Final = timedelta(minutes=10)


def container_problem(status: ContainerStatus, pod: Pod, context: PodContext) -> tuple[CauseKind, Problem] | None:
    waiting, ended = status.state.waiting, status.state.terminated
    if waiting is not None and (found := _waiting_problem(status, waiting, pod, context)):
        return found
    if ended is not None and ended.reason in NEVER_RAN:
        return CauseKind.CONFIGURATION, ContainerCannotStart(status.name, _exit(ended))
    if ended is not None and ended.exit_code and pod.status.phase != "Succeeded":
        return CauseKind.CRASH, ContainerEnded(status.name, _exit(ended), _logs(pod, context))
    return None


def _waiting_problem(
    status: ContainerStatus, waiting: ContainerStateWaiting, pod: Pod, context: PodContext
) -> tuple[CauseKind, Problem] | None:
    reason, name, ended = waiting.reason, status.name, status.last_state.terminated
    if reason in _IMAGE:
        return CauseKind.IMAGE, _image_problem(_image(pod, status), reason, context)
    if reason in CREATION_PROBLEMS:
        return CauseKind.CONFIGURATION, ContainerNotCreated(name, reason, waiting.message)
    if reason == CRASH_LOOP_BACK_OFF and ended is not None and ended.reason in NEVER_RAN:
        return CauseKind.CONFIGURATION, ContainerCannotStart(name, _exit(ended))
    if reason == CRASH_LOOP_BACK_OFF:
        exit = _exit(ended) if ended is not None else None
        logs = _logs(pod, context, "--previous")
        return CauseKind.CRASH, ContainerCrashes(name, status.restart_count, exit, logs)
    if reason not in container_reasons.ORDINARY_WAITS:
        metadata = pod.metadata
        unknown = ContainerWaits(name, reason, waiting.message, metadata.name, metadata.namespace)
        return CauseKind.CONFIGURATION, unknown
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
            seconds = max(0, int(age.total_seconds()))
            logs = _logs(pod, context, "--previous")
            yield restart_words(pod.metadata.name, status.name, status.restart_count, seconds, _exit(ended), logs)


def _logs(pod: Pod, context: PodContext, *options: str) -> Command:
    return context.command(Verb.LOGS, "--pod", pod.metadata.name, *options)


def _image_problem(image: str, reason: str, context: PodContext) -> ImageNotThere:
    """The same for all pods that wait for an image, in any state of the pull, so that they are one cause."""
    if reason not in _PULLING:
        message = next((text for found, text in _waiting_reasons(image, context) if found == reason and text), "")
        return ImageNotThere(image, reason, message)
    known = [(found, text) for found, text in _waiting_reasons(image, context) if found in _PULLING and text]
    known.sort(key=lambda one: one[0] not in FAILED_PULLS)  # ImagePullBackOff has no details
    return ImageNotThere(image, "", known[0][1] if known else "")


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


def _exit(ended: ContainerStateTerminated) -> ContainerExit:
    lines = ended.message.strip().splitlines()
    reason = ended.reason if ended.reason not in ("Error", "Completed") else ""
    return ContainerExit(ended.exit_code, reason, lines[-1].strip() if lines else "")
