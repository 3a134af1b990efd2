"""The definitions of Rollout, BatchRelease, TrafficRouting and RolloutHistory, and of what judges releases.

Rollouts and BatchReleases have two versions. The older one needs a conversion webhook: it is served where the address
of a conversion webhook is known, and left out otherwise.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from kohort.objects.json_types import JsonObject
from kohort.objects.schema_keywords import described, enum, int32, int64, list_of, shape
from kohort.rollouts import crd_schemas, field_descriptions
from kohort.rollouts.analysis.crd import definitions as analysis_definitions
from kohort.rollouts.crd_schemas import FREE, TEXT, TEXTS
from kohort.rules import rollout_labels


def definitions(converter: JsonObject | None = None) -> list[JsonObject]:
    """`converter` is the clientConfig of the conversion webhook."""
    kruise = [rollout(converter), batch_release(converter), traffic_routing(), rollout_history()]
    return [*kruise, *analysis_definitions()]


def rollout(converter: JsonObject | None = None) -> JsonObject:
    newer, older = _rollout_versions()
    return _definition("Rollout", "rollouts", newer, older, converter)


@cache
def _rollout_versions() -> tuple[JsonObject, JsonObject]:
    """Made once, since they are large: for reading only."""

    def columns(progress: str) -> list[JsonObject]:
        return [
            _column("STATUS", "string", ".status.phase", "The rollout status phase"),
            _column("CANARY_STEP", "integer", f"{progress}.currentStepIndex", "The rollout canary status step"),
            _column("CANARY_STATE", "string", f"{progress}.currentStepState", "The rollout canary status step state"),
            _column("MESSAGE", "string", ".status.message", "The rollout canary status message"),
            _AGE,
        ]

    spec, status = crd_schemas.rollout_spec(), crd_schemas.rollout_status()
    newer = _version("v1beta1", columns(".status"), spec, status, field_descriptions.ROLLOUT)
    spec, status = crd_schemas.older_rollout_spec(), crd_schemas.older_rollout_status()
    older = _version(
        "v1alpha1", columns(".status.canaryStatus"), spec, status, field_descriptions.ROLLOUT, stored=False
    )
    return newer, older


def batch_release(converter: JsonObject | None = None) -> JsonObject:
    def columns(workload: str) -> list[JsonObject]:
        return [
            _column("KIND", "string", f".spec.{workload}.kind"),
            _column("PHASE", "string", ".status.phase"),
            _column("BATCH", "integer", ".status.canaryStatus.currentBatch"),
            _column("BATCH-STATE", "string", ".status.canaryStatus.batchState"),
            _AGE,
        ]

    status = crd_schemas.release_status()
    newer = _version("v1beta1", columns("workloadRef"), crd_schemas.release_spec(), status, field_descriptions.RELEASE)
    spec = crd_schemas.older_release_spec()
    older = _version(
        "v1alpha1", columns("targetReference.workloadRef"), spec, status, field_descriptions.RELEASE, stored=False
    )
    return _definition("BatchRelease", "batchreleases", newer, older, converter)


def traffic_routing() -> JsonObject:
    columns = [
        _column("STATUS", "string", ".status.phase", "The TrafficRouting status phase"),
        _column("MESSAGE", "string", ".status.message", "The TrafficRouting canary status message"),
        _AGE,
    ]
    strategy = shape(
        {
            "weight": int32(minimum=0, maximum=100),
            "matches": crd_schemas.matches(paths=False),
            "requestHeaderModifier": crd_schemas.modifier(),
        }
    )
    spec = shape(
        {"objectRef": list_of(crd_schemas.route_ref()), "strategy": strategy}, required=("objectRef", "strategy")
    )
    phases = ("", "Initial", "Healthy", "Progressing", "Finalizing", "Terminating")
    grace_times = {"graceTimes": TEXTS}
    status = shape({"observedGeneration": int64(), "phase": enum(*phases), "message": TEXT, **grace_times})
    version = _version("v1alpha1", columns, spec, status, field_descriptions.ROUTING)
    return _definition("TrafficRouting", "trafficroutings", version)


def rollout_history() -> JsonObject:
    def record(*names: str) -> JsonObject:
        return shape({**dict.fromkeys(names, TEXT), "data": FREE})

    spec = shape(
        {
            "rollout": record("rolloutID", "name"),
            "workload": record("apiVersion", "kind", "name"),
            "service": record("name"),
            "trafficRouting": shape({"ingress": record("name"), "httpRoute": record("name")}),
        }
    )
    pod = shape({"name": TEXT, "ip": TEXT, "nodeName": TEXT, "workers": int32()})
    step = shape({"canaryStepIndex": int32(), "pods": list_of(pod)})
    status = shape({"phase": TEXT, "canarySteps": list_of(step)})
    version = _version("v1alpha1", [], spec, status, field_descriptions.HISTORY)
    return _definition("RolloutHistory", "rollouthistories", version)


def _version(
    name: str,
    columns: list[JsonObject],
    spec: JsonObject,
    status: JsonObject,
    descriptions: Mapping[str, str],
    *,
    stored: bool = True,
) -> JsonObject:
    """`descriptions` say what its fields mean."""
    root = {"apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"}, "spec": spec, "status": status}
    version: JsonObject = {
        "name": name,
        "served": True,
        "storage": stored,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": described(shape(root), descriptions)},
    }
    return version | ({"additionalPrinterColumns": columns} if columns else {})


def _definition(
    kind: str, plural: str, newer: JsonObject, older: JsonObject | None = None, converter: JsonObject | None = None
) -> JsonObject:
    spec: JsonObject = {
        "group": rollout_labels.GROUP,
        "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
        "scope": "Namespaced",
        "versions": [newer],
    }
    if older is not None and converter is not None:
        spec["versions"] = [older, newer]
        webhook = {"clientConfig": converter, "conversionReviewVersions": ["v1", "v1beta1"]}
        spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{rollout_labels.GROUP}"},
        "spec": spec,
    }


def _column(name: str, type: str, path: str, description: str = "") -> JsonObject:
    column: JsonObject = {"name": name, "type": type, "jsonPath": path}
    return column | ({"description": description} if description else {})


_AGE: Final = _column("AGE", "date", ".metadata.creationTimestamp")
