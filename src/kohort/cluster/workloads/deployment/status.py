"""The status of a Deployment.

| condition | status | reason |
|---|---|---|
| Available | True | MinimumReplicasAvailable |
| Available | False | MinimumReplicasUnavailable |
| Progressing | True | NewReplicaSetCreated, FoundNewReplicaSet, ReplicaSetUpdated, NewReplicaSetAvailable |
| Progressing | Unknown | DeploymentResumed |
| Progressing | Unknown | DeploymentPaused |
| Progressing | False | ProgressDeadlineExceeded |
| ReplicaFailure | True | copied from a ReplicaSet that cannot create pods |
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from kohort.cluster.workloads import conditions
from kohort.cluster.workloads.deployment.plan import Budget
from kohort.kube import clock
from kohort.objects.jsontypes import JsonObject


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


def with_conditions(
    deployment: JsonObject,
    status: JsonObject,
    limits: Budget,
    new: JsonObject | None,
    sets: Sequence[JsonObject],
    *,
    created: bool = False,
) -> list[JsonObject]:
    """All conditions, for the counters in `status`. `created`: this pass made the new set."""
    found: list[JsonObject] = (deployment.get("status") or {}).get("conditions") or []
    wanted = deployment["spec"].get("replicas", 1)
    if (status.get("availableReplicas") or 0) >= wanted - limits.unavailable:
        found = _set(found, "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        text = "Deployment does not have minimum availability."
        found = _set(found, "Available", "False", "MinimumReplicasUnavailable", text)
    if created and new is not None and deployment["spec"].get("progressDeadlineSeconds") is not None:
        text = f'Created new replica set "{new["metadata"]["name"]}"'
        found = _set(found, "Progressing", "True", "NewReplicaSetCreated", text)
    else:
        found = _progress(deployment, status, new, found)
    return _replica_failure(found, sets)


def _progress(
    deployment: JsonObject, status: JsonObject, new: JsonObject | None, found: list[JsonObject]
) -> list[JsonObject]:
    deadline = deployment["spec"].get("progressDeadlineSeconds")
    name = new["metadata"]["name"] if new else ""
    subject = f'ReplicaSet "{name}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
    current = conditions.find(found, "Progressing")
    if deadline is None or deadline == 2147483647 or deployment["spec"].get("paused"):
        return found
    finished = current is not None and current.get("reason") == "NewReplicaSetAvailable"
    if finished and (status.get("replicas") or 0) == (status.get("updatedReplicas") or 0):
        # No rollout is under way: pods that come and go now are no progress of one.
        return found
    if is_complete(deployment, status) and new is not None:
        return _set(found, "Progressing", "True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.")
    if _moved(deployment, status):
        return _touched(found, f"{subject} is progressing.")
    if current is not None and _overdue(current, deadline):
        return _set(found, "Progressing", "False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
    return found


def _touched(found: list[JsonObject], message: str) -> list[JsonObject]:
    """Progress was made: the deadline starts anew, so the update time moves even if nothing else does."""
    marked = _set(found, "Progressing", "True", "ReplicaSetUpdated", message)
    if marked is not found:
        return marked
    return [{**one, "lastUpdateTime": clock.timestamp()} if one["type"] == "Progressing" else one for one in found]


def _moved(deployment: JsonObject, status: JsonObject) -> bool:
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


def _replica_failure(found: list[JsonObject], sets: Sequence[JsonObject]) -> list[JsonObject]:
    for one in sets:
        failure = conditions.find((one.get("status") or {}).get("conditions") or [], "ReplicaFailure")
        if failure is not None:
            reason, message = failure.get("reason", ""), failure.get("message", "")
            return _set(found, "ReplicaFailure", failure["status"], reason, message)
    return [one for one in found if one["type"] != "ReplicaFailure"]


def _set(found: list[JsonObject], type: str, status: str, reason: str, message: str) -> list[JsonObject]:
    return conditions.merged(found, type, status, reason, message, update_time=True)
