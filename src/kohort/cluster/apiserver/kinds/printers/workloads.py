"""How workloads, and what bounds and scales them, are shown in a table."""

from collections.abc import Callable
from datetime import datetime

from kohort.cluster.apiserver.kinds.autoscaling import to_v2
from kohort.cluster.apiserver.kinds.printers.cells import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    NONE,
    SELECTOR,
    UNKNOWN,
    UNSET,
    Printer,
    age,
    boolean,
    condition,
    human_duration,
    integer,
    labels_text,
    name_of,
    names_and_images,
    selector_text,
    since,
    text,
)
from kohort.kube.clock import parse_time
from kohort.kube.event_mapping import controller_of
from kohort.objects.json_types import Json, JsonObject


def _spec_and_status(obj: JsonObject) -> tuple[JsonObject, JsonObject]:
    return obj.get("spec") or {}, obj.get("status") or {}


def _deployment(obj: JsonObject, now: datetime) -> list[Json]:
    spec, status = _spec_and_status(obj)
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *names_and_images(spec.get("template")),
        selector_text(spec.get("selector"), empty="", invalid="<invalid>"),
    ]


def _stateful_set(obj: JsonObject, now: datetime) -> list[Json]:
    spec, status = _spec_and_status(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name_of(obj), ready, age(obj, now), *names_and_images(spec.get("template"))]


def _replicas_of(selector: Callable[[Json], str]) -> Callable[[JsonObject, datetime], list[Json]]:
    def cells(obj: JsonObject, now: datetime) -> list[Json]:
        spec, status = _spec_and_status(obj)
        return [
            name_of(obj),
            spec.get("replicas", 0),
            status.get("replicas", 0),
            status.get("readyReplicas", 0),
            age(obj, now),
            *names_and_images(spec.get("template")),
            selector(spec.get("selector")),
        ]

    return cells


def _daemon_set(obj: JsonObject, now: datetime) -> list[Json]:
    spec, status = _spec_and_status(obj)
    template = spec.get("template") or {}
    return [
        name_of(obj),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels_text((template.get("spec") or {}).get("nodeSelector")),
        age(obj, now),
        *names_and_images(template),
        selector_text(spec.get("selector")),
    ]


def _controller_revision(obj: JsonObject, now: datetime) -> list[Json]:
    owner = controller_of(obj)
    controller = NONE
    if owner is not None:
        group = owner.api_version.rpartition("/")[0]
        kind = f"{owner.kind}.{group}" if group else owner.kind
        controller = f"{kind.lower()}/{owner.name}"
    return [name_of(obj), controller, obj.get("revision", 0), age(obj, now)]


_JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""Conditions of a job in the order in which they count; a deletion comes after the two final ones."""


def _job_state(obj: JsonObject) -> str:
    for type_, shown in _JOB_STATES:
        if not type_:
            if obj["metadata"].get("deletionTimestamp"):
                return shown
        elif (condition(obj, type_) or {}).get("status") == "True":
            return shown
    return "Running"


def _job(obj: JsonObject, now: datetime) -> list[Json]:
    spec, status = _spec_and_status(obj)
    succeeded, parallelism = status.get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        completions = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    return [
        name_of(obj),
        _job_state(obj),
        completions,
        _job_duration(status, now),
        age(obj, now),
        *names_and_images(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _job_duration(status: JsonObject, now: datetime) -> str:
    if not status.get("startTime"):
        return ""
    end = parse_time(status["completionTime"]) if status.get("completionTime") else now
    return human_duration((end - parse_time(status["startTime"])).total_seconds())


def _cron_job(obj: JsonObject, now: datetime) -> list[Json]:
    spec, status = _spec_and_status(obj)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    last = status.get("lastScheduleTime")
    suspended = spec.get("suspend")
    return [
        name_of(obj),
        spec.get("schedule", ""),
        NONE if spec.get("timeZone") is None else spec["timeZone"],
        UNSET if suspended is None else str(suspended),
        len(status.get("active") or ()),
        since(last, now) if last else NONE,
        age(obj, now),
        *names_and_images(job.get("template")),
        selector_text(job.get("selector")),
    ]


def _disruption_budget(obj: JsonObject, now: datetime) -> list[Json]:
    spec, status = _spec_and_status(obj)
    limits = [str(spec.get(key)) if spec.get(key) is not None else "N/A" for key in ("minAvailable", "maxUnavailable")]
    return [name_of(obj), *limits, status.get("disruptionsAllowed", 0), age(obj, now)]


def _scale(obj: JsonObject, now: datetime) -> list[Json]:
    spec, status = _spec_and_status(obj)
    return [name_of(obj), spec.get("replicas", 0), status.get("replicas", 0), age(obj, now)]


# --- autoscalers ---


def _autoscaler(obj: JsonObject, now: datetime) -> list[Json]:
    if obj.get("apiVersion") == "autoscaling/v1":
        obj = to_v2(obj)
    spec, status = _spec_and_status(obj)
    target = spec.get("scaleTargetRef") or {}
    least = spec.get("minReplicas")
    return [
        name_of(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(spec.get("metrics") or [], status.get("currentMetrics") or []),
        UNSET if least is None else str(least),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas", 0),
        age(obj, now),
    ]


_SHOWN_TARGETS = 2


def _targets(metrics: list[JsonObject], current: list[JsonObject]) -> str:
    if not metrics:
        return NONE
    shown = [_target(metric, current[i] if i < len(current) else {}) for i, metric in enumerate(metrics)]
    more = len(shown) - _SHOWN_TARGETS
    head = ", ".join(shown[:_SHOWN_TARGETS])
    return f"{head} + {more} more..." if more > 0 else head


_METRIC_FIELDS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _target(metric: JsonObject, current: JsonObject) -> str:
    """`current/wanted`, with the name of a resource before it."""
    field = _METRIC_FIELDS.get(metric.get("type", ""))
    if field is None:
        return "<unknown type>"
    source = metric.get(field) or {}
    wanted, now = source.get("target") or {}, (current.get(field) or {}).get("current") or {}
    if field in ("resource", "containerResource"):
        return f"{source.get('name', '')}: {_utilization(wanted, now)}"
    if field == "pods":
        return f"{now.get('averageValue', UNKNOWN)}/{wanted.get('averageValue', '0')}"
    if wanted.get("averageValue") is not None:
        return f"{now.get('averageValue', UNKNOWN)}/{wanted['averageValue']} (avg)"
    return f"{now.get('value', UNKNOWN)}/{wanted.get('value', '0')}"


def _utilization(wanted: JsonObject, now: JsonObject) -> str:
    if wanted.get("averageValue") is not None:
        return f"{now.get('averageValue', UNKNOWN)}/{wanted['averageValue']}"
    used, limit = now.get("averageUtilization"), wanted.get("averageUtilization")
    return f"{UNKNOWN if used is None else f'{used}%'}/{'<auto>' if limit is None else f'{limit}%'}"


_TEMPLATE = (CONTAINERS, IMAGES, SELECTOR)
_REPLICA_COLUMNS = (
    NAME,
    integer("Desired", "How many pods there should be."),
    integer("Current", "How many pods there are."),
    integer("Ready", "How many pods are ready."),
    AGE,
    *_TEMPLATE,
)

WORKLOADS: dict[str, Printer] = {
    "Deployment": (
        (
            NAME,
            text("Ready", "How many of the wanted pods are ready."),
            text("Up-to-date", "How many pods have the newest template."),
            text("Available", "How many pods have been ready long enough."),
            AGE,
            *_TEMPLATE,
        ),
        _deployment,
    ),
    "StatefulSet": (
        (NAME, text("Ready", "How many of the wanted pods are ready."), AGE, CONTAINERS, IMAGES),
        _stateful_set,
    ),
    "ReplicaSet": (_REPLICA_COLUMNS, _replicas_of(selector_text)),
    "ReplicationController": (_REPLICA_COLUMNS, _replicas_of(labels_text)),
    "DaemonSet": (
        (
            NAME,
            integer("Desired", "How many nodes should run the pod."),
            integer("Current", "How many nodes run the pod."),
            integer("Ready", "How many pods are ready."),
            integer("Up-to-date", "How many pods have the newest template."),
            integer("Available", "How many pods have been ready long enough."),
            text("Node Selector", "Labels of the nodes that run the pod."),
            AGE,
            *_TEMPLATE,
        ),
        _daemon_set,
    ),
    "ControllerRevision": (
        (NAME, text("Controller", "Whose history this is."), text("Revision", "Number of the revision."), AGE),
        _controller_revision,
    ),
    "Job": (
        (
            NAME,
            text("Status", "What the job is doing, in one word."),
            text("Completions", "How many pods have succeeded, of how many."),
            text("Duration", "How long the job has run."),
            AGE,
            *_TEMPLATE,
        ),
        _job,
    ),
    "CronJob": (
        (
            NAME,
            text("Schedule", "When jobs are started, in cron notation."),
            text("Timezone", "Time zone of the schedule."),
            boolean("Suspend", "Whether no jobs are started for now."),
            integer("Active", "How many jobs are running."),
            text("Last Schedule", "How long ago the last job was started."),
            AGE,
            *_TEMPLATE,
        ),
        _cron_job,
    ),
    "PodDisruptionBudget": (
        (
            NAME,
            text("Min Available", "How many pods must stay available."),
            text("Max Unavailable", "How many pods may be unavailable."),
            integer("Allowed Disruptions", "How many pods may be evicted now."),
            AGE,
        ),
        _disruption_budget,
    ),
    "HorizontalPodAutoscaler": (
        (
            NAME,
            text("Reference", "What is scaled."),
            text("Targets", "Measured and wanted values of the metrics."),
            text("MinPods", "Fewest pods."),
            text("MaxPods", "Most pods."),
            text("Replicas", "How many pods there are."),
            AGE,
        ),
        _autoscaler,
    ),
}
SCALE: Printer = (
    (
        text("Name", "Name of the scaled object."),
        integer("Desired", "How many pods there should be."),
        integer("Available", "How many pods there are."),
        AGE,
    ),
    _scale,
)
