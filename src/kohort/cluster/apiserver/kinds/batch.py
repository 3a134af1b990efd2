"""Jobs and CronJobs."""

import re
import zoneinfo
from typing import Final

from kohort.cluster.apiserver.kinds.cron_schedule import schedule_problem
from kohort.cluster.apiserver.kinds.job_rules import INDEXED, check_job_spec, check_no_selector
from kohort.cluster.apiserver.kinds.job_status import JobStatusFacts, check_job_status
from kohort.cluster.apiserver.kinds.model import WriteContext
from kohort.cluster.apiserver.kinds.pod.warnings import spec_warnings
from kohort.cluster.apiserver.kinds.pod_templates import (
    WorkloadStrategy,
    check_template_labels,
    default_workload_template,
    name_warnings,
    spec_of,
)
from kohort.cluster.apiserver.schema.field_checks import MAX_INT32, Errors, choice, immutable, nonnegative, same
from kohort.objects.field_errors import FieldError, invalid, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label
from kohort.objects.selectors import LabelSelector, selector_errors

NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")


class JobStrategy(WorkloadStrategy):
    default_propagation = "Orphan"
    rechecks_metadata = 1
    names_pods = True

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        return [*_index_warnings(obj["spec"], "spec"), *super().warnings(context, obj, old)]

    def default(self, obj: JsonObject) -> None:
        spec = spec_of(obj)
        default_workload_template(spec)
        if spec.get("parallelism") is None:
            if spec.get("completions") is None:
                spec["completions"] = 1
            spec["parallelism"] = 1
        if spec.get("backoffLimit") is None:
            spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else MAX_INT32
        _label_as_template(obj)
        if spec.get("completionMode") is None:
            spec["completionMode"] = "NonIndexed"
        if spec.get("suspend") is None:
            spec["suspend"] = False
        if spec.get("podReplacementPolicy") is None:
            has_policy = spec.get("podFailurePolicy") is not None
            spec["podReplacementPolicy"] = "Failed" if has_policy else "TerminatingOrFailed"
        if spec.get("manualSelector") is None:
            spec["manualSelector"] = False
        _default_failure_policy(spec)

    def settle(self, obj: JsonObject) -> None:
        _label_as_template(obj)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {}
        if not obj["spec"].get("manualSelector"):
            _generate_selector(obj)

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        return self._errors(context, obj, both_labels=True)

    def _errors(self, context: WriteContext, obj: JsonObject, *, both_labels: bool) -> list[FieldError]:
        errors: Errors = []
        spec, name = obj["spec"], obj["metadata"].get("name") or ""
        _check_generated(errors, obj, both_labels)
        self._check_spec(errors, context, spec)
        if spec.get("completionMode") == INDEXED and (spec.get("completions") or 0) > 0:
            host = f"{name}-{spec['completions'] - 1}"
            if dns1123_label(host):
                detail = f"will not able to create pod with invalid DNS label: {host}"
                errors.append(invalid("metadata.name", name, detail))
        return errors

    def _check_spec(self, errors: Errors, context: WriteContext, spec: JsonObject) -> None:
        check_job_spec(errors, "spec", spec, self.rules(context))
        if spec.get("selector") is None:
            errors.append(required("spec.selector"))
        else:
            errors += selector_errors(spec["selector"], "spec.selector")
        check_template_labels(errors, "spec", spec, empty_matches=False)

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        labels = (old["spec"]["template"].get("metadata") or {}).get("labels") or {}
        errors = self._errors(context, obj, both_labels=UID_LABELS[1] in labels and NAME_LABELS[1] in labels)
        spec, before = obj["spec"], old["spec"]
        self._check_spec(errors, context, spec)
        _check_completions(errors, spec, before)
        immutable(errors, "spec.selector", spec.get("selector"), before.get("selector"))
        _check_template_change(errors, spec["template"], old)
        for field in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
            immutable(errors, f"spec.{field}", spec.get(field), before.get(field))
        return errors

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_job_status(errors, obj, old)
        return errors


