"""Figures of the webhook server, under the names that controller-runtime uses."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

_LATENCY: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class WebhookMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "controller_runtime_webhook_requests_total",
            "Reviews by path and code",
            ["webhook", "code"],
            registry=registry,
        )
        self._latency = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Time to answer a review",
            ["webhook"],
            registry=registry,
            buckets=_LATENCY,
        )

    def answered(self, path: str, code: int, seconds: float) -> None:
        self._requests.labels(path, str(code)).inc()
        self._latency.labels(path).observe(seconds)
