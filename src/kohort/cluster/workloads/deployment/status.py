"""The status of a Deployment.

| condition | status | reason |
|---|---|---|
| Available | True | MinimumReplicasAvailable |
| Available | False | MinimumReplicasUnavailable |
| Progressing | True | NewReplicaSetCreated, FoundNewReplicaSet, ReplicaSetUpdated, NewReplicaSetAvailable |
| Progressing | Unknown | DeploymentResumed |
| Progressing | Unknown | DeploymentPaused |
| Progressing | False | ProgressDeadlineExceeded, ReplicaSetCreateError |
| ReplicaFailure | True | copied from a ReplicaSet that cannot create pods |
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from kohort.cluster.workloads import conditions
from kohort.kube import clock
from kohort.objects.json_types import JsonObject
from kohort.rules.rolling_limits import RollLimits


def counts(sets: Sequence[JsonObject], new: JsonObject | None) -> JsonObject:
    def total(name: str) -> int:
        return sum((one.get("status") or {}).get(name) or 0 for one in sets)

    wanted = sum(one["spec"].get("replicas") or 0 for one in sets)
    available = total("availableReplicas")
    updated = ((new or {}).get("status") or {}).get("replicas") or 0
    return {
        "replicas": total("replicas") or None,
        "updatedReplicas": updated or None,
        "readyReplicas": total("readyReplicas") or None,
        "availableReplicas": available or None,
        "unavailableReplicas": max(0, wanted - available) or None,
        "terminatingReplicas": total("terminatingReplicas"),
    }


def is_complete(deployment: JsonObject, status: JsonObject) -> bool:
    wanted = deployment["spec"].get("replicas", 1)
    names = ("updatedReplicas", "replicas", "availableReplicas")
    return all((status.get(name) or 0) == wanted for name in names)


def has_deadline(deployment: JsonObject) -> bool:
    return deployment["spec"].get("progressDeadlineSeconds") not in (None, 2147483647)


def with_availability(deployment: JsonObject, status: JsonObject, limits: RollLimits) -> list[JsonObject]:
    """The conditions with Available set from the counters in `status`."""
    found: list[JsonObject] = (deployment.get("status") or {}).get("conditions") or []
    wanted = deployment["spec"].get("replicas", 1)
    if (status.get("availableReplicas") or 0) >= wanted - limits.unavailable:
        return _set(found, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    text = "Deployment does not have minimum availability."
    return _set(found, "Available", "False", "MinimumReplicasUnavailable", text)


CREATED: Final = "NewReplicaSetCreated"
FOUND: Final = "FoundNewReplicaSet"


def with_progress(
    deployment: JsonObject, status: JsonObject, found: list[JsonObject], new: JsonObject | None, origin: str
) -> list[JsonObject]:
    """The conditions with Progressing set. `origin`: the new set was CREATED by this reconcile, or FOUND."""
    if not has_deadline(deployment):
        return [one for one in found if one["type"] != "Progressing"]
    name = new["metadata"]["name"] if new else ""
    if new and origin == CREATED:
        return _set(found, "Progressing", "True", CREATED, f'Created new replica set "{name}"')
    if new and conditions.find(found, "Progressing") is None:
        found = _set(found, "Progressing", "True", FOUND, f'Found new replica set "{name}"')
    current = conditions.find(found, "Progressing")
    subject = f'ReplicaSet "{name}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
    finished = current is not None and current.get("reason") == "NewReplicaSetAvailable"
    if finished and (status.get("replicas") or 0) == (status.get("updatedReplicas") or 0):
        # No rollout is under way: changes of the counters are not progress.
        return found
    if is_complete(deployment, status):
        return _set(found, "Progressing", "True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.")
    if _made_progress(deployment, status):
        return _restart_deadline(found, f"{subject} is progressing.")
    if current is not None and _overdue(current, deployment["spec"]["progressDeadlineSeconds"]):
        return _set(found, "Progressing", "False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
    return found


def _restart_deadline(found: list[JsonObject], message: str) -> list[JsonObject]:
    """Progress was made: the deadline starts anew, so the update time moves even if nothing else does, and the
    condition goes to the end of the list."""
    marked = _set(found, "Progressing", "True", "ReplicaSetUpdated", message)
    if marked is not found:
        return marked
    others = [one for one in found if one["type"] != "Progressing"]
    same = [one for one in found if one["type"] == "Progressing"]
    return others + [{**one, "lastUpdateTime": clock.timestamp()} for one in same]


def _made_progress(deployment: JsonObject, status: JsonObject) -> bool:
    """Counters moved in the wanted direction since the last status."""
    before = deployment.get("status") or {}

    def change(name: str) -> int:
        return int((status.get(name) or 0) - (before.get(name) or 0))

    old_now = (status.get("replicas") or 0) - (status.get("updatedReplicas") or 0)
    old_before = (before.get("replicas") or 0) - (before.get("updatedReplicas") or 0)
    return (
        change("updatedReplicas") > 0
        or old_now < old_before
        or change("readyReplicas") > 0
        or change("availableReplicas") > 0
    )


def _overdue(condition: JsonObject, deadline: int) -> bool:
    if condition.get("reason") in ("NewReplicaSetAvailable", "DeploymentPaused"):
        return False
    if condition.get("reason") == "ProgressDeadlineExceeded":
        return True
    return clock.now() > deadline_of(condition, deadline)


def deadline_of(condition: JsonObject, deadline: int) -> datetime:
    since = condition.get("lastUpdateTime") or condition["lastTransitionTime"]
    return clock.parse_time(since) + timedelta(seconds=deadline)


def with_failures(found: list[JsonObject], new: JsonObject | None, sets: Sequence[JsonObject]) -> list[JsonObject]:
    """The conditions with the failure of a set that cannot create pods; that of the new set before others."""
    for one in [*([new] if new else []), *sets]:
        failure = conditions.find((one.get("status") or {}).get("conditions") or [], "ReplicaFailure")
        if failure is not None:
            reason, message = failure.get("reason", ""), failure.get("message", "")
            return _set(found, "ReplicaFailure", failure["status"], reason, message)
    return [one for one in found if one["type"] != "ReplicaFailure"]


def _set(found: list[JsonObject], type: str, status: str, reason: str, message: str) -> list[JsonObject]:
    return conditions.merged(found, type, status, reason, message, update_time=True)
