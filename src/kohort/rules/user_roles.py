"""What users may do with the kinds of kohort: roles that are joined to admin, edit and view, which clusters have.

`kohort install` and the Helm chart bring them to a cluster, and so does the operator of an embedded one.

| | admin, edit | view |
|---|---|---|
| what users write: sets, Rollouts, TrafficRoutings, ReleaseAnalyses | everything | read |
| `status` of Rollouts, by which a step is approved | write | read |
| what kohort writes: BatchReleases, RolloutHistories, AnalysisRuns | read | read |
"""

from typing import Final

from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.json_types import JsonObject
from kohort.objects.well_known_names import AGGREGATE_TO
from kohort.rules import rollout_labels

_READ: Final = ["get", "list", "watch"]
_EVERYTHING: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_SETS: Final = LEADER_WORKER_SETS.group
_ANALYSES: Final = "kohort.dev"


def user_roles(*, rollouts: bool = True) -> list[JsonObject]:
    """ClusterRoles without the labels of an installation."""
    found = [
        _role("lws-leaderworkerset-editor-role", _set_rules(_EVERYTHING), "admin", "edit"),
        _role("lws-leaderworkerset-viewer-role", _set_rules(_READ), "view"),
    ]
    if not rollouts:
        return found
    return [
        *found,
        _role("lws-rollout-editor-role", _rollout_rules(_EVERYTHING, ["get", "patch", "update"]), "admin", "edit"),
        _role("lws-rollout-viewer-role", _rollout_rules(_READ, ["get"]), "view"),
    ]


def _set_rules(verbs: list[str]) -> list[JsonObject]:
    return [
        _rule(_SETS, ["leaderworkersets", "leaderworkersets/scale"], verbs),
        _rule(_SETS, ["leaderworkersets/status"], ["get"]),
    ]


def _rollout_rules(verbs: list[str], on_status: list[str]) -> list[JsonObject]:
    group = rollout_labels.GROUP
    return [
        _rule(group, ["rollouts", "trafficroutings"], verbs),
        _rule(group, ["rollouts/status"], on_status),
        _rule(group, ["batchreleases", "rollouthistories"], _READ),
        _rule(_ANALYSES, ["releaseanalyses"], verbs),
        _rule(_ANALYSES, ["analysisruns"], _READ),
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> JsonObject:
    return {"apiGroups": [group], "resources": resources, "verbs": [*verbs]}


def _role(name: str, rules: list[JsonObject], *joined: str) -> JsonObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {f"{AGGREGATE_TO}{one}": "true" for one in joined}},
        "rules": rules,
    }
