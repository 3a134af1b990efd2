"""The definitions of ReleaseAnalysis and AnalysisRun."""

from enum import StrEnum
from typing import Final

from kohort.kube.resources import ANALYSIS_RUNS, RELEASE_ANALYSES, Resource
from kohort.objects.json_types import JsonObject
from kohort.objects.schema_keywords import INT_OR_STRING, described, enum, int32, int64, list_of, rule, shape
from kohort.rollouts.analysis.analysis_rules import MAX_METRICS, Mode, NotifyOn, Policy
from kohort.rollouts.analysis.run_types import RunPhase
from kohort.rollouts.analysis.series_selectors import PRESETS

_TEXT: Final[JsonObject] = {"type": "string"}
_NUMBER: Final[JsonObject] = {"type": "number"}
_FLAG: Final[JsonObject] = {"type": "boolean"}
_FREE: Final[JsonObject] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_DURATION: Final[JsonObject] = {"type": "string", "maxLength": 32}


def definitions() -> list[JsonObject]:
    return [release_analysis(), analysis_run()]


def release_analysis() -> JsonObject:
    columns = [
        _column("MODE", "string", ".spec.mode"),
        _column("READY", "string", '.status.conditions[?(@.type=="Ready")].status'),
        _column("MESSAGE", "string", '.status.conditions[?(@.type=="Ready")].message'),
        _AGE,
    ]
    status = shape({"observedGeneration": int64(), "conditions": list_of(_condition())})
    return _definition(RELEASE_ANALYSES, columns, _analysis_spec(), status)


def analysis_run() -> JsonObject:
    columns = [
        _column("ROLLOUT", "string", ".spec.rollout"),
        _column("STEP", "integer", ".spec.step"),
        _column("PHASE", "string", ".status.phase"),
        _column("MESSAGE", "string", ".status.message"),
        _AGE,
    ]
    name = {"type": "string", "minLength": 1}
    spec = shape(
        {
            "rollout": name,
            "release": _TEXT,
            "step": int32(minimum=1),
            "attempt": int32(minimum=0),
            "analysis": name,
        },
        required=("rollout", "step", "analysis"),
    )
    status = shape(
        {
            "phase": enum(*_values(RunPhase)),
            "reason": _TEXT,
            "message": _TEXT,
            "elapsedSeconds": _NUMBER,
            "readings": int64(),
            "consecutiveErrors": int64(),
            "lastError": _TEXT,
            "observedGeneration": int64(),
            "mode": _TEXT,
            "overriddenBy": _TEXT,
            "finishedAt": _TEXT,
            "metrics": list_of(_FREE),
        }
    )
    return _definition(ANALYSIS_RUNS, columns, spec, status)


def _analysis_spec() -> JsonObject:
    samples = int32(minimum=1, default=200)
    return shape(
        {
            "mode": enum(*_values(Mode), default=Mode.DRY_RUN.value),
            "steps": shape({"from": int32(minimum=1, default=1)}),
            "warmup": {**_DURATION, "default": "60s"},
            "interval": {**_DURATION, "default": "10s"},
            "deadline": {**_DURATION, "default": "20m"},
            "source": _source(),
            "minSamples": shape({"canary": samples, "stable": samples}),
            "confidence": {"type": "number", "default": 0.99},
            "metrics": {"type": "array", "minItems": 1, "maxItems": MAX_METRICS, "items": _metric()},
            "onNoData": enum(*_values(Policy), default=Policy.HOLD.value),
            "onInconclusive": enum(*_values(Policy), default=Policy.HOLD.value),
            "onError": shape(
                {
                    "after": int32(minimum=1, default=6),
                    "then": enum(Policy.HOLD.value, Policy.PASS.value, default=Policy.HOLD.value),
                }
            ),
            "notify": {"type": "array", "maxItems": 10, "items": _notification()},
        },
        required=("source", "metrics"),
    )


def _source() -> JsonObject:
    one = "[has(self.scrape), has(self.prometheus), has(self.gateway)].filter(set, set).size() == 1"
    return shape(
        {"scrape": _scrape(), "prometheus": _prometheus(), "gateway": {"type": "object"}},
        rules=(rule(one, "exactly one of scrape, prometheus and gateway is needed"),),
    )


