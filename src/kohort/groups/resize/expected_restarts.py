"""Restarts that the resize policies of a pod cause are expected: they do not recreate its group.

The operator notes them on the pod before it sends a resize. A resize by another client (kubectl, an autoscaler) is
noticed when it is stored, which is before its node acts on it:

| the pod | noted |
|---|---|
| its resources changed, and a container asks to be restarted for that | one restart more than it has |
| the same, and a restart of that container is noted already and has not happened | nothing: this is it |
| a resize that its node has not accepted was taken back | nothing: the container feels the same as before |

A note is kept in memory until it is on the pod, because the restart may be seen before the note is.

A resize that was sent while the operator did not run is recognised when it is back, by the pod alone. Every resize adds
one to the generation of its pod, so a pod has been resized at most `generation - 1` times:

| a pod that the operator sees for the first time | noted |
|---|---|
| its resources are those of its template | nothing: its restarts are failures |
| they differ, in a way for which a container asks to be restarted | its restarts, at most one for each resize |
| the same, and its node has not carried out the last resize | one more, which is still to come |
"""

from collections.abc import Mapping

import msgspec

from kohort.groups.restart_counts import expected_restarts
from kohort.kube.client import Client
from kohort.kube.errors import NotFound
from kohort.kube.resources import PODS
from kohort.objects.pods import Container, Pod, PodSpec
from kohort.rules import group_labels
from kohort.rules.resize_conditions import ResizeState
from kohort.rules.resize_restart import containers_to_restart
from kohort.rules.resource_edit import StatedAmounts, with_amounts


def notes_after_resize(pod: Pod, resized: PodSpec) -> dict[str, int]:
    """What must be noted on a pod that gets these resources; empty if nothing new."""
    counts, noted = _restart_counts(pod), expected_restarts(pod)
    found = {name: counts.get(name, 0) + 1 for name in containers_to_restart(_spec_in_effect(pod), resized)}
    return {name: count for name, count in found.items() if noted.get(name, 0) < count}


def notes_for_missed_resizes(pod: Pod, template: StatedAmounts) -> dict[str, int]:
    """What must be noted on a pod that others may have resized unseen, given what its template states."""
    resizes = pod.metadata.generation - 1
    containers = {"", *(one.name for one in pod.spec.all_containers)}
    stated = {field: amount for field, amount in template.items() if field.container in containers}
    resized = containers_to_restart(with_amounts(pod, stated).spec, pod.spec) if resizes > 0 else []
    to_come = 1 if _is_still_to_be_carried_out(pod) else 0
    counts, noted = _restart_counts(pod), expected_restarts(pod)
    found = {name: min(counts.get(name, 0), resizes - to_come) + to_come for name in resized}
    return {name: count for name, count in found.items() if noted.get(name, 0) < count}


def _is_still_to_be_carried_out(pod: Pod) -> bool:
    status = pod.status
    if status.observed_generation and status.observed_generation < pod.metadata.generation:
        return True
    reported = ResizeState.reported(pod)
    if reported.pending is not None:
        return True
    return reported.progress is not None and bool(containers_to_restart(_reported_spec(pod), pod.spec))


def _restart_counts(pod: Pod) -> dict[str, int]:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return {one.name: one.restart_count for one in statuses}


def _spec_in_effect(pod: Pod) -> PodSpec:
    """The spec with what its containers have. A resize that the node has not accepted has changed nothing for them."""
    return pod.spec if ResizeState.reported(pod).pending is None else _reported_spec(pod)


def _reported_spec(pod: Pod) -> PodSpec:
    """The spec with the resources that the node reports for containers."""
    actual = {one.name: one.resources for one in (*pod.status.init_container_statuses, *pod.status.container_statuses)}

    def felt(container: Container) -> Container:
        resources = actual.get(container.name)
        return container if resources is None else msgspec.structs.replace(container, resources=resources)

    return msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(felt, pod.spec.containers or ())),
        init_containers=tuple(map(felt, pod.spec.init_containers)),
    )


class ResizesByOthers:
    """What pods will do because of resizes that the operator did not send, until it is noted on them."""

    def __init__(self) -> None:
        self._notes: dict[str, dict[str, int]] = {}
        self._unexamined: set[str] = set()
        """Uids of pods that may have been resized before they were first seen."""

    def saw(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._notes.pop(old.metadata.uid, None)
                self._unexamined.discard(old.metadata.uid)
            return
        if (old is None or old.metadata.uid != new.metadata.uid) and new.metadata.generation > 1:
            self._unexamined.add(new.metadata.uid)
        if old is None or old.metadata.uid != new.metadata.uid or old.metadata.generation == new.metadata.generation:
            return
        before = msgspec.structs.replace(old, metadata=new.metadata)
        notes = notes_after_resize(before, new.spec)
        if notes:
            first, now = _restart_counts(old), _restart_counts(new)
            resizes = new.metadata.generation - old.metadata.generation
            notes = {name: max(n, min(now.get(name, 0), first.get(name, 0) + resizes)) for name, n in notes.items()}
            known = self._notes.get(new.metadata.uid, {})
            self._notes[new.metadata.uid] = {**known, **notes}

    def is_unexamined(self, pod: Pod) -> bool:
        return pod.metadata.uid in self._unexamined

    def examine(self, pod: Pod, template: StatedAmounts) -> None:
        """Find out whether a pod that was just seen for the first time had been resized before."""
        uid = pod.metadata.uid
        self._unexamined.discard(uid)
        notes = notes_for_missed_resizes(pod, template)
        if notes:
            self._notes[uid] = {**notes, **self._notes.get(uid, {})}

    def noted(self, pod: Pod) -> Pod:
        """The pod as if everything that is known were noted on it."""
        notes = self._notes.get(pod.metadata.uid)
        return pod if notes is None else with_notes(pod, notes)

    async def write(self, client: Client, pod: Pod) -> None:
        """Note on the pod what is only known here."""
        uid = pod.metadata.uid
        notes = self._notes.get(uid)
        if notes is None:
            return
        if not _is_noted(pod, notes):
            try:
                await client.patch(PODS, pod.metadata.name, pod.metadata.namespace, annotation_patch(pod, notes))
            except NotFound:
                return
        elif self._notes.get(uid) == notes:
            del self._notes[uid]


def with_notes(pod: Pod, notes: Mapping[str, int]) -> Pod:
    annotations = {**pod.metadata.annotations, group_labels.EXPECTED_RESTARTS: _text(pod, notes)}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


def annotation_patch(pod: Pod, notes: Mapping[str, int]) -> dict[str, object]:
    return {"metadata": {"uid": pod.metadata.uid, "annotations": {group_labels.EXPECTED_RESTARTS: _text(pod, notes)}}}


def _is_noted(pod: Pod, notes: Mapping[str, int]) -> bool:
    known = expected_restarts(pod)
    return all(known.get(name, 0) >= count for name, count in notes.items())


def _text(pod: Pod, notes: Mapping[str, int]) -> str:
    known = expected_restarts(pod)
    merged = {**known, **{name: max(known.get(name, 0), count) for name, count in notes.items()}}
    return msgspec.json.encode(merged).decode()
