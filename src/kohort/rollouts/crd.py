"""The definitions of Rollout, BatchRelease, TrafficRouting and RolloutHistory.

What the webhook checks and CEL can say stands here too, so that the API stays guarded when the webhook is away.
"""

from typing import Final

from kohort.objects.jsontypes import Json, JsonObject
from kohort.rollouts import wire

_TEXT: Final[JsonObject] = {"type": "string"}
_TEXTS: Final[JsonObject] = {"type": "object", "additionalProperties": {"type": "string"}}
_TIME: Final[JsonObject] = {"type": "string", "format": "date-time"}
_FREE: Final[JsonObject] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_INT_OR_STRING: Final[JsonObject] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_TOKEN: Final = r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$"


def definitions() -> list[JsonObject]:
    return [rollout(), batch_release(), traffic_routing(), rollout_history()]


def rollout() -> JsonObject:
    columns = [
        _column("STATUS", "string", ".status.phase", "The rollout status phase"),
        _column("CANARY_STEP", "integer", ".status.currentStepIndex", "The rollout canary status step"),
        _column("CANARY_STATE", "string", ".status.currentStepState", "The rollout canary status step state"),
        _column("MESSAGE", "string", ".status.message", "The rollout canary status message"),
        _AGE,
    ]
    return _definition("Rollout", "rollouts", "v1beta1", columns, _rollout_spec(), _rollout_status())


def batch_release() -> JsonObject:
    columns = [
        _column("KIND", "string", ".spec.workloadRef.kind"),
        _column("PHASE", "string", ".status.phase"),
        _column("BATCH", "integer", ".status.canaryStatus.currentBatch"),
        _column("BATCH-STATE", "string", ".status.canaryStatus.batchState"),
        _AGE,
    ]
    return _definition("BatchRelease", "batchreleases", "v1beta1", columns, _release_spec(), _release_status())


def traffic_routing() -> JsonObject:
    columns = [
        _column("STATUS", "string", ".status.phase", "The TrafficRouting status phase"),
        _column("MESSAGE", "string", ".status.message", "The TrafficRouting canary status message"),
        _AGE,
    ]
    strategy = _object({"weight": _int32(), "matches": _matches(paths=False), "requestHeaderModifier": _modifier()})
    spec = _object({"objectRef": _list(_route_ref()), "strategy": strategy}, required=("objectRef", "strategy"))
    phases = ("", "Initial", "Healthy", "Progressing", "Finalizing", "Terminating")
    marks = {"graceTimes": _TEXTS}
    status = _object({"observedGeneration": _int64(), "phase": _enum(*phases), "message": _TEXT, **marks})
    return _definition("TrafficRouting", "trafficroutings", "v1alpha1", columns, spec, status)


def rollout_history() -> JsonObject:
    def record(*names: str) -> JsonObject:
        return _object({**dict.fromkeys(names, _TEXT), "data": _FREE})

    spec = _object(
        {
            "rollout": record("rolloutID", "name"),
            "workload": record("apiVersion", "kind", "name"),
            "service": record("name"),
            "trafficRouting": _object({"ingress": record("name"), "httpRoute": record("name")}),
        }
    )
    pod = _object({"name": _TEXT, "ip": _TEXT, "nodeName": _TEXT, "workers": _int32()})
    step = _object({"canaryStepIndex": _int32(), "pods": _list(pod)})
    status = _object({"phase": _TEXT, "canarySteps": _list(step)})
    return _definition("RolloutHistory", "rollouthistories", "v1alpha1", [], spec, status)


# Parts


def _reference() -> JsonObject:
    names = ("apiVersion", "kind", "name")
    return _object(dict.fromkeys(names, _TEXT), required=names)


