"""What the definitions say of each part: shapes, limits, defaults, and the rules that CEL can check.

What the webhook checks and CEL can say stands here too, so that the API is still checked while the webhook is down.
"""

from typing import Final

from kohort.objects.json_types import JsonObject
from kohort.objects.schema_keywords import INT_OR_STRING, enum, int32, int64, list_of, rule, shape
from kohort.rules.rollout_labels import RolloutPhase, StepState

TEXT: Final[JsonObject] = {"type": "string"}
TEXTS: Final[JsonObject] = {"type": "object", "additionalProperties": {"type": "string"}}
_TIME: Final[JsonObject] = {"type": "string", "format": "date-time"}
FREE: Final[JsonObject] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TOKEN: Final = r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$"


# Parts


def reference() -> JsonObject:
    names = ("apiVersion", "kind", "name")
    return shape(dict.fromkeys(names, TEXT), required=names)


def rollout_spec() -> JsonObject:
    canary = shape(
        {
            **_strategy(),
            "patchPodTemplateMetadata": shape({"labels": TEXTS, "annotations": TEXTS}),
            "enableExtraWorkloadForCanary": {"type": "boolean"},
        }
    )
    one = "[has(self.canary), has(self.blueGreen)].filter(set, set).size()"
    strategy = shape(
        {"paused": {"type": "boolean"}, "canary": canary, "blueGreen": shape(_strategy())},
        rules=(
            rule(f"{one} > 0", "Canary and BlueGreen cannot both be empty"),
            rule(f"{one} < 2", "Canary and BlueGreen cannot both be set"),
        ),
    )
    return shape(
        {
            "workloadRef": reference(),
            "disabled": {"type": "boolean", "default": False},
            "strategy": strategy,
        },
        required=("strategy", "workloadRef"),
    )


def _strategy() -> JsonObject:
    return {
        "steps": {"type": "array", "maxItems": 50, "items": _step()},
        "trafficRoutings": list_of(route_ref()),
        "failureThreshold": INT_OR_STRING,
        "trafficRoutingRef": TEXT,
        "disableGenerateCanaryService": {"type": "boolean"},
    }


def _step() -> JsonObject:
    return shape(
        {
            "replicas": INT_OR_STRING,
            "traffic": TEXT,
            "matches": matches(),
            "requestHeaderModifier": modifier(),
            "pause": shape({"duration": int32()}),
        }
    )


def older_rollout_spec() -> JsonObject:
    """v1alpha1: the style is an annotation, a step has a weight instead of a share, and there is no blue-green."""
    step = shape(
        {
            "replicas": INT_OR_STRING,
            "weight": int32(),
            "matches": matches(paths=False),
            "requestHeaderModifier": modifier(),
            "pause": shape({"duration": int32()}),
        }
    )
    canary = shape(
        {
            "steps": list_of(step),
            "trafficRoutings": list_of(route_ref()),
            "failureThreshold": INT_OR_STRING,
            "patchPodTemplateMetadata": shape({"labels": TEXTS, "annotations": TEXTS}),
            "disableGenerateCanaryService": {"type": "boolean"},
        }
    )
    return shape(
        {
            "objectRef": shape({"workloadRef": reference()}),
            "rolloutID": TEXT,
            "disabled": {"type": "boolean", "default": False},
            "strategy": shape({"paused": {"type": "boolean"}, "canary": canary}),
        },
        required=("objectRef", "strategy"),
    )


def matches(*, paths: bool = True) -> JsonObject:
    kinds = enum("Exact", "RegularExpression", default="Exact")
    name = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": _TOKEN}

    def pairs(longest: int) -> JsonObject:
        value = {"type": "string", "minLength": 1, "maxLength": longest}
        item = shape({"type": kinds, "name": name, "value": value}, required=("name", "value"))
        return {
            "type": "array",
            "maxItems": 16,
            "items": item,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        }

    parts: JsonObject = {"headers": pairs(4096)}
    if paths:
        parts["queryParams"] = pairs(1024)
        parts["path"] = shape(
            {
                "type": enum("Exact", "PathPrefix", "RegularExpression", default="PathPrefix"),
                "value": {"type": "string", "maxLength": 1024, "default": "/"},
            }
        )
    return {"type": "array", "maxItems": 16, "items": shape(parts)}


