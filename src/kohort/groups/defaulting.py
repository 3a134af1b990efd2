"""Defaults of a LeaderWorkerSet that its schema cannot give."""

import copy

from kohort.groups import wire
from kohort.objects.jsontypes import JsonObject


def defaulted(group_set: JsonObject) -> JsonObject:
    """The object with defaults filled in; the input is not changed.

    | field | absent | becomes |
    |---|---|---|
    | leaderWorkerTemplate.restartPolicy | or empty | RecreateGroupOnPodRestart |
    | leaderWorkerTemplate.restartPolicy | Default | None |
    | rolloutStrategy.type | or empty | RollingUpdate |
    | rolloutStrategy.rollingUpdateConfiguration | yes | partition 0, maxUnavailable 1, maxSurge 0 |
    | networkConfig, its subdomainPolicy | yes | Shared |
    | startupPolicy | empty, as Go clients send it | LeaderCreated |
    """
    result = copy.deepcopy(group_set)
    spec = result["spec"] = result.get("spec") or {}
    template = spec["leaderWorkerTemplate"] = spec.get("leaderWorkerTemplate") or {}
    policy = template.get("restartPolicy")
    template["restartPolicy"] = {"": wire.RECREATE_ON_RESTART, "Default": "None"}.get(policy or "", policy)
    strategy = spec.get("rolloutStrategy") or {}
    spec["rolloutStrategy"] = strategy
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdateConfiguration") is None:
        strategy["rollingUpdateConfiguration"] = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
    network = spec.get("networkConfig") or {}
    spec["networkConfig"] = network
    network["subdomainPolicy"] = network.get("subdomainPolicy") or wire.SHARED
    if spec.get("startupPolicy") == "":
        spec["startupPolicy"] = wire.LEADER_CREATED
    return result
