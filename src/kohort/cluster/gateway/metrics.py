"""What the gateway counts. Apart from the data plane, so that nothing is imported for it before there is a request."""

from prometheus_client import CollectorRegistry, Counter


def requests_counter(registry: CollectorRegistry) -> Counter:
    labels = ["service", "code"]
    return Counter(
        "kohort_gateway_requests_total", "Requests answered, by Service and status", labels, registry=registry
    )
