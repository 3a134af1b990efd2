"""The annotation `endpoints.kubernetes.io/last-change-trigger-time`: since when endpoints are out of date.

Consumers of endpoints measure how long a change takes to reach them, so each write carries the time of its cause: the
earliest change of readiness among the pods, or the creation of the Service, since the last write.
"""

from collections.abc import Iterable
from typing import Final

from kohort.kube.resources import Key
from kohort.objects.core import Pod

LAST_CHANGE: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class Triggers:
    def __init__(self) -> None:
        self._seen: dict[Key, dict[str, str]] = {}

    def since_last_time(self, service: Key, created: str, pods: Iterable[Pod]) -> str:
        """The moment of the earliest change since the last call, empty when there is none. Times are RFC 3339 of
        one form, so they sort as text."""
        before = self._seen.get(service, {})
        now = {"": created, **{pod.metadata.name: changed for pod in pods if (changed := _readiness_changed(pod))}}
        self._seen[service] = now
        return min((moment for name, moment in now.items() if moment > before.get(name, "")), default="")

    def forget(self, service: Key) -> None:
        self._seen.pop(service, None)


def _readiness_changed(pod: Pod) -> str:
    found = next((one for one in pod.status.conditions if one.type == "Ready"), None)
    return str(found.last_transition_time) if found is not None and found.last_transition_time else ""
