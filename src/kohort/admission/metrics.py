"""Figures of the webhook server, under the names that controller-runtime uses."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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

        self._in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Reviews being answered",
            ["webhook"],
            registry=registry,
        )
        self._panics = Counter(
            "controller_runtime_webhook_panics_total", "Reviews that failed in the operator itself", registry=registry
        )
        self._read = Counter("certwatcher_read_certificate_total", "Certificates taken into use", registry=registry)
        self._unread = Counter(
            "certwatcher_read_certificate_errors_total",
            "Certificates that could not be taken into use",
            registry=registry,
        )

    def began(self, path: str) -> None:
        self._in_flight.labels(path).inc()

    def certificate_used(self) -> None:
        self._read.inc()

    def certificate_failed(self) -> None:
        self._read.inc()
        self._unread.inc()

    def answered(self, path: str, code: int, seconds: float) -> None:
        """What `began`."""
        self._in_flight.labels(path).dec()
        if code == 500:
            self._panics.inc()
        self._requests.labels(path, str(code)).inc()
        self._latency.labels(path).observe(seconds)