def _scrape() -> JsonObject:
    return shape(
        {
            "port": int32(minimum=1, maximum=65535),
            "path": {"type": "string", "default": "/metrics", "pattern": "^/", "maxLength": 1024},
            "preset": _preset(),
            "scheme": enum("http", "https", default="http"),
            "tls": _tls(),
            "tokenSecretRef": _secret_key(),
        },
        required=("port",),
    )


def _prometheus() -> JsonObject:
    return shape(
        {
            "address": {"type": "string", "maxLength": 2048},
            "preset": _preset(),
            "step": {**_DURATION, "default": "15s"},
            "tls": _tls(),
            "tokenSecretRef": _secret_key(),
            "podLabel": {"type": "string", "default": "pod"},
            "namespaceLabel": {"type": "string", "default": "namespace"},
        },
        required=("address",),
    )


def _preset() -> JsonObject:
    return enum(*(name for name in PRESETS if name != "gateway"), default="none")


def _tls() -> JsonObject:
    return shape({"caSecretRef": _secret_key(), "serverName": _TEXT, "insecureSkipVerify": _FLAG})


def _secret_key() -> JsonObject:
    return shape({"name": _TEXT, "key": _TEXT}, required=("name", "key"))


def _metric() -> JsonObject:
    return shape(
        {
            "name": {"type": "string", "minLength": 1, "maxLength": 63},
            "quantile": _NUMBER,
            "max": INT_OR_STRING,
            "min": INT_OR_STRING,
            "maxRatio": _NUMBER,
            "maxDelta": INT_OR_STRING,
            "critical": _FLAG,
            "advisory": _FLAG,
            "histogram": _TEXT,
            "counters": shape({"total": _TEXT, "good": _TEXT, "bad": _TEXT}, required=("total",)),
            "gauge": _TEXT,
            "query": _TEXT,
        },
        required=("name",),
    )


def _notification() -> JsonObject:
    return shape(
        {
            "url": {"type": "string", "maxLength": 2048},
            "secretRef": _secret_key(),
            "on": {"type": "array", "minItems": 1, "items": enum(*_values(NotifyOn))},
        },
        required=("url", "on"),
    )


def _values(choices: type[StrEnum]) -> list[str]:
    return [one.value for one in choices]


def _condition() -> JsonObject:
    fields = ("type", "status", "reason", "message", "lastTransitionTime", "lastUpdateTime")
    return shape(dict.fromkeys(fields, _TEXT), required=("type", "status"))


def _definition(resource: Resource, columns: list[JsonObject], spec: JsonObject, status: JsonObject) -> JsonObject:
    root = shape(
        {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object"}, "spec": spec, "status": status},
        required=("spec",),
    )
    kind = resource.kind
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": resource.plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": described(root, MEANINGS)},
                }
            ],
        },
    }


def _column(name: str, type: str, path: str) -> JsonObject:
    return {"name": name, "type": type, "jsonPath": path}