def _label_as_template(job: JsonObject) -> None:
    """A job without labels of its own shows those of its pods, also those that the server gives them."""
    labels = (job["spec"]["template"].get("metadata") or {}).get("labels")
    meta = job.setdefault("metadata", {})
    if labels and not meta.get("labels"):
        meta["labels"] = dict(labels)


def _default_failure_policy(spec: JsonObject) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            if not condition.get("status"):
                condition["status"] = "True"


def _generate_selector(job: JsonObject) -> None:
    """Labels that tie pods to this job and no other, and a selector for them."""
    meta, spec = job["metadata"], job["spec"]
    template = spec["template"].setdefault("metadata", {})
    before = template.get("labels") or {}
    labels = dict(before)
    for key in NAME_LABELS:
        labels.setdefault(key, meta.get("name") or "")
    for key in UID_LABELS:
        labels.setdefault(key, meta.get("uid") or "")
    template["labels"] = labels
    if before and meta.get("labels") == before:
        meta["labels"] = dict(labels)  # labels that were taken from the template follow it
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {})}
    selector["matchLabels"].setdefault(UID_LABELS[1], meta.get("uid") or "")


def _check_generated(errors: Errors, job: JsonObject, both_labels: bool) -> None:
    """Jobs from before the labels had a prefix need only those without."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    expected = dict.fromkeys(UID_LABELS, meta.get("uid") or "") | dict.fromkeys(NAME_LABELS, meta.get("name") or "")
    for key in (UID_LABELS[0], NAME_LABELS[0], UID_LABELS[1], NAME_LABELS[1])[: 4 if both_labels else 2]:
        path, value = f"spec.template.metadata.labels[{key}]", expected[key]
        if key not in labels:
            errors.append(required(path, f"must be '{value}'"))
        elif labels[key] != value:
            errors.append(invalid(path, labels, f"must be '{value}'"))
    try:
        matches = LabelSelector.from_object(spec["selector"]).matches(expected)
    except ValueError:
        return
    if not matches:
        errors.append(invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))


def _check_completions(errors: Errors, spec: JsonObject, before: JsonObject) -> None:
    new, old = spec.get("completions"), before.get("completions")
    if spec.get("completionMode") != INDEXED:
        immutable(errors, "spec.completions", new, old)
    elif new is not None and new != old and new != spec.get("parallelism"):
        errors.append(invalid("spec.completions", new, "can only be modified in tandem with spec.parallelism"))


def _check_template_change(errors: Errors, template: JsonObject, old: JsonObject) -> None:
    """The template of a job that waits may still say where its pods go, and how large they are."""
    before, facts = old["spec"], JobStatusFacts(old)
    was = before["template"]
    waiting = bool(before.get("suspend")) and (facts.start is None or facts.suspended) and facts.active == 0
    if not waiting:
        immutable(errors, "spec.template", template, was)
        return
    spec, allowed = template["spec"], dict(was["spec"])
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        allowed[field] = spec.get(field)
    others = {k: v for k, v in (was["spec"].get("affinity") or {}).items() if k != "nodeAffinity"}
    node = (spec.get("affinity") or {}).get("nodeAffinity")
    allowed["affinity"] = {**others, **({"nodeAffinity": node} if node is not None else {})} or None
    for field in ("containers", "initContainers"):
        pairs = zip(spec.get(field) or (), was["spec"].get(field) or (), strict=False)
        if len(spec.get(field) or ()) == len(was["spec"].get(field) or ()):
            allowed[field] = [
                {**b, "resources": c.get("resources")} if c.get("name") == b.get("name") else b for c, b in pairs
            ]
    if not same(spec, allowed):
        errors.append(invalid("spec.template.spec", spec, "field is immutable"))


_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch
_POLICIES: Final = ("Allow", "Forbid", "Replace")


class CronJobStrategy(WorkloadStrategy):
    checks_status_metadata = False

    def default(self, obj: JsonObject) -> None:
        spec = spec_of(obj)
        if not spec.get("concurrencyPolicy"):
            spec["concurrencyPolicy"] = "Allow"
        if spec.get("suspend") is None:
            spec["suspend"] = False
        if spec.get("successfulJobsHistoryLimit") is None:
            spec["successfulJobsHistoryLimit"] = 3
        if spec.get("failedJobsHistoryLimit") is None:
            spec["failedJobsHistoryLimit"] = 1
        job = spec.setdefault("jobTemplate", {})
        job.setdefault("metadata", {})
        default_workload_template(job.setdefault("spec", {}))
        _default_failure_policy(job["spec"])

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        self._check_spec(errors, context, obj["spec"], None)
        name = obj["metadata"].get("name") or ""
        if len(name) > 52:
            errors.append(invalid("metadata.name", name, "must be no more than 52 characters"))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        self._check_spec(errors, context, obj["spec"], old["spec"])
        return errors

    def _check_spec(self, errors: Errors, context: WriteContext, spec: JsonObject, old: JsonObject | None) -> None:
        if not spec.get("schedule"):
            errors.append(required("spec.schedule"))
        else:
            _check_schedule(errors, spec, old)
        nonnegative(errors, "spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
        if old is None or old.get("timeZone") != spec.get("timeZone"):
            _check_time_zone(errors, spec.get("timeZone"))
        choice(errors, "spec.concurrencyPolicy", spec.get("concurrencyPolicy"), _POLICIES)
        job = spec["jobTemplate"].get("spec") or {}
        check_job_spec(errors, "spec.jobTemplate.spec", job, self.rules(context))
        check_no_selector(errors, "spec.jobTemplate.spec", job)
        for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            nonnegative(errors, f"spec.{field}", spec.get(field))

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        template = ((obj["spec"].get("jobTemplate") or {}).get("spec") or {}).get("template") or {}
        path = "spec.jobTemplate.spec"
        found = name_warnings(obj, old) + _index_warnings(obj["spec"]["jobTemplate"].get("spec") or {}, path)
        return found + spec_warnings(template.get("metadata") or {}, template.get("spec") or {}, f"{path}.template")


def _index_warnings(spec: JsonObject, path: str) -> list[str]:
    """Of a job with more indexes than its status has room for, if many of them fail."""
    many = (spec.get("completions") or 0) > 10**5 and (spec.get("parallelism") or 0) > 10**4
    return [f"{path}: {_TOO_MANY_INDEXES}"] if many and spec.get("completionMode") == "Indexed" else []


_TOO_MANY_INDEXES: Final = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes "
    "might not be able to track completedIndexes when a big number of indexes fail"
)


def _check_schedule(errors: Errors, spec: JsonObject, old: JsonObject | None) -> None:
    schedule: str = spec["schedule"]
    problem = schedule_problem(schedule)
    if problem:
        errors.append(invalid("spec.schedule", schedule, problem))
    tolerated = old is not None and "TZ" in (old.get("schedule") or "")
    if "TZ" in schedule:
        if tolerated and spec.get("timeZone") is not None:
            detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            errors.append(invalid("spec.schedule", schedule, detail))
        elif not tolerated:
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid("spec.schedule", schedule, detail))


def _check_time_zone(errors: Errors, zone: str | None) -> None:
    path = "spec.timeZone"
    if zone is None:
        return
    if not zone:
        errors.append(invalid(path, zone, "timeZone must be nil or non-empty string"))
        return
    if any(p in (".", "..") or p.startswith("-") or not _ZONE_PART(p) for p in zone.split("/")):
        errors.append(invalid(path, zone, f"unknown time zone {zone}"))
        return
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid(path, zone, detail))
    if zone != "Local" and not _is_known_zone(zone) and _is_known_zone("Europe/London"):
        errors.append(invalid(path, zone, f"unknown time zone {zone}"))


def _is_known_zone(zone: str) -> bool:
    """On a machine without a time zone database no zone is known, and none can be called wrong."""
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