def modifier() -> JsonObject:
    name = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": _TOKEN}
    value = {"type": "string", "minLength": 1, "maxLength": 4096}
    header = {
        "type": "array",
        "maxItems": 16,
        "items": shape({"name": name, "value": value}, required=("name", "value")),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    removed = {"type": "array", "maxItems": 16, "items": TEXT, "x-kubernetes-list-type": "set"}
    return shape({"set": header, "add": header, "remove": removed})


def route_ref() -> JsonObject:
    return shape(
        {
            "service": TEXT,
            "gracePeriodSeconds": int32(default=3),
            "drainTimeoutSeconds": int32(minimum=0, maximum=86400),
            "ingress": shape({"classType": {"type": "string", "default": "nginx"}, "name": TEXT}, required=("name",)),
            "gateway": shape({"httpRouteName": TEXT}),
            "customNetworkRefs": list_of(reference()),
        },
        required=("service",),
    )


_STEP_STATES: Final = ("", *(state.value for state in StepState))


def _progress(revision: str, replicas: str, ready: str) -> JsonObject:
    return shape(
        {
            "observedWorkloadGeneration": int64(),
            "observedRolloutID": TEXT,
            "rolloutHash": TEXT,
            "stableRevision": TEXT,
            "podTemplateHash": TEXT,
            revision: TEXT,
            replicas: int32(),
            ready: int32(),
            "currentStepIndex": int32(),
            "nextStepIndex": int32(),
            "currentStepState": enum(*_STEP_STATES),
            "finalisingStep": TEXT,
            "message": TEXT,
            "lastUpdateTime": _TIME,
            "revisionKey": TEXT,
            "canaryName": TEXT,
            "graceTimes": TEXTS,
            "timedOutStep": int32(),
            "judgedStep": int32(),
            "analysisResult": TEXT,
            "announcedWait": TEXT,
            "missingReplicas": int32(),
            "analysisAttempt": int32(),
            "workloadUID": TEXT,
        },
        required=("currentStepState", "finalisingStep", "nextStepIndex", "podTemplateHash", replicas, ready),
    )


def _conditions() -> JsonObject:
    texts = dict.fromkeys(("type", "status", "reason", "message"), TEXT)
    times = dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), _TIME)
    return list_of(shape({**texts, **times}, required=("message", "reason", "status", "type")))


def rollout_status() -> JsonObject:
    phases = ("", *(phase.value for phase in RolloutPhase))
    return shape(
        {
            "observedGeneration": int64(),
            "phase": enum(*phases),
            "message": TEXT,
            "currentStepIndex": int32(),
            "currentStepState": TEXT,
            "conditions": _conditions(),
            "canaryStatus": _progress("canaryRevision", "canaryReplicas", "canaryReadyReplicas"),
            "blueGreenStatus": _progress("updatedRevision", "updatedReplicas", "updatedReadyReplicas"),
        },
        required=("currentStepIndex", "currentStepState"),
    )


def older_rollout_status() -> JsonObject:
    return shape(
        {
            "observedGeneration": int64(),
            "phase": TEXT,
            "message": TEXT,
            "conditions": _conditions(),
            "canaryStatus": _progress("canaryRevision", "canaryReplicas", "canaryReadyReplicas"),
        }
    )


def release_spec() -> JsonObject:
    return shape({"workloadRef": reference(), "releasePlan": _plan()}, required=("releasePlan",))


def older_release_spec() -> JsonObject:
    target = shape({"workloadRef": reference()})
    return shape({"targetReference": target, "releasePlan": _plan()}, required=("releasePlan", "targetReference"))


def _plan() -> JsonObject:
    return shape(
        {
            "batches": list_of(shape({"canaryReplicas": INT_OR_STRING}, required=("canaryReplicas",))),
            "batchPartition": int32(),
            "rolloutID": TEXT,
            "failureThreshold": INT_OR_STRING,
            "finalizingPolicy": TEXT,
            "patchPodTemplateMetadata": shape({"labels": TEXTS, "annotations": TEXTS}),
            "rollingStyle": TEXT,
            "enableExtraWorkloadForCanary": {"type": "boolean"},
        }
    )


def release_status() -> JsonObject:
    canary = shape(
        {
            "batchState": TEXT,
            "currentBatch": int32(),
            "batchReadyTime": _TIME,
            "updatedReplicas": int32(),
            "updatedReadyReplicas": int32(),
            "noNeedUpdateReplicas": int32(),
        },
        required=("currentBatch",),
    )
    return shape(
        {
            "phase": TEXT,
            "message": TEXT,
            "conditions": _conditions(),
            "stableRevision": TEXT,
            "updateRevision": TEXT,
            "observedGeneration": int64(),
            "observedRolloutID": TEXT,
            "observedWorkloadReplicas": int32(),
            "observedReleasePlanHash": TEXT,
            "collisionCount": int32(),
            "canaryStatus": canary,
        }
    )
