"""Pods that fail again and again are made again ever more slowly, whatever creates them.

Pods of groups restart their containers in place; their phase is Failed when a node does not take them in or ends them
as a whole. The StatefulSet controller of Kubernetes replaces such a pod at once, and a node that refuses it refuses the
next one just as fast: several pods a second, for ever. No field of a StatefulSet delays that, and refusing the pod in
the webhook would keep the controller from the other pods of the set, too: it stops at the first that it cannot create.

So the webhook holds the new pod by a scheduling gate, and notes until when and why. The pod controller removes the gate
then. It needs to remember nothing for that, so a restart of the operator neither forgets a pod nor holds it longer.

| the pod before it, of the same name and revision | the new pod |
|---|---|
| did not fail, or the failure before that is long ago | is not held |
| failed, as the one before it had | held for 10 s, twice as long each time, up to 5 min since it was let go |

The StatefulSet controller of the embedded cluster waits by the same rule before it creates a pod; the rest of a pause
below `TOLERANCE` is not worth a gate.
"""

from datetime import timedelta
from typing import Final

import msgspec

from kohort.kube import clock
from kohort.kube.resources import Key
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.restart_backoff import RestartBackoff, resets_count

TOLERANCE: Final = 1.0
_LONGEST_REASON: Final = 256


class Failure(msgspec.Struct, frozen=True):
    revision: str
    at: float
    reason: str


class Hold(msgspec.Struct, frozen=True):
    seconds: float
    reason: str
    """Why the pod before failed."""


class FailedPods:
    """What a cache of pods has shown of those that failed."""

    def __init__(self) -> None:
        self._backoff = RestartBackoff[Key]()
        self._failures: dict[Key, Failure] = {}

    def saw(self, old: Pod | None, new: Pod | None) -> None:
        """A change of a pod, to be called for all of them."""
        if new is None or not _failed(new) or (old is not None and _same(old, new) and _failed(old)):
            return
        now, key = clock.seconds(), Key(new.metadata.namespace, new.metadata.name)
        self._failures = {one: seen for one, seen in self._failures.items() if not resets_count(now - seen.at)}
        self._backoff.forget_old(now)
        before = self._failures.get(key)
        if before is not None and before.revision == _revision(new):
            self._backoff.done(key, _began(new, now))
        else:
            self._backoff.forget(lambda one: one == key)
        self._failures[key] = Failure(_revision(new), now, _reason(new))

    def hold(self, key: Key, revision: str) -> Hold | None:
        """How long a new pod is to be held; None if it is not."""
        failure = self._failures.get(key)
        if failure is None or failure.revision != revision:
            return None
        pause = self._backoff.pause(key, clock.seconds())
        return Hold(pause, failure.reason) if pause > TOLERANCE else None


def held(pod: JsonObject, hold: Hold) -> JsonObject:
    """The new pod with the gate; as it is if it has a node, or has the gate from an earlier call of the webhook."""
    metadata, spec = pod["metadata"], pod["spec"]
    gates = spec.get("schedulingGates") or []
    if spec.get("nodeName") or any(gate["name"] == group_labels.HELD_GATE for gate in gates):
        return pod
    until = clock.format_time(clock.now() + timedelta(seconds=hold.seconds))
    notes = {group_labels.HELD_UNTIL: until, group_labels.HELD_BECAUSE: hold.reason}
    return {
        **pod,
        "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **notes}},
        "spec": {**spec, "schedulingGates": [*gates, {"name": group_labels.HELD_GATE}]},
    }


def is_held(pod: Pod) -> bool:
    return any(gate.name == group_labels.HELD_GATE for gate in pod.spec.scheduling_gates)


def seconds_left(pod: Pod) -> float:
    """Until the gate of a held pod is removed. Zero or less if that is due, or if nothing readable says when."""
    return _held_until(pod) - clock.seconds()


def _held_until(pod: Pod) -> float:
    try:
        return clock.parse_time(pod.metadata.annotations.get(group_labels.HELD_UNTIL, "")).timestamp()
    except ValueError:
        return 0.0


def _began(pod: Pod, now: float) -> float:
    """When a pod that has failed was let go: held ones later than they were created."""
    created = clock.parse_time(pod.metadata.creation_timestamp).timestamp() if pod.metadata.creation_timestamp else now
    return min(now, max(created, _held_until(pod)))


def _failed(pod: Pod) -> bool:
    """By itself: a kubelet calls pods that are deleted Failed, too, when their containers were ended by a signal."""
    return pod.status.phase == "Failed" and not pod.metadata.deleting


def _same(old: Pod, new: Pod) -> bool:
    return old.metadata.uid == new.metadata.uid


def _revision(pod: Pod) -> str:
    return pod.metadata.labels.get(group_labels.REVISION, "")


def _reason(pod: Pod) -> str:
    status = pod.status
    return ": ".join(filter(None, (status.reason, status.message)))[:_LONGEST_REASON] or "its phase was Failed"
