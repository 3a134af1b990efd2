"""Events are served by two groups and stored once, in the core form.

The newer group renamed almost every field. Both directions are a table of names; what has no pair in the table keeps
its name. The core form always writes its time stamps, the newer form only since when they are set, so a missing time
is `null` in one and absent or `null` in the other.
"""

from kohort.cluster.apiserver.kinds.model import Kind
from kohort.objects.json_types import JsonObject

_CORE_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "source": "deprecatedSource",
    "reportingComponent": "reportingController",
}
_NEW_TO_CORE = {new: core for core, new in _CORE_TO_NEW.items()}

_ABSENT_WHEN_EMPTY = ("reportingController", "reportingInstance")
"""The core form always shows these two, the newer form only with a value."""


def to_core(event: JsonObject) -> JsonObject:
    stored = {_NEW_TO_CORE.get(key, key): value for key, value in event.items()}
    stored["apiVersion"] = "v1"
    for key in ("involvedObject", "source"):
        stored.setdefault(key, {})
    for key in ("firstTimestamp", "lastTimestamp", "eventTime"):
        stored.setdefault(key, None)
    for key in ("reportingComponent", "reportingInstance"):
        stored.setdefault(key, "")
    return stored


def from_core(event: JsonObject) -> JsonObject:
    served = {_CORE_TO_NEW.get(key, key): value for key, value in event.items()}
    served["apiVersion"] = "events.k8s.io/v1"
    for key in _ABSENT_WHEN_EMPTY:
        if not served.get(key):
            served.pop(key, None)
    return served


def share_storage(newer: Kind, core: Kind) -> None:
    newer.bucket = core.bucket
    newer.from_storage = from_core
    newer.to_storage = to_core
