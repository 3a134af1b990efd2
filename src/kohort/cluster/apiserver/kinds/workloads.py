"""StatefulSets, Deployments, ReplicaSets, DaemonSets, their revisions, and the older ReplicationController."""

import re
from collections.abc import Iterable
from typing import Final

from kohort.cluster.apiserver.kinds import gates
from kohort.cluster.apiserver.kinds.checks import NEGATIVE, Errors, dns_label, immutable, labels, nonnegative, same
from kohort.cluster.apiserver.kinds.claimspec import check_claim_spec
from kohort.cluster.apiserver.kinds.metadata import annotation_errors
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.defaults import default_claim_spec, default_template
from kohort.cluster.apiserver.kinds.pod.options import PodRules
from kohort.cluster.apiserver.kinds.pod.spec import check_annotations, check_template
from kohort.cluster.apiserver.kinds.pod.warnings import spec_warnings
from kohort.objects.fielderrors import FieldError, forbidden, invalid, not_supported, required
from kohort.objects.jsontypes import Json, JsonObject
from kohort.objects.names import dns1123_label
from kohort.objects.selectors import LabelSelector, selector_errors

HISTORY_LIMIT: Final = 10
_is_percent = re.compile(r"[0-9]+%").fullmatch
BAD_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


# --- parts that several kinds share


def spec_of(obj: JsonObject) -> JsonObject:
    spec: JsonObject | None = obj.get("spec")
    if spec is None:
        spec = obj["spec"] = {}
    return spec


def default_workload_template(spec: JsonObject) -> None:
    template = spec.get("template")
    if template is None:
        template = spec["template"] = {}
    default_template(template)


def check_count_or_percent(errors: Errors, path: str, value: Json) -> None:
    if isinstance(value, str):
        if not _is_percent(value):
            errors.append(invalid(path, value, BAD_PERCENT))
    elif (value or 0) < 0:
        errors.append(invalid(path, value, NEGATIVE))


def percent_of(value: Json) -> int | None:
    return int(value[:-1]) if isinstance(value, str) and _is_percent(value) else None


def _magnitude(value: Json) -> int:
    percent = percent_of(value)
    if percent is not None:
        return percent
    if isinstance(value, str):
        return int(value) if value.isdecimal() else 0
    return int(value or 0)


def check_at_most_all(errors: Errors, path: str, value: Json) -> None:
    if (percent_of(value) or 0) > 100:
        errors.append(invalid(path, value, "must not be greater than 100%"))


