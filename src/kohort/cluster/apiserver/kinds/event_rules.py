"""Events: what each of the two groups asks of them."""

from typing import Final

from kohort.cluster.apiserver.kinds.events import to_core
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors, immutable, named
from kohort.objects.field_errors import FieldError, invalid, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_subdomain, path_segment, qualified_name

_MISMATCH: Final = "does not match event.namespace"
_KEPT: Final = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingController",
    "reportingInstance",
)


class CoreEventStrategy(Strategy):
    names_finalizers_freely = True
    checks_metadata_change = False
    create_on_update = True
    has_status = False
    has_generation = False
    collectable = False

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        return path_segment(name, prefix=prefix)

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_event(errors, obj, "reportingComponent")
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self.validate(context, obj)


class EventStrategy(Strategy):
    """events.k8s.io: complete when created, and then only its series grows."""

    create_on_update = True
    has_status = False
    has_generation = False
    collectable = False

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        event = to_core(obj)
        _check_event(errors, event, "reportingController")
        _check_series(errors, event.get("series"))
        if not event.get("eventTime"):
            errors.append(required("eventTime"))
        if event.get("type") not in ("Normal", "Warning"):
            errors.append(invalid("type", "", f"has invalid value: {event.get('type') or ''}"))
        for field in ("firstTimestamp", "lastTimestamp", "count"):
            if event.get(field):
                errors.append(invalid(field, "", "needs to be unset"))
        source = event.get("source") or {}
        if source.get("component") or source.get("host"):
            errors.append(invalid("source", "", "needs to be unset"))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        event, before = to_core(obj), to_core(old)
        _check_event(errors, event, "reportingController")
        if event.get("series") != before.get("series"):
            _check_series(errors, event.get("series"))
        for field in _KEPT:
            name = "reportingComponent" if field == "reportingController" else field
            immutable(errors, field, event.get(name), before.get(name))
        return errors


def _check_series(errors: Errors, series: JsonObject | None) -> None:
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))


def _check_event(errors: Errors, event: JsonObject, reporter: str) -> None:
    namespace = event["metadata"].get("namespace") or ""
    about = (event.get("involvedObject") or {}).get("namespace") or ""
    path = "involvedObject.namespace"
    if not event.get("eventTime"):
        wrong = namespace not in ("", "default") if not about else namespace != about
        if wrong:
            errors.append(invalid(path, about, _MISMATCH))
    else:
        if not about and namespace not in ("default", "kube-system"):
            errors.append(invalid(path, about, _MISMATCH))
        _check_new_fields(errors, event, reporter)
    named(errors, "namespace", namespace, dns1123_subdomain)


def _check_new_fields(errors: Errors, event: JsonObject, reporter: str) -> None:
    controller = event.get("reportingComponent") or ""
    if not controller:
        errors.append(required(reporter))
    named(errors, reporter, controller, qualified_name)
    for field in ("reportingInstance", "action", "reason"):
        value = event.get(field) or ""
        if not value:
            errors.append(required(field))
        if len(value) > 128:
            errors.append(invalid(field, "", "can have at most 128 characters"))
    if len(event.get("message") or "") > 1024:
        errors.append(invalid("message", "", "can have at most 1024 characters"))
