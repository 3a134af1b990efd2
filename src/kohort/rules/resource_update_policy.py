"""How a change of cpu and memory alone reaches the groups of a set: `rolloutStrategy.resourceUpdatePolicy`."""

from enum import StrEnum

from kohort.objects.json_types import JsonObject


class ResourceUpdatePolicy(StrEnum):
    RECREATE = "Recreate"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE_ONLY = "InPlaceOnly"


def resource_update_policy(spec: JsonObject) -> ResourceUpdatePolicy:
    """The policy of a set with this spec; Recreate where it says nothing."""
    strategy = spec.get("rolloutStrategy") or {}
    return ResourceUpdatePolicy(strategy.get("resourceUpdatePolicy") or ResourceUpdatePolicy.RECREATE)
