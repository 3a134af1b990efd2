"""The metrics reference: every series that a part exposes, from the objects that count."""

from collections.abc import Callable, Iterable
from typing import cast

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from kohort.admission.metrics import WebhookMetrics
from kohort.cluster.apiserver.endpoints.request_metrics import RequestMetrics as ServerMeters
from kohort.cluster.gateway.metrics import RequestMetrics as GatewayMetrics
from kohort.cluster.scheduler.metrics import ResourceCollector, SchedulerMetrics
from kohort.groups.metrics import SINGLE_GROUPS, GroupMetrics
from kohort.kube.metrics import Metrics
from kohort.node.metrics import NodeMetrics
from kohort.rollouts.metrics import RolloutMetrics


class _EmptyQueue:
    def count(self, room: object) -> int:
        return 0


def _runtime(registry: CollectorRegistry) -> None:
    Metrics(registry)


def _groups(registry: CollectorRegistry) -> None:
    GroupMetrics(registry)


def _rollouts(registry: CollectorRegistry) -> None:
    RolloutMetrics(Metrics(registry))


def _webhooks(registry: CollectorRegistry) -> None:
    WebhookMetrics(registry)


def _node(registry: CollectorRegistry) -> None:
    NodeMetrics(registry)


def _scheduler(registry: CollectorRegistry) -> None:
    SchedulerMetrics(registry, cast("object", _EmptyQueue()), "default-scheduler")  # type: ignore[arg-type]
    registry.register(cast("Collector", ResourceCollector(lambda: ())))


def _gateway(registry: CollectorRegistry) -> None:
    GatewayMetrics(registry)


def _server(registry: CollectorRegistry) -> None:
    registry.register(ServerMeters().families)


PARTS: dict[str, tuple[str, Callable[[CollectorRegistry], None]]] = {
    "Groups": (
        "Exposed by the operator. `name` is that of the set. Series with a label `group` are there for the first "
        f"{SINGLE_GROUPS} groups of a set; what is counted of the others has `{SINGLE_GROUPS}+`.",
        _groups,
    ),
    "Rollouts": ("Exposed by the operator, one set of series per Rollout.", _rollouts),
    "Webhooks": ("Exposed by the operator.", _webhooks),
    "Queues, reconciles, requests": (
        "Exposed by every part; names as in controller-runtime where they exist.",
        _runtime,
    ),
    "Gateway": (
        "Exposed by the embedded gateway, at the address in ConfigMap `kohort-system/kohort-gateway`, key "
        "`metricsAddress`. `pod` is empty for requests that reached none; series of pods that are gone are dropped.",
        _gateway,
    ),
    "API server": ("Exposed by the embedded API server at `/metrics`; names as in Kubernetes.", _server),
    "Scheduler": ("Exposed by the embedded scheduler.", _scheduler),
    "Node": ("Exposed by the node agent.", _node),
}


def page() -> str:
    lines = [
        "# Metrics",
        "",
        "Generated from the code. Histograms are scraped as `_bucket`, `_sum`, `_count`. Every series has an",
        "address: `#NAME`.",
        "A Grafana dashboard and alert rules are in `deploy/monitoring`; [Monitor](../how-to/monitor.md) says how to",
        "get at the series. On an embedded cluster each part has its own page: `kubectl get --raw /metrics/operator`.",
        "",
    ]
    seen: set[str] = set()
    for title, (words, register) in PARTS.items():
        lines += [f"## {title}", "", words, "", "| series | type | labels | meaning |", "|---|---|---|---|"]
        own = families(register)
        shared = {name for name, *_ in families(_runtime)} if title == "Rollouts" else set()
        for name, kind, labels, text in own:
            if name not in shared:
                anchored = f"{name}-{title.lower().split()[0]}" if name in seen else name
                seen.add(name)
                lines.append(f'| <a id="{anchored}"></a>`{name}` | {kind} | {", ".join(labels)} | {text.rstrip(".")} |')
        lines.append("")
    return "\n".join(lines)


def families(register: Callable[[CollectorRegistry], None]) -> list[tuple[str, str, tuple[str, ...], str]]:
    """(name, type, labels, meaning), by name."""
    registry = CollectorRegistry()
    register(registry)
    found = []
    for collector in list(registry._collector_to_names):
        parts: Iterable[object] = getattr(collector, "_families", None) or [collector]
        for part in parts:
            for metric in [part.metric()] if hasattr(part, "metric") else part.collect():  # type: ignore[attr-defined]
                name = f"{metric.name}_total" if metric.type == "counter" else metric.name
                found.append((name, metric.type, _labels(part) or _labels(metric), metric.documentation))
    return sorted(found)


def _labels(of: object) -> tuple[str, ...]:
    return tuple(getattr(of, "label_names", None) or getattr(of, "_labelnames", None) or ())
