"""The metrics of the gateway. Separate from the data plane, so that nothing is imported before the first request."""

from prometheus_client import CollectorRegistry, Counter


def requests_counter(registry: CollectorRegistry) -> Counter:
    labels = ["service", "code"]
    return Counter(
        "kohort_gateway_requests_total", "Requests answered, by Service and status", labels, registry=registry
    )
