"""The definition of the LeaderWorkerSet resource.

Rules that the webhook checks and that can be said in CEL stand here too, so that the API stays guarded when the webhook
is away.
"""

import copy
from functools import cache
from typing import Final

from kohort.groups import subgroups
from kohort.groups.disruption_budget import DisruptedBy
from kohort.groups.field_descriptions import MEANINGS
from kohort.groups.restart_budget import LONGEST_DELAY_TOO_SHORT, LONGEST_HISTORY, RestartBudget
from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects import well_known_names
from kohort.objects.crd_schema import schema_of
from kohort.objects.int_or_string import LARGEST, PERCENT_WRONG
from kohort.objects.json_types import JsonObject
from kohort.objects.schema_keywords import INT_OR_STRING, described, enum, int32, rule, shape
from kohort.rules.rolling_limits import DEFAULT_ROLLING_OF_GROUPS

NAME: Final = LEADER_WORKER_SETS.qualified
_QUALIFIED: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
"""As metav1.Condition has it for types."""
_WIDTH: Final = ".subGroupPolicy.subGroupSize"


def definition() -> JsonObject:
    """The CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": NAME,
            "annotations": {well_known_names.API_APPROVED: "https://github.com/kubernetes-sigs/lws"},
        },
        "spec": {
            "group": LEADER_WORKER_SETS.group,
            "names": {
                "kind": "LeaderWorkerSet",
                "listKind": "LeaderWorkerSetList",
                "plural": "leaderworkersets",
                "singular": "leaderworkerset",
                "shortNames": ["lws"],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        _column("Ready", "integer", ".status.readyReplicas", "Number of ready replicas"),
                        _column("Desired", "integer", ".spec.replicas", "Number of desired replicas"),
                        _column("Up-to-date", "integer", ".status.updatedReplicas", "Number of up-to-date replicas"),
                        _column("Age", "date", ".metadata.creationTimestamp"),
                    ],
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.hpaPodSelector",
                        },
                    },
                    "schema": {"openAPIV3Schema": _schema()},
                }
            ],
        },
    }


def _column(name: str, type: str, path: str, text: str = "") -> JsonObject:
    column: JsonObject = {"name": name, "type": type, "jsonPath": path}
    return {**column, "description": text} if text else column


@cache
def _schema() -> JsonObject:
    """Made once, since it is large: for reading only."""
    return described(_root(), MEANINGS)


def _root() -> JsonObject:
    return shape(
        {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _spec(),
            "status": _status(),
        }
    )


def _spec() -> JsonObject:
    rolling = shape(
        {
            "partition": int32(default=DEFAULT_ROLLING_OF_GROUPS["partition"]),
            "maxUnavailable": {**INT_OR_STRING, "default": DEFAULT_ROLLING_OF_GROUPS["maxUnavailable"]},
            "maxSurge": {**INT_OR_STRING, "default": DEFAULT_ROLLING_OF_GROUPS["maxSurge"]},
        },
        rules=(
            rule(
                "!has(self.partition) || self.partition >= 0",
                "must be greater than or equal to 0",
                fieldPath=".partition",
            ),
            *_amount_rules("maxUnavailable"),
            *_amount_rules("maxSurge"),
        ),
    )
    strategy = shape(
        {
            "type": enum("RollingUpdate", default="RollingUpdate"),
            "rollingUpdateConfiguration": rolling,
            "resourceUpdatePolicy": enum("Recreate", "InPlaceOrRecreate", "InPlaceOnly"),
            "resourceUpdateDeadlineSeconds": int32(minimum=1, maximum=86_400),
        },
        required=("type",),
    )
    return shape(
        {
            "replicas": int32(default=1, minimum=0, maximum=1_000_000),
            "startupPolicy": enum("LeaderCreated", "LeaderReady", default="LeaderCreated"),
            "rolloutStrategy": strategy,
            "disruptionBudget": shape(
                {"maxUnavailable": INT_OR_STRING}, required=("maxUnavailable",), rules=_amount_rules("maxUnavailable")
            ),
            "networkConfig": shape(
                {"subdomainPolicy": enum("Shared", "UniquePerReplica")}, required=("subdomainPolicy",)
            ),
            "leaderWorkerTemplate": _template(),
        },
        required=("leaderWorkerTemplate",),
        rules=(
            rule(
                "!has(self.replicas) || !has(self.leaderWorkerTemplate.size) || "
                "self.replicas * self.leaderWorkerTemplate.size <= 2147483647",
                "the product of replicas and worker replicas must not exceed 2147483647",
                fieldPath=".replicas",
            ),
            _step_rule(),
        ),
    )


def _step_rule() -> JsonObject:
    """A roll needs room for a step, unless there is nothing to roll. A strategy that is there already does not stand in
    the way of scaling up from 0: the controller then takes one group at a time."""
    rolling = "self.rolloutStrategy.rollingUpdateConfiguration"
    here = f"has(self.rolloutStrategy) && has({rolling}) && has({rolling}.maxUnavailable) && has({rolling}.maxSurge)"
    nothing = " && ".join(
        f"({rolling}.{one} == 0 || {rolling}.{one} == '0%')" for one in ("maxUnavailable", "maxSurge")
    )
    kept = (
        "oldSelf.hasValue() && has(oldSelf.value().rolloutStrategy) && "
        "oldSelf.value().rolloutStrategy == self.rolloutStrategy"
    )
    return rule(
        f"!({here}) || !({nothing}) || (has(self.replicas) && self.replicas == 0) || ({kept})",
        "must not be 0 when `maxSurge` is 0",
        fieldPath=".rolloutStrategy.rollingUpdateConfiguration.maxUnavailable",
        optionalOldSelf=True,
    )


def _amount_rules(field: str) -> tuple[JsonObject, ...]:
    """A number of groups, or a percentage of them up to 100%."""
    path = f".{field}"
    return (
        rule(
            f"!has(self.{field}) || type(self.{field}) != int || self.{field} >= 0",
            "must be greater than or equal to 0",
            fieldPath=path,
        ),
        rule(
            f"!has(self.{field}) || type(self.{field}) != int || self.{field} <= {LARGEST}",
            f"must be less than or equal to {LARGEST}",
            fieldPath=path,
        ),
        rule(
            f"!has(self.{field}) || type(self.{field}) != string || self.{field}.matches('^[0-9]+%$')",
            PERCENT_WRONG,
            fieldPath=path,
        ),
        rule(
            f"!has(self.{field}) || type(self.{field}) != string || !self.{field}.matches('^[0-9]{{1,9}}%$') || "
            f"int(self.{field}.replace('%', '')) <= 100",
            "must not be greater than 100%",
            fieldPath=path,
        ),
    )


def _template() -> JsonObject:
    pod = copy.deepcopy(schema_of("io.k8s.api.core.v1.PodTemplateSpec"))
    claim = copy.deepcopy(schema_of("io.k8s.api.core.v1.PersistentVolumeClaim"))
    retention = shape({"whenDeleted": enum("Retain", "Delete"), "whenScaled": enum("Retain", "Delete")})
    return shape(
        {
            "leaderTemplate": pod,
            "workerTemplate": pod,
            "size": int32(default=1),
            "restartPolicy": enum(
                "Default",
                "RecreateGroupOnPodRestart",
                "RecreateGroupAfterStart",
                "None",
                default="RecreateGroupOnPodRestart",
            ),
            "resizePolicy": enum("None", "Recreate"),
            "restartBudget": _restart_budget(),
            "subGroupPolicy": _subgroup_policy(),
            "schedulingPolicy": _scheduling_policy(),
            "volumeClaimTemplates": {"type": "array", "items": claim},
            "persistentVolumeClaimRetentionPolicy": retention,
        },
        required=("workerTemplate",),
        rules=(
            rule("!has(self.size) || self.size >= 1", "size must be equal or greater than 1", fieldPath=".size"),
            *_division_rules(),
            rule(
                "!has(self.subGroupPolicy) || has(oldSelf.subGroupPolicy)",
                subgroups.ADDED_LATER,
                fieldPath=_WIDTH,
            ),
            rule(
                "has(self.subGroupPolicy) || !has(oldSelf.subGroupPolicy)",
                subgroups.REMOVED_LATER,
                fieldPath=_WIDTH,
            ),
        ),
    )


def _subgroup_policy() -> JsonObject:
    return shape(
        {
            "subGroupSize": int32(),
            "subGroupPolicyType": enum("LeaderWorker", "LeaderExcluded", default="LeaderWorker"),
        },
        rules=(
            _same("subGroupSize"),
            rule(
                "has(self.subGroupSize)",
                subgroups.SIZE_MISSING,
                fieldPath=".subGroupSize",
                reason="FieldValueRequired",
            ),
            rule(
                "!has(self.subGroupSize) || self.subGroupSize >= 1",
                subgroups.SIZE_TOO_SMALL,
                fieldPath=".subGroupSize",
            ),
        ),
    )


def _scheduling_policy() -> JsonObject:
    toleration = shape(
        {"key": {"type": "string"}, "effect": enum(*well_known_names.TAINT_EFFECTS)},
        required=("key", "effect"),
    )
    return shape({"replicaUniqueNodeSelector": {"type": "string"}, "replicaUniqueToleration": toleration})


def _restart_budget() -> JsonObject:
    default = RestartBudget()
    return shape(
        {
            "maxRestarts": int32(minimum=0, maximum=LONGEST_HISTORY),
            "windowSeconds": int32(default=default.window_seconds, minimum=1, maximum=604_800),
            "backoffSeconds": int32(default=default.backoff_seconds, minimum=0, maximum=86_400),
            "maxBackoffSeconds": int32(default=default.max_backoff_seconds, minimum=0, maximum=86_400),
            "nodeLossSeconds": int32(default=default.node_loss_seconds, minimum=1, maximum=86_400),
            "forceDeleteOnNodeLoss": {"type": "boolean", "default": default.force_delete_on_node_loss},
        },
        rules=(
            rule(
                "!has(self.backoffSeconds) || !has(self.maxBackoffSeconds) || "
                "self.maxBackoffSeconds >= self.backoffSeconds",
                LONGEST_DELAY_TOO_SHORT,
                fieldPath=".maxBackoffSeconds",
            ),
        ),
    )


def _division_rules() -> tuple[JsonObject, ...]:
    """Groups must be divisible into subgroups."""
    without = "!has(self.size) || !has(self.subGroupPolicy) || !has(self.subGroupPolicy.subGroupSize) || "
    sane = "self.subGroupPolicy.subGroupSize < 1 || "
    rest = "(self.size - 1) % self.subGroupPolicy.subGroupSize == 0"
    excluded = "!has(self.subGroupPolicy.subGroupPolicyType) || "
    excluded += "self.subGroupPolicy.subGroupPolicyType != 'LeaderExcluded' || "
    return (
        rule(
            f"{without}{sane}self.size % self.subGroupPolicy.subGroupSize == 0 || {rest}",
            subgroups.NOT_DIVISIBLE,
            fieldPath=_WIDTH,
        ),
        rule(
            f"{without}{sane}self.size >= self.subGroupPolicy.subGroupSize",
            subgroups.SIZE_TOO_LARGE,
            fieldPath=_WIDTH,
        ),
        rule(
            f"{without}{sane}{excluded}{rest}",
            subgroups.WORKERS_NOT_DIVISIBLE,
            fieldPath=_WIDTH,
        ),
    )


def _same(field: str) -> JsonObject:
    """A field that keeps its value once it has one."""
    unchanged = f"!has(oldSelf.{field}) || has(self.{field}) && self.{field} == oldSelf.{field}"
    return rule(unchanged, "field is immutable", fieldPath=f".{field}")


def _resize_status() -> JsonObject:
    counters = ("wanted", "adopted", "resizing", "deferred", "reverted", "recreated")
    return shape(
        {
            "revision": {"type": "string"},
            "state": enum("Preflight", "Resizing", "Adopting", "Reverting", "Stopped"),
            "groups": shape({name: int32() for name in counters}),
            "message": {"type": "string", "maxLength": 32768},
            "startedAt": {"type": "string", "format": "date-time"},
        }
    )


def _restarts_status() -> JsonObject:
    """By the index of a group."""
    time = {"type": "string", "format": "date-time"}
    failed = shape(
        {
            "pod": {"type": "string"},
            "container": {"type": "string"},
            "exitCode": int32(),
            "reason": {"type": "string"},
        }
    )
    exhausted = shape({"leader": {"type": "string"}, "at": time, "restarts": int32(), "failed": failed})
    due = shape({"leader": {"type": "string"}, "at": time, "inARow": int32(), "failed": failed})
    restarts = shape(
        {
            "revision": {"type": "string"},
            "leader": {"type": "string"},
            "inARow": int32(),
            "last": time,
            "times": {"type": "array", "items": time, "maxItems": LONGEST_HISTORY},
            "exhausted": exhausted,
            "due": due,
        }
    )
    return {"type": "object", "additionalProperties": restarts}


def _disrupted_groups_status() -> JsonObject:
    """By the index of a group."""
    time = {"type": "string", "format": "date-time"}
    group = shape({"leader": {"type": "string"}, "at": time, "by": enum(*(one.value for one in DisruptedBy))})
    return {"type": "object", "additionalProperties": group}


def _status() -> JsonObject:
    condition = shape(
        {
            "type": {"type": "string", "maxLength": 316, "pattern": _QUALIFIED},
            "status": enum("True", "False", "Unknown"),
            "reason": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "message": {"type": "string", "maxLength": 32768},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        },
        required=("lastTransitionTime", "message", "reason", "status", "type"),
    )
    counters = ("replicas", "readyReplicas", "updatedReplicas", "updatedReadyReplicas")
    return shape(
        {
            **{name: int32() for name in counters},
            "stableRevision": {"type": "string"},
            "updateRevision": {"type": "string"},
            "hpaPodSelector": {"type": "string"},
            "observedGeneration": {"type": "integer", "format": "int64"},
            "resize": _resize_status(),
            "restarts": _restarts_status(),
            "disruptionsAllowed": int32(),
            "disruptedGroups": _disrupted_groups_status(),
            "conditions": {
                "type": "array",
                "items": condition,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        }
    )
