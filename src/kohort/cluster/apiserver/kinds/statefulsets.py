"""StatefulSets: pods with names and claims of their own."""

from typing import Final

from kohort.cluster.apiserver.kinds.claim_spec import check_claim_spec
from kohort.cluster.apiserver.kinds.model import WriteContext
from kohort.cluster.apiserver.kinds.pod.annotations import check_annotations
from kohort.cluster.apiserver.kinds.pod.defaults import default_claim_spec
from kohort.cluster.apiserver.kinds.pod.spec import check_template
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.kinds.pod.warnings import claim_spec_warnings
from kohort.cluster.apiserver.kinds.pod_templates import (
    HISTORY_LIMIT,
    WorkloadStrategy,
    check_at_most_all,
    check_collisions,
    check_count_or_percent,
    check_restart_always,
    check_selector,
    check_status_counts,
    check_template_labels,
    check_within,
    default_workload_template,
    magnitude,
    spec_of,
)
from kohort.cluster.apiserver.schema.field_checks import Errors, dns_label, labels, nonnegative, same
from kohort.cluster.apiserver.schema.metadata_rules import annotation_errors
from kohort.objects.field_errors import FieldError, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label


class StatefulSetStrategy(WorkloadStrategy):
    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        return dns1123_label(name, prefix=prefix)

    def default(self, obj: JsonObject) -> None:
        spec = spec_of(obj)
        default_workload_template(spec)
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        rolling = strategy.get("rollingUpdate")
        if strategy["type"] == "RollingUpdate" and rolling is not None and rolling.get("partition") is None:
            rolling["partition"] = 0
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for moment in ("whenDeleted", "whenScaled"):
            if not retention.get(moment):
                retention[moment] = "Retain"
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = HISTORY_LIMIT
        for claim in spec.get("volumeClaimTemplates") or ():
            _default_claim_template(claim)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"replicas": 0, "availableReplicas": 0}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_stateful_set(errors, obj["spec"], self.rules(context), stored=False)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_stateful_set(errors, obj["spec"], self.rules(context), stored=True)
        kept = {field: old["spec"].get(field) for field in _CHANGEABLE}
        if not same({**obj["spec"], **kept}, old["spec"]):
            errors.append(forbidden("spec", _FROZEN))
        return errors

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        found = super().warnings(context, obj, old)
        if (obj["spec"].get("revisionHistoryLimit") or 0) < 0:
            detail = "a negative value retains all historical revisions; a value >= 0 is recommended"
            found.append(f"spec.revisionHistoryLimit: {detail}")
        for index, claim in enumerate(obj["spec"].get("volumeClaimTemplates") or ()):
            here = f"spec.volumeClaimTemplates[{index}]{'' if old is None else '.Spec'}"
            found += claim_spec_warnings(claim.get("spec") or {}, here)
        return found

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        status = obj.get("status") or {}
        counts = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        check_status_counts(errors, status, (*counts, "observedGeneration", "collisionCount"))
        check_within(errors, status, counts[1:], "status.readyReplicas")
        check_collisions(errors, obj, old)
        return errors


_CHANGEABLE: Final = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)
_FROZEN: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _default_claim_template(claim: JsonObject) -> None:
    claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
    claim.setdefault("metadata", {})
    default_claim_spec(claim.setdefault("spec", {}))
    claim.setdefault("status", {}).setdefault("phase", "Pending")


def _check_stateful_set(errors: Errors, spec: JsonObject, rules: PodRules, *, stored: bool) -> None:
    """`stored`: what can no longer change was accepted once and is not judged again."""
    policy = spec.get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        path = "spec.podManagementPolicy"
        detail = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid(path, policy, detail) if policy else required(path))
    _check_update_strategy(errors, spec.get("updateStrategy") or {})
    retention: JsonObject = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for moment in ("whenDeleted", "whenScaled") if retention else ():
        if retention.get(moment) not in ("Retain", "Delete"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{moment}"
            errors.append(not_supported(path, retention.get(moment) or "", ("Retain", "Delete")))
    claims = spec.get("volumeClaimTemplates") or []
    if not stored:
        for index, claim in enumerate(claims):
            check_claim_spec(errors, f"spec.volumeClaimTemplates[{index}].spec", claim.get("spec") or {})
    nonnegative(errors, "spec.replicas", spec.get("replicas"))
    nonnegative(errors, "spec.minReadySeconds", spec.get("minReadySeconds"))
    nonnegative(errors, "spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
    if not stored and spec.get("serviceName"):
        dns_label(errors, "spec.serviceName", spec["serviceName"])
    check_selector(errors, "spec", spec, "statefulset")
    if check_template_labels(errors, "spec", spec, empty_matches=True):
        template = _with_claims(spec["template"], claims)
        check_template(errors, "spec.template", template, rules)
        meta = template.get("metadata") or {}
        labels(errors, "spec.template.labels", meta.get("labels"))
        errors += annotation_errors(meta.get("annotations"), "spec.template.annotations")
        check_annotations(errors, "spec.template.annotations", meta, template.get("spec") or {}, rules)
    else:
        errors.append(invalid("spec.selector", spec.get("selector"), ""))
    check_restart_always(errors, "spec", spec, "StatefulSet")


def _with_claims(template: JsonObject, claims: list[JsonObject]) -> JsonObject:
    """The template as its pods will be: claims are volumes, and the set names hosts itself."""
    spec = {key: value for key, value in template["spec"].items() if key not in ("subdomain", "hostname")}
    if claims:
        names = {(claim.get("metadata") or {}).get("name") or "": None for claim in claims}
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        spec["volumes"] = volumes + [v for v in spec.get("volumes") or () if v.get("name") not in names]
    return {**template, "spec": spec}


def _check_update_strategy(errors: Errors, strategy: JsonObject) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if not kind:
        errors.append(required("spec.updateStrategy"))
    elif kind == "OnDelete":
        if rolling is not None:
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            errors.append(invalid("spec.updateStrategy.rollingUpdate", rolling, detail))
    elif kind != "RollingUpdate":
        errors.append(invalid("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    elif rolling is not None:
        nonnegative(errors, "spec.updateStrategy.rollingUpdate.partition", rolling.get("partition"))
        unavailable, path = rolling.get("maxUnavailable"), "spec.updateStrategy.rollingUpdate.maxUnavailable"
        if unavailable is not None:
            check_count_or_percent(errors, path, unavailable)
            if magnitude(unavailable) == 0:
                errors.append(invalid(path, unavailable, "cannot be 0"))
            check_at_most_all(errors, path, unavailable)