def check_selector(errors: Errors, path: str, spec: JsonObject, what: str) -> None:
    selector = spec.get("selector")
    if selector is None:
        errors.append(required(f"{path}.selector"))
        return
    errors += selector_errors(selector, f"{path}.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid(f"{path}.selector", selector, f"empty selector is invalid for {what}"))


def check_template_labels(errors: Errors, path: str, spec: JsonObject, *, empty_matches: bool) -> bool:
    """The selector must select the pods of the template. False when the selector cannot be understood."""
    selector = spec.get("selector")
    meta = (spec.get("template") or {}).get("metadata") or {}
    try:
        parsed = LabelSelector.from_object(selector)
    except ValueError:
        return False
    if selector is not None and parsed.everything and empty_matches:
        return True
    if not parsed.matches(meta.get("labels") or {}):
        detail = "`selector` does not match template `labels`"
        errors.append(invalid(f"{path}.template.metadata.labels", meta.get("labels"), detail))
    return True


def check_restart_always(errors: Errors, path: str, spec: JsonObject, what: str) -> None:
    pod = (spec.get("template") or {}).get("spec") or {}
    policy = pod.get("restartPolicy")
    if policy != "Always":
        errors.append(not_supported(f"{path}.template.spec.restartPolicy", policy or "", ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {what} is not Supported"
        errors.append(forbidden(f"{path}.template.spec.activeDeadlineSeconds", detail))


def check_status_counts(errors: Errors, status: JsonObject, names: Iterable[str]) -> None:
    for name in names:
        nonnegative(errors, f"status.{name}", status.get(name))


def check_within(errors: Errors, status: JsonObject, names: Iterable[str], ready_name: str) -> None:
    """No counter may exceed the number of replicas, nor the available ones the ready ones."""
    replicas = status.get("replicas") or 0
    for name in names:
        if (status.get(name) or 0) > replicas:
            errors.append(invalid(f"status.{name}", status[name], "cannot be greater than status.replicas"))
    if (status.get("availableReplicas") or 0) > (status.get("readyReplicas") or 0):
        detail = f"cannot be greater than {ready_name}"
        errors.append(invalid("status.availableReplicas", status["availableReplicas"], detail))


def check_collisions(errors: Errors, obj: JsonObject, old: JsonObject) -> None:
    new, before = (side.get("status", {}).get("collisionCount") for side in (obj, old))
    if before is not None and (new is None or new < before):
        errors.append(invalid("status.collisionCount", new or 0, "cannot be decremented"))


class Workload(Strategy):
    """What all kinds with a pod template have in common."""

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if old is not None and not self.generation_moves(obj, old):
            return []
        template = (obj.get("spec") or {}).get("template") or {}
        return spec_warnings(template.get("metadata") or {}, template.get("spec") or {}, "spec.template")

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("spec"), old.get("spec"))

    def rules(self, context: WriteContext) -> PodRules:
        return PodRules(
            pod_level=gates.enabled(context.gates, gates.POD_LEVEL_RESOURCES),
            toleration_comparison=gates.enabled(context.gates, gates.TOLERATION_COMPARISON),
        )


# --- StatefulSet


class StatefulSetStrategy(Workload):
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
            if _magnitude(unavailable) == 0:
                errors.append(invalid(path, unavailable, "cannot be 0"))
            check_at_most_all(errors, path, unavailable)


# --- Deployment and ReplicaSet


class DeploymentStrategy(Workload):
    def default(self, obj: JsonObject) -> None:
        spec = spec_of(obj)
        default_workload_template(spec)
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        strategy = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            for field in ("maxUnavailable", "maxSurge"):
                if rolling.get(field) is None:
                    rolling[field] = "25%"
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = HISTORY_LIMIT
        if spec.get("progressDeadlineSeconds") is None:
            spec["progressDeadlineSeconds"] = 600

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {}

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        """Annotations count too: they carry what a roll-back needs."""
        if super().generation_moves(obj, old):
            return True
        new, before = (side["metadata"].get("annotations") or {} for side in (obj, old))
        return new != before

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_deployment(errors, obj["spec"], self.rules(context))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        immutable(errors, "spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))
        return errors

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        status = obj.get("status") or {}
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        others = ("unavailableReplicas", "terminatingReplicas", "collisionCount")
        check_status_counts(errors, status, ("observedGeneration", "replicas", *counts, *others))
        check_within(errors, status, counts, "readyReplicas")
        check_collisions(errors, obj, old)
        return errors


def _check_deployment(errors: Errors, spec: JsonObject, rules: PodRules) -> None:
    nonnegative(errors, "spec.replicas", spec.get("replicas"))
    check_selector(errors, "spec", spec, "deployment")
    _check_replicated_template(errors, spec, rules)
    _check_deployment_strategy(errors, spec.get("strategy") or {})
    for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        nonnegative(errors, f"spec.{field}", spec.get(field))
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))


def _check_replicated_template(errors: Errors, spec: JsonObject, rules: PodRules) -> None:
    if check_template_labels(errors, "spec", spec, empty_matches=True):
        check_template(errors, "spec.template", spec["template"], rules)
        check_restart_always(errors, "spec", spec, "ReplicaSet")
    else:
        errors.append(invalid("spec.selector", spec.get("selector"), "invalid label selector"))


def _check_deployment_strategy(errors: Errors, strategy: JsonObject) -> None:
    kind, rolling, path = strategy.get("type"), strategy.get("rollingUpdate"), "spec.strategy.rollingUpdate"
    if kind == "Recreate":
        if rolling is not None:
            errors.append(forbidden(path, "may not be specified when strategy `type` is 'Recreate'"))
    elif kind != "RollingUpdate":
        errors.append(not_supported("spec.strategy", strategy, ("Recreate", "RollingUpdate")))
    elif rolling is None:
        errors.append(required(path, "this should be defaulted and never be nil"))
    else:
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        check_count_or_percent(errors, f"{path}.maxUnavailable", unavailable)
        check_count_or_percent(errors, f"{path}.maxSurge", surge)
        if _magnitude(unavailable) == 0 and _magnitude(surge) == 0:
            detail = "may not be 0 when `maxSurge` is 0"
            errors.append(invalid(f"{path}.maxUnavailable", unavailable, detail))
        check_at_most_all(errors, f"{path}.maxUnavailable", unavailable)


class ReplicaSetStrategy(Workload):
    def default(self, obj: JsonObject) -> None:
        spec = spec_of(obj)
        default_workload_template(spec)
        if spec.get("replicas") is None:
            spec["replicas"] = 1

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj["spec"]
        nonnegative(errors, "spec.replicas", spec.get("replicas"))
        nonnegative(errors, "spec.minReadySeconds", spec.get("minReadySeconds"))
        check_selector(errors, "spec", spec, "deployment")
        _check_replicated_template(errors, spec, self.rules(context))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self.validate(context, obj)
        immutable(errors, "spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))
        return errors

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_replica_status(errors, obj.get("status") or {})
        return errors


def check_replica_status(errors: Errors, status: JsonObject) -> None:
    counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    check_status_counts(errors, status, ("replicas", *counts, "observedGeneration", "terminatingReplicas"))
    check_within(errors, status, counts, "readyReplicas")


# --- DaemonSet


class DaemonSetStrategy(Workload):
    def default(self, obj: JsonObject) -> None:
        spec = spec_of(obj)
        default_workload_template(spec)
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            if rolling.get("maxUnavailable") is None:
                rolling["maxUnavailable"] = 1
            if rolling.get("maxSurge") is None:
                rolling["maxSurge"] = 0
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = HISTORY_LIMIT

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        obj["status"] = dict.fromkeys(counts, 0)
        _set_template_generation(obj, 1)

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        generation = _template_generation(old)
        if not same(obj["spec"].get("template"), old["spec"].get("template")):
            generation += 1
        _set_template_generation(obj, generation)

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj["spec"]
        errors += selector_errors(spec.get("selector"), "spec.selector")
        check_template_labels(errors, "spec", spec, empty_matches=False)
        selector = spec.get("selector")
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
        check_template(errors, "spec.template", spec["template"], self.rules(context))
        check_restart_always(errors, "spec", spec, "DaemonSet")
        nonnegative(errors, "spec.minReadySeconds", spec.get("minReadySeconds"))
        _check_daemon_strategy(errors, spec.get("updateStrategy") or {})
        nonnegative(errors, "spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        immutable(errors, "spec.selector", obj["spec"].get("selector"), old["spec"].get("selector"))
        return errors + self.validate(context, obj)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_status_counts(errors, obj.get("status") or {}, _DAEMON_COUNTS)
        check_collisions(errors, obj, old)
        return errors


_DAEMON_COUNTS: Final = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def _template_generation(daemon_set: JsonObject) -> int:
    """The number of the template, which the current API shows as an annotation only."""
    text = (daemon_set["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or "0"
    return int(text) if text.isdecimal() else 0


def _set_template_generation(daemon_set: JsonObject, generation: int) -> None:
    meta = daemon_set["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), _TEMPLATE_GENERATION: str(generation)}


def _check_daemon_strategy(errors: Errors, strategy: JsonObject) -> None:
    kind, rolling, path = strategy.get("type"), strategy.get("rollingUpdate"), "spec.updateStrategy.rollingUpdate"
    if kind == "OnDelete":
        return
    if kind != "RollingUpdate":
        errors.append(not_supported("spec.updateStrategy", strategy, ("RollingUpdate", "OnDelete")))
        return
    if rolling is None:
        errors.append(required(path))
        return
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    for field, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        check_count_or_percent(errors, f"{path}.{field}", value)
    for field, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        check_at_most_all(errors, f"{path}.{field}", value)
    if _magnitude(unavailable) and _magnitude(surge):
        errors.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not _magnitude(unavailable) and not _magnitude(surge):
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


# --- the rest


class ControllerRevisionStrategy(Strategy):
    has_status = False
    has_generation = False
    rechecks_metadata = True

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        nonnegative(errors, "revision", obj.get("revision"))
        if obj.get("data") is None:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(obj["data"], dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        nonnegative(errors, "revision", obj.get("revision"))
        immutable(errors, "data", obj.get("data"), old.get("data"))
        return errors


class ReplicationControllerStrategy(Workload):
    default_propagation = "Orphan"

    def default(self, obj: JsonObject) -> None:
        spec = spec_of(obj)
        template = spec.get("template")
        if template is not None:
            default_template(template)
            of_template = (template.get("metadata") or {}).get("labels")
            if of_template:
                if not spec.get("selector"):
                    spec["selector"] = dict(of_template)
                if not obj.setdefault("metadata", {}).get("labels"):
                    obj["metadata"]["labels"] = dict(of_template)
        if spec.get("replicas") is None:
            spec["replicas"] = 1

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec = obj["spec"]
        nonnegative(errors, "spec.minReadySeconds", spec.get("minReadySeconds"))
        selector = spec.get("selector") or {}
        if not selector:
            errors.append(required("spec.selector"))
        nonnegative(errors, "spec.replicas", spec.get("replicas"))
        template = spec.get("template")
        if template is None:
            errors.append(required("spec.template"))
            return errors
        of_template = (template.get("metadata") or {}).get("labels") or {}
        if selector and any(of_template.get(key) != value for key, value in selector.items()):
            detail = "`selector` does not match template `labels`"
            errors.append(invalid("spec.template.metadata.labels", of_template, detail))
        check_template(errors, "spec.template", template, self.rules(context))
        check_restart_always(errors, "spec", spec, "ReplicationController")
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_replica_status(errors, obj.get("status") or {})
        return errors


class PodTemplateStrategy(Workload):
    has_status = False
    deletion_returns_object = True
    rechecks_metadata = True

    def default(self, obj: JsonObject) -> None:
        default_template(obj.setdefault("template", {}))

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("template"), old.get("template"))

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_template(errors, "template", obj["template"], self.rules(context))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        template = obj.get("template") or {}
        return spec_warnings(template.get("metadata") or {}, template.get("spec") or {}, "template")
