"""What the server counts of its requests, under the names and labels that Kubernetes gives them.

| metric | what |
|---|---|
| `apiserver_request_total` | requests for resources, by verb, resource and answer; a watch counts when it begins |
| `apiserver_request_duration_seconds` | how long they took, watches apart |
| `apiserver_current_inflight_requests` | those being answered now, `mutating` and `readOnly` |
| `apiserver_longrunning_requests` | open watches |
| `apiserver_resource_objects`, `apiserver_storage_objects` | stored objects by kind, counted when they are scraped |

A request is counted some thousand times a second and looked at every quarter of a minute. So counting is a dictionary
lookup and two additions; labels are put together once per kind of request. Only resources that exist are counted: the
number of series must not depend on what strangers ask for.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kohort.cluster.apiserver.endpoints.paths import ResourcePath, verb_of
from kohort.cluster.apiserver.storage.model import Store
from kohort.kube.fast_counters import Count, Families, HistogramValues
from kohort.kube.http import Request

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LABELS: Final = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component")
LONG_LABELS: Final = ("verb", "group", "version", "resource", "subresource", "scope", "component")
COMPONENT: Final = "apiserver"
BOUNDS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
CONNECTIONS: Final = frozenset({"log", "exec", "attach", "portforward", "proxy"})
APPLY: Final = "application/apply-patch+yaml"
_PLAIN_VERBS: Final = {"create": "POST", "update": "PUT"}


def shown_verb(request: Request, path: ResourcePath) -> str:
    """The verb as metrics show it: the method, except for lists, watches, collections, applies and connections."""
    if path.subresource in CONNECTIONS:
        return "CONNECT"
    verb = verb_of(request.method, path, watch=request.param("watch") in ("1", "true", "True"))
    if verb == "patch" and request.headers.get("content-type") == APPLY:
        return "APPLY"
    return _PLAIN_VERBS.get(verb, verb.upper() or "OTHER")


def scope_of(request: Request, path: ResourcePath) -> str:
    if path.name or request.method == "POST":
        return "resource"
    return "namespace" if path.namespace else "cluster"


class RequestMetrics:
    def __init__(self) -> None:
        self.families = Families()
        self._total = self.families.counter(
            "apiserver_request", "Requests by verb, resource and answer.", *LABELS, "code"
        )
        self._durations = self.families.histogram(
            "apiserver_request_duration_seconds", "How long requests took.", *LABELS, bounds=BOUNDS
        )
        self._long = self.families.gauge("apiserver_longrunning_requests", "Open watches.", *LONG_LABELS)
        in_flight = self.families.gauge(
            "apiserver_current_inflight_requests", "Requests that are being answered.", "request_kind"
        )
        self.mutating, self.read_only = in_flight.labels("mutating"), in_flight.labels("readOnly")
        self._known: dict[tuple[object, ...], tuple[Count, HistogramValues | None]] = {}

    def finished(self, request: Request, path: ResourcePath, code: int, seconds: float) -> None:
        """A request for a resource that exists has its answer."""
        method = request.method
        flag = request.param("watch" if method == "GET" else "dryRun")
        media = request.headers.get("content-type") if method == "PATCH" else None
        key = (
            *(method, path.group, path.version, path.plural, path.subresource),
            *(bool(path.name), bool(path.namespace), path.watch, flag, media, code),
        )
        known = self._known.get(key)
        if known is None:
            known = self._children(request, path, code)
            if len(flag) < 8 and (media is None or media.startswith("application/")):
                self._known[key] = known
        count, spread = known
        count.value += 1.0
        if spread is not None:
            spread.observe(seconds)

    def watches(self, request: Request, path: ResourcePath) -> Count:
        """The number of open watches on a resource, to be counted up and down."""
        where = (path.group, path.version, path.plural, path.subresource)
        return self._long.labels("WATCH", *where, scope_of(request, path), COMPONENT)

    def _children(self, request: Request, path: ResourcePath, code: int) -> tuple[Count, HistogramValues | None]:
        verb = shown_verb(request, path)
        dry_run = "All" if request.param("dryRun") == "All" and request.method != "GET" else ""
        where = (path.group, path.version, path.plural, path.subresource)
        labels = (verb, dry_run, *where, scope_of(request, path), COMPONENT)
        spread = self._durations.labels(*labels) if verb != "WATCH" else None
        return self._total.labels(*labels, str(code)), spread

    def text(self, store: Store) -> bytes:
        """Everything, in the text format of Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self.families)
        registry.register(_Objects(store))
        return generate_latest(registry)


class _Objects:
    """Counted when they are asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> "Iterable[Metric]":
        from prometheus_client.core import GaugeMetricFamily

        objects = GaugeMetricFamily("apiserver_resource_objects", "Stored objects.", labels=("group", "resource"))
        stored = GaugeMetricFamily("apiserver_storage_objects", "Stored objects.", labels=("resource",))
        for bucket in self._store.buckets():
            count = float(len(self._store.list(bucket)))
            plural, _, group = bucket.partition(".")
            objects.add_metric((group, plural), count)
            stored.add_metric((bucket,), count)
        return [objects, stored]