_AGE: Final = _column("AGE", "date", ".metadata.creationTimestamp")
MEANINGS: Final = {
    "spec.mode": "DryRun only reports. Gate holds a step that fails. Enforce rolls it back: requests go to stable.",
    "spec.steps": "Which steps are judged.",
    "steps.from": "The first step that is judged, counted from 1.",
    "spec.warmup": "Time after a step has its traffic in which requests of the new version do not count.",
    "spec.interval": "How often the source is read.",
    "spec.deadline": "Time after which a step without result is treated as onNoData and onInconclusive say.",
    "spec.source": "Where the metrics come from: exactly one of scrape, prometheus and gateway.",
    "source.scrape": "The leaders of both sets, by the address of the pod.",
    "scrape.port": "Port of the metrics endpoint.",
    "scrape.path": "Path of the metrics endpoint.",
    "preset": "Names of the metrics of a model server.",
    "scrape.scheme": "http, or https.",
    "tls": "How a server is trusted that speaks TLS.",
    "tls.caSecretRef": "Where the certificate authority is, as PEM.",
    "tls.serverName": "Name that its certificate must have.",
    "tls.insecureSkipVerify": "Do not check its certificate.",
    "tokenSecretRef": "Where the bearer token is that is sent.",
    "source.prometheus": "A Prometheus that scrapes both sets.",
    "prometheus.address": "Its address, http://host:port/prefix.",
    "prometheus.step": "How often it scrapes; it is not read more often.",
    "prometheus.podLabel": "The label that has the name of the pod.",
    "prometheus.namespaceLabel": "The label that has the namespace of the pod.",
    "source.gateway": "The embedded gateway, which measures requests itself.",
    "minSamples": "How many requests are needed before a metric can pass.",
    "minSamples.canary": "Of the new version.",
    "minSamples.stable": "Of the stable version.",
    "spec.confidence": "Of releases without a difference, at most 1 - confidence fail, however long they are watched.",
    "spec.metrics": "What is judged.",
    "metrics.name": "A metric of the preset, or a name of your own.",
    "metrics.quantile": "Which quantile of a histogram is judged.",
    "metrics.max": "The largest allowed value: a time (2s), a share (2%) or a number.",
    "metrics.min": "The smallest allowed value.",
    "metrics.maxRatio": "How much larger than that of the stable version a quantile may be.",
    "metrics.maxDelta": "How much larger than that of the stable version a share may be.",
    "metrics.critical": "Fails the step also while it pauses or waits for approval.",
    "metrics.advisory": "Is only reported.",
    "metrics.histogram": "Name of a histogram.",
    "metrics.counters": "Two counters, as series: total, and good or bad.",
    "counters.total": "All requests.",
    "counters.good": "Those that are good.",
    "counters.bad": "Those that are bad.",
    "metrics.gauge": "Name of a gauge.",
    "metrics.query": "PromQL that returns one value; {{pods}} and {{namespace}} are replaced.",
    "onNoData": "What happens at the deadline if there were too few samples.",
    "onInconclusive": "What happens at the deadline if the samples prove neither.",
    "onError": "What happens if the source cannot be read.",
    "onError.after": "So many times in a row.",
    "onError.then": "Hold, or Pass. A source that cannot be read never fails a step.",
    "spec.notify": "Where occasions are posted to.",
    "notify.url": "Where a CloudEvent is posted.",
    "notify.secretRef": "A token, sent as bearer token.",
    "notify.on": "On which occasions.",
    "secretRef.name": "Name of the Secret; a user who writes it must be allowed to get that Secret.",
    "secretRef.key": "Key in it.",
    "tokenSecretRef.name": "Name of the Secret; a user who writes it must be allowed to get that Secret.",
    "tokenSecretRef.key": "Key in it.",
    "caSecretRef.name": "Name of the Secret; a user who writes it must be allowed to get that Secret.",
    "caSecretRef.key": "Key in it.",
    "status.conditions": "Ready: every metric exists on at least one pod of the stable version.",
    "spec.rollout": "The Rollout whose step is judged.",
    "spec.release": "The id of the release.",
    "spec.step": "The step, counted from 1.",
    "spec.attempt": "Counts the releases of the Rollout, and steps that were begun again: each has runs of its own.",
    "spec.analysis": "The ReleaseAnalysis that judges it.",
    "status.phase": "WarmingUp, Running, Passed, Failed, Held, or Ended without a verdict.",
    "status.reason": "Why.",
    "status.message": "What is known.",
    "status.metrics": "Counts, limits, estimates, bounds and verdict of each metric, and its windows.",
    "status.elapsedSeconds": "Time that the step has been watched.",
    "status.readings": "How often the source was read.",
    "status.consecutiveErrors": "How often in a row it could not be read.",
    "status.lastError": "Why not.",
    "status.mode": "Mode of the ReleaseAnalysis.",
    "status.overriddenBy": "Who let the step go on in spite of it.",
    "status.finishedAt": "When a verdict was reached, or the run ended without one.",
    "status.observedGeneration": "Generation of the ReleaseAnalysis.",
}