def _rollout_spec() -> JsonObject:
    canary = _object(
        {
            **_strategy(),
            "patchPodTemplateMetadata": _object({"labels": _TEXTS, "annotations": _TEXTS}),
            "enableExtraWorkloadForCanary": {"type": "boolean"},
        }
    )
    one = "[has(self.canary), has(self.blueGreen)].filter(set, set).size()"
    strategy = _object(
        {"paused": {"type": "boolean"}, "canary": canary, "blueGreen": _object(_strategy())},
        rules=(
            _rule(f"{one} > 0", "Canary and BlueGreen cannot both be empty"),
            _rule(f"{one} < 2", "Canary and BlueGreen cannot both be set"),
        ),
    )
    return _object(
        {
            "workloadRef": _reference(),
            "disabled": {"type": "boolean", "default": False},
            "strategy": strategy,
        },
        required=("strategy", "workloadRef"),
    )


def _strategy() -> JsonObject:
    return {
        "steps": {"type": "array", "maxItems": 50, "items": _step()},
        "trafficRoutings": _list(_route_ref()),
        "failureThreshold": _INT_OR_STRING,
        "trafficRoutingRef": _TEXT,
        "disableGenerateCanaryService": {"type": "boolean"},
    }


def _step() -> JsonObject:
    return _object(
        {
            "replicas": _INT_OR_STRING,
            "traffic": _TEXT,
            "matches": _matches(),
            "requestHeaderModifier": _modifier(),
            "pause": _object({"duration": _int32()}),
        }
    )


def _matches(*, paths: bool = True) -> JsonObject:
    kinds = _enum("Exact", "RegularExpression", default="Exact")
    name = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": _TOKEN}

    def pairs(longest: int) -> JsonObject:
        value = {"type": "string", "minLength": 1, "maxLength": longest}
        item = _object({"type": kinds, "name": name, "value": value}, required=("name", "value"))
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
        parts["path"] = _object(
            {
                "type": _enum("Exact", "PathPrefix", "RegularExpression", default="PathPrefix"),
                "value": {"type": "string", "maxLength": 1024, "default": "/"},
            }
        )
    return {"type": "array", "maxItems": 16, "items": _object(parts)}


