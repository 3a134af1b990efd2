"""Defaults of a LeaderWorkerSet that its schema cannot give."""

import copy

from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_template import with_default_template
from kohort.rules.rolling_limits import DEFAULT_ROLLING_OF_GROUPS


def defaulted(group_set: JsonObject) -> JsonObject:
    """The object with defaults filled in; the input is not changed.

    | field | absent | becomes |
    |---|---|---|
    | leaderWorkerTemplate, networkConfig | | see `rules.group_template.with_default_template` |
    | rolloutStrategy.type | or empty | RollingUpdate |
    | rolloutStrategy.rollingUpdateConfiguration | yes | partition 0, maxUnavailable 1, maxSurge 0 |
    | startupPolicy | empty, as Go clients send it | LeaderCreated |
    """
    result = copy.deepcopy(group_set)
    spec = result["spec"] = with_default_template(result.get("spec") or {})
    strategy = spec.get("rolloutStrategy") or {}
    spec["rolloutStrategy"] = strategy
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdateConfiguration") is None:
        strategy["rollingUpdateConfiguration"] = dict(DEFAULT_ROLLING_OF_GROUPS)
    if spec.get("startupPolicy") == "":
        spec["startupPolicy"] = group_labels.LEADER_CREATED
    return result
