"""DaemonSets: one pod on every node."""

from typing import Final

from kohort.cluster.apiserver.kinds.model import WriteContext
from kohort.cluster.apiserver.kinds.pod.spec import check_template
from kohort.cluster.apiserver.kinds.pod_templates import (
    HISTORY_LIMIT,
    WorkloadStrategy,
    check_at_most_all,
    check_collisions,
    check_count_or_percent,
    check_restart_always,
    check_status_counts,
    check_template_labels,
    default_workload_template,
    magnitude,
    spec_of,
)
from kohort.cluster.apiserver.schema.field_checks import Errors, immutable, nonnegative, same
from kohort.kube.errors import bad_request
from kohort.objects.field_errors import FieldError, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import selector_errors


class DaemonSetStrategy(WorkloadStrategy):
    def default(self, obj: JsonObject) -> None:
        _check_template_generation(obj)
        if obj.get("metadata"):  # the writer of the set owns the generation of its template as well
            _set_template_generation(obj, _template_generation(obj))
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

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        _set_template_generation(obj, _template_generation(old))

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


def _check_template_generation(daemon_set: JsonObject) -> None:
    """To older versions of the API the annotation is a field, and a field has a type."""
    text = ((daemon_set.get("metadata") or {}).get("annotations") or {}).get(_TEMPLATE_GENERATION)
    if text is not None and not text.removeprefix("-").isdecimal():
        problem = f'strconv.ParseInt: parsing "{text}": invalid syntax'
        raise bad_request(f'DaemonSet in version "v1" cannot be handled as a DaemonSet: {problem}')


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
    if magnitude(unavailable) and magnitude(surge):
        errors.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not magnitude(unavailable) and not magnitude(surge):
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
