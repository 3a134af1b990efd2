"""How a change of cpu and memory alone reaches the groups of a set: `rolloutStrategy.resourceUpdatePolicy`.

| resourceUpdatePolicy | a change of nothing but cpu and memory |
|---|---|
| Recreate, or none | recreates groups, like any other change |
| InPlaceOrRecreate | is carried out on running pods; a group that cannot follow is recreated |
| InPlaceOnly | is carried out on running pods; a group that cannot follow keeps what it has, and the set stops there |
"""

from enum import StrEnum
from typing import Final

from kohort.objects.json_types import JsonObject

_DEFAULT_DEADLINE: Final = 420
LONGEST_DEADLINE: Final = 86400


class ResourceUpdatePolicy(StrEnum):
    RECREATE = "Recreate"
    IN_PLACE_OR_RECREATE = "InPlaceOrRecreate"
    IN_PLACE_ONLY = "InPlaceOnly"

    @property
    def in_place(self) -> bool:
        return self is not ResourceUpdatePolicy.RECREATE


def resource_update_policy(spec: JsonObject) -> ResourceUpdatePolicy:
    """The policy of a set with this spec; Recreate where it says nothing, or what validation will refuse."""
    named = (spec.get("rolloutStrategy") or {}).get("resourceUpdatePolicy")
    return ResourceUpdatePolicy(named) if named in set(ResourceUpdatePolicy) else ResourceUpdatePolicy.RECREATE


def deadline_seconds(spec: JsonObject) -> float:
    """How long a group may take before it is given up."""
    strategy = spec.get("rolloutStrategy") or {}
    return float(strategy.get("resourceUpdateDeadlineSeconds") or _DEFAULT_DEADLINE)