def _modifier() -> JsonObject:
    name = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": _TOKEN}
    value = {"type": "string", "minLength": 1, "maxLength": 4096}
    header = {
        "type": "array",
        "maxItems": 16,
        "items": _object({"name": name, "value": value}, required=("name", "value")),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    removed = {"type": "array", "maxItems": 16, "items": _TEXT, "x-kubernetes-list-type": "set"}
    return _object({"set": header, "add": header, "remove": removed})


def _route_ref() -> JsonObject:
    return _object(
        {
            "service": _TEXT,
            "gracePeriodSeconds": _int32(default=3),
            "ingress": _object(
                {"classType": {"type": "string", "default": "nginx"}, "name": _TEXT}, required=("name",)
            ),
            "gateway": _object({"httpRouteName": _TEXT}),
            "customNetworkRefs": _list(_reference()),
        },
        required=("service",),
    )


_STEP_STATES: Final = (
    "",
    wire.BEFORE_UPGRADE,
    wire.UPGRADE,
    wire.ROUTING,
    wire.ANALYSIS,
    wire.PAUSED,
    wire.READY,
    wire.COMPLETED,
)


def _progress(revision: str, replicas: str, ready: str) -> JsonObject:
    return _object(
        {
            "observedWorkloadGeneration": _int64(),
            "observedRolloutID": _TEXT,
            "rolloutHash": _TEXT,
            "stableRevision": _TEXT,
            "podTemplateHash": _TEXT,
            revision: _TEXT,
            replicas: _int32(),
            ready: _int32(),
            "currentStepIndex": _int32(),
            "nextStepIndex": _int32(),
            "currentStepState": _enum(*_STEP_STATES),
            "finalisingStep": _TEXT,
            "message": _TEXT,
            "lastUpdateTime": _TIME,
            "revisionKey": _TEXT,
            "canaryName": _TEXT,
            "graceTimes": _TEXTS,
        },
        required=("currentStepState", "finalisingStep", "nextStepIndex", "podTemplateHash", replicas, ready),
    )


def _conditions() -> JsonObject:
    texts = dict.fromkeys(("type", "status", "reason", "message"), _TEXT)
    times = dict.fromkeys(("lastUpdateTime", "lastTransitionTime"), _TIME)
    return _list(_object({**texts, **times}, required=("message", "reason", "status", "type")))


def _rollout_status() -> JsonObject:
    phases = ("", wire.INITIAL, wire.HEALTHY, wire.PROGRESSING, wire.TERMINATING, wire.DISABLED, wire.DISABLING)
    return _object(
        {
            "observedGeneration": _int64(),
            "phase": _enum(*phases),
            "message": _TEXT,
            "currentStepIndex": _int32(),
            "currentStepState": _TEXT,
            "conditions": _conditions(),
            "canaryStatus": _progress("canaryRevision", "canaryReplicas", "canaryReadyReplicas"),
            "blueGreenStatus": _progress("updatedRevision", "updatedReplicas", "updatedReadyReplicas"),
        },
        required=("currentStepIndex", "currentStepState"),
    )


def _release_spec() -> JsonObject:
    plan = _object(
        {
            "batches": _list(_object({"canaryReplicas": _INT_OR_STRING}, required=("canaryReplicas",))),
            "batchPartition": _int32(),
            "rolloutID": _TEXT,
            "failureThreshold": _INT_OR_STRING,
            "finalizingPolicy": _TEXT,
            "patchPodTemplateMetadata": _object({"labels": _TEXTS, "annotations": _TEXTS}),
            "rollingStyle": _TEXT,
            "enableExtraWorkloadForCanary": {"type": "boolean"},
        }
    )
    return _object({"workloadRef": _reference(), "releasePlan": plan}, required=("releasePlan",))


def _release_status() -> JsonObject:
    canary = _object(
        {
            "batchState": _TEXT,
            "currentBatch": _int32(),
            "batchReadyTime": _TIME,
            "updatedReplicas": _int32(),
            "updatedReadyReplicas": _int32(),
            "noNeedUpdateReplicas": _int32(),
        },
        required=("currentBatch",),
    )
    return _object(
        {
            "phase": _TEXT,
            "message": _TEXT,
            "conditions": _conditions(),
            "stableRevision": _TEXT,
            "updateRevision": _TEXT,
            "observedGeneration": _int64(),
            "observedRolloutID": _TEXT,
            "observedWorkloadReplicas": _int32(),
            "observedReleasePlanHash": _TEXT,
            "collisionCount": _int32(),
            "canaryStatus": canary,
        }
    )


# Vocabulary


def _definition(
    kind: str, plural: str, version: str, columns: list[JsonObject], spec: JsonObject, status: JsonObject
) -> JsonObject:
    root = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object"}, "spec": spec, "status": status}
    served: JsonObject = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _object(root)},
    }
    if columns:
        served["additionalPrinterColumns"] = columns
    singular = kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{wire.GROUP}"},
        "spec": {
            "group": wire.GROUP,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": singular},
            "scope": "Namespaced",
            "versions": [served],
        },
    }


def _column(name: str, type: str, path: str, description: str = "") -> JsonObject:
    column: JsonObject = {"name": name, "type": type, "jsonPath": path}
    return column | ({"description": description} if description else {})


_AGE: Final = _column("AGE", "date", ".metadata.creationTimestamp")


def _object(
    properties: JsonObject, *, required: tuple[str, ...] = (), rules: tuple[JsonObject, ...] = ()
) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties}
    if rules:
        schema["x-kubernetes-validations"] = list(rules)
    if required:
        schema["required"] = list(required)
    return schema


def _list(items: JsonObject) -> JsonObject:
    return {"type": "array", "items": items}


def _int32(**more: Json) -> JsonObject:
    return {"type": "integer", "format": "int32", **more}


def _int64() -> JsonObject:
    return {"type": "integer", "format": "int64"}


def _enum(*values: str, **more: Json) -> JsonObject:
    return {"type": "string", "enum": list(values), **more}


def _rule(rule: str, message: str) -> JsonObject:
    return {"rule": rule, "message": message}
