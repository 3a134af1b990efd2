"""Whether what an edit wants of running pods could be had without recreating them.

| the template differs in | answer |
|---|---|
| cpu and memory of containers or of the pod, nothing else | in place, if the rules below agree |
| anything else | no forecast: pods must be recreated |

| rule of Kubernetes | else |
|---|---|
| the quality of service stays | recreate |
| a request or limit that exists is not taken away | recreate |
| ordinary init containers have ended and keep what they had | recreate |
| a container whose resizePolicy says so is restarted | in place, with restarts |
"""

import copy
from collections.abc import Iterator

import msgspec

from kohort.groups.leaderworkerset import LeaderWorkerSet, Template
from kohort.inspection.advice import Command, Verb
from kohort.objects.core import Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.pods import Container
from kohort.resources import qos_class
from kohort.rules.resize_restart import containers_to_restart

_AMOUNTS = ("cpu", "memory")


class InPlace(msgspec.Struct, frozen=True, rename="camel"):
    possible: bool
    reason: str = ""
    """Why not."""
    restarts: tuple[str, ...] = ()
    """Containers whose own policy restarts them."""
    command: str = ""
    """What does it, if there is one command for it."""


def in_place(before: LeaderWorkerSet, after: LeaderWorkerSet) -> InPlace | None:
    """None if the edit is about anything else than cpu and memory."""
    old, new = before.template, after.template
    if old.raw == new.raw or _stripped(old.raw) != _stripped(new.raw):
        return None
    for was, becomes in _pods(old, new):
        if reason := _obstacle(was, becomes):
            return InPlace(False, reason)
    changed = [pair for was, becomes in _pods(old, new) for pair in _changed(was, becomes)]
    restarts = dict.fromkeys(
        name for was, becomes in _pods(old, new) for name in containers_to_restart(was.spec, becomes.spec)
    )
    return InPlace(True, restarts=tuple(restarts), command=_command(before, changed))


def _stripped(template: JsonObject) -> JsonObject:
    """The template without the figures that can change in place."""
    found = copy.deepcopy(template)
    for role in ("leaderTemplate", "workerTemplate"):
        spec = (found.get(role) or {}).get("spec") or {}
        for holder in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            _strip(holder)
    return found


def _strip(holder: dict[str, Json]) -> None:
    resources = holder.get("resources") or {}
    for kind in ("requests", "limits"):
        left = {name: value for name, value in (resources.pop(kind, None) or {}).items() if name not in _AMOUNTS}
        if left:
            resources[kind] = left
    if not resources:
        holder.pop("resources", None)


def _pods(old: Template, new: Template) -> Iterator[tuple[Pod, Pod]]:
    """The leader before and after, and the worker."""
    for was, becomes in ((old.leader, new.leader), (old.worker, new.worker)):
        yield _pod(was), _pod(becomes)


def _pod(template: JsonObject) -> Pod:
    return msgspec.convert({"spec": template.get("spec") or {}}, Pod)


def _obstacle(was: Pod, becomes: Pod) -> str:
    old, new = qos_class(was.spec), qos_class(becomes.spec)
    if old != new:
        return f"the quality of service would change from {old} to {new}"
    for before, after in zip(was.spec.all_containers, becomes.spec.all_containers, strict=True):
        for kind, left, kept in (
            ("request", before.resources.requests, after.resources.requests),
            ("limit", before.resources.limits, after.resources.limits),
        ):
            if gone := sorted(set(left) - set(kept)):
                return f"the {kind} for {gone[0]} of container {before.name} would be taken away"
        starts = before in was.spec.init_containers and before.restart_policy != "Always"
        if starts and before.resources != after.resources:
            return f"init container {before.name} has ended"
    return ""


def _changed(was: Pod, becomes: Pod) -> list[tuple[Container, Container]]:
    pairs = zip(was.spec.all_containers, becomes.spec.all_containers, strict=True)
    return [(before, after) for before, after in pairs if before.resources != after.resources]


def _command(before: LeaderWorkerSet, changed: list[tuple[Container, Container]]) -> str:
    """`kohort resize` sets one amount for one container of leaders, workers or both; more than that is for kubectl."""
    old = before.template
    wanted = {
        (after.name, tuple((key, str(after.resources.requests.get(key))) for key in _different(was, after)))
        for was, after in changed
    }
    if len(wanted) != 1 or old.raw.get("leaderTemplate"):
        return ""
    ((container, amounts),) = wanted
    if not amounts or any(value == "None" for _, value in amounts):
        return ""
    first = (old.worker.get("spec") or {}).get("containers", [{}])[0].get("name") == container
    options = [word for key, value in amounts for word in (f"--{key}", value)]
    options += [] if first else ["--container", container]
    return Command(Verb.RESIZE, before.metadata.name, before.metadata.namespace, tuple(options)).text


def _different(before: Container, after: Container) -> list[str]:
    return [key for key in _AMOUNTS if before.resources.requests.get(key) != after.resources.requests.get(key)]


def in_place_lines(found: InPlace) -> list[str]:
    if not found.possible:
        return [f"Only cpu and memory change, but not in place: {found.reason}."]
    cost = f"restarting {', '.join(found.restarts)}" if found.restarts else "without a restart"
    way = found.command or "kubectl patch pod --subresource resize"
    return [f"Only cpu and memory change. Pods that run could have them in place, {cost}, instead: {way}"]
