"""What all kinds with a pod template have in common."""

import re
from collections.abc import Iterable
from typing import Final

from kohort.cluster.apiserver.kinds import feature_gates
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.defaults import default_template
from kohort.cluster.apiserver.kinds.pod.spec import check_template
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.kinds.pod.warnings import spec_warnings
from kohort.cluster.apiserver.schema.field_checks import NEGATIVE, Errors, nonnegative, same
from kohort.objects.field_errors import forbidden, invalid, not_supported, required
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.names import dns1123_label
from kohort.objects.selectors import LabelSelector, selector_errors

HISTORY_LIMIT: Final = 10
_is_percent = re.compile(r"[0-9]+%").fullmatch
BAD_PERCENT: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


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


def magnitude(value: Json) -> int:
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
        shown = dict(sorted(meta["labels"].items())) if meta.get("labels") else None
        errors.append(invalid(f"{path}.template.metadata.labels", shown, detail))
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
            errors.append(invalid(f"status.{name}", status.get(name) or 0, "cannot be greater than status.replicas"))
    if (status.get("availableReplicas") or 0) > (status.get("readyReplicas") or 0):
        detail = f"cannot be greater than {ready_name}"
        errors.append(invalid("status.availableReplicas", status.get("availableReplicas") or 0, detail))


def check_collisions(errors: Errors, obj: JsonObject, old: JsonObject) -> None:
    new, before = (side.get("status", {}).get("collisionCount") for side in (obj, old))
    if before is not None and (new is None or new < before):
        errors.append(invalid("status.collisionCount", new or 0, "cannot be decremented"))


def check_replicated_template(errors: Errors, spec: JsonObject, rules: PodRules) -> None:
    if check_template_labels(errors, "spec", spec, empty_matches=True):
        check_template(errors, "spec.template", spec["template"], rules)
        check_restart_always(errors, "spec", spec, "ReplicaSet")
    else:
        errors.append(invalid("spec.selector", spec.get("selector"), "invalid label selector"))


def check_replica_status(errors: Errors, status: JsonObject) -> None:
    counts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    check_status_counts(errors, status, ("replicas", *counts, "observedGeneration", "terminatingReplicas"))
    check_within(errors, status, counts, "readyReplicas")


_POD_NAMES: Final = (
    "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
)


def name_warnings(obj: JsonObject, old: JsonObject | None) -> list[str]:
    """Of a new object whose name its pods will carry as well."""
    problems = dns1123_label(obj["metadata"].get("name") or "") if old is None else []
    return [f"metadata.name: {_POD_NAMES}: [{' '.join(problems)}]"] if problems else []


class WorkloadStrategy(Strategy):
    names_pods = False
    """Pods are called after it, so its name had better be a host name."""

    def default_status(self, obj: JsonObject) -> None:
        """All defaults of a workload are in its spec."""

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        named = name_warnings(obj, old) if self.names_pods else []
        return named + self._template_warnings(obj, old)

    def _template_warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if old is not None and not self.generation_moves(obj, old):
            return []
        template = (obj.get("spec") or {}).get("template") or {}
        return spec_warnings(template.get("metadata") or {}, template.get("spec") or {}, "spec.template")

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("spec"), old.get("spec"))

    def rules(self, context: WriteContext) -> PodRules:
        return PodRules(
            pod_level=feature_gates.enabled(context.gates, feature_gates.POD_LEVEL_RESOURCES),
            toleration_comparison=feature_gates.enabled(context.gates, feature_gates.TOLERATION_COMPARISON),
        )
