"""Status conditions: one entry per type, whose transition time moves only when its status does."""

from kohort.kube import clock
from kohort.objects.json_types import JsonObject


def merged(
    before: list[JsonObject], type: str, status: str, reason: str, message: str, *, update_time: bool = False
) -> list[JsonObject]:
    """`before` with this condition set; the same list object when the condition already is as wanted.

    `update_time` adds `lastUpdateTime`, which Deployments have and other kinds do not.
    """
    old = next((one for one in before if one["type"] == type), None)
    if old is not None and (old["status"], old.get("reason"), old.get("message")) == (status, reason, message):
        return before
    now = clock.timestamp()
    since = old["lastTransitionTime"] if old is not None and old["status"] == status else now
    entry: JsonObject = {"type": type, "status": status, "lastTransitionTime": since, "reason": reason}
    if message:
        entry["message"] = message
    if update_time:
        entry["lastUpdateTime"] = now
    return [one for one in before if one["type"] != type] + [entry]


def find(conditions: list[JsonObject], type: str) -> JsonObject | None:
    return next((one for one in conditions if one["type"] == type), None)
