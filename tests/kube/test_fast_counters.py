"""Figures look to a scrape as those of prometheus_client do."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from kohort.kube.fast_counters import Families


def scraped(families: Families) -> list[str]:
    registry = CollectorRegistry()
    registry.register(families)
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_a_counter_is_shown_with_its_labels() -> None:
    families = Families()
    requests = families.counter("requests_total", "Requests", "method", "code")
    requests.labels("GET", "200").inc()
    requests.labels("GET", "200").inc()
    requests.labels("PUT", "409")
    assert scraped(families) == [
        'requests_total{code="200",method="GET"} 2.0',
        'requests_total{code="409",method="PUT"} 0.0',
    ]


def test_a_gauge_goes_up_and_down() -> None:
    families = Families()
    depth = families.gauge("depth", "Keys", "name").labels("queue")
    depth.inc()
    depth.inc()
    depth.dec()
    assert scraped(families) == ['depth{name="queue"} 1.0']
    depth.set(7)
    assert scraped(families) == ['depth{name="queue"} 7.0']


def test_buckets_of_a_histogram_include_their_bounds_and_everything_below() -> None:
    families = Families()
    latency = families.histogram("latency", "Seconds", "verb", bounds=(0.25, 0.5, 1)).labels("get")
    for seconds in (0.25, 0.375, 1, 3):
        latency.observe(seconds)
    assert scraped(families) == [
        'latency_bucket{le="0.25",verb="get"} 1.0',
        'latency_bucket{le="0.5",verb="get"} 2.0',
        'latency_bucket{le="1.0",verb="get"} 3.0',
        'latency_bucket{le="+Inf",verb="get"} 4.0',
        'latency_count{verb="get"} 4.0',
        'latency_sum{verb="get"} 4.625',
    ]


def test_a_computed_gauge_is_read_at_the_scrape() -> None:
    families, values = Families(), [1.0]
    registry = CollectorRegistry()
    registry.register(families)
    families.gauge("depth", "Keys", "name").compute(lambda: values[0], "pods")
    assert registry.get_sample_value("depth", {"name": "pods"}) == 1
    values[0] = 5.0
    assert registry.get_sample_value("depth", {"name": "pods"}) == 5


def test_equal_labels_share_a_value() -> None:
    family = Families().counter("requests", "Requests", "verb")
    assert family.labels("get") is family.labels("get")
    assert family.labels("get") is not family.labels("list")


def test_a_family_without_values_has_no_samples() -> None:
    families = Families()
    families.counter("requests", "Requests", "verb")
    families.histogram("latency", "Seconds", bounds=(1.0,))
    assert [metric.samples for metric in families.collect()] == [[], []]


@given(st.lists(st.floats(0, 100), max_size=50))
def test_the_last_bucket_has_all_values(values: list[float]) -> None:
    histogram = Families().histogram("latency", "Seconds", bounds=(1.0, 10.0)).labels()
    for value in values:
        histogram.observe(value)
    buckets = dict(histogram.cumulated())
    assert buckets["+Inf"] == len(values)
    assert buckets["1.0"] == sum(value <= 1.0 for value in values)
    assert buckets["1.0"] <= buckets["10.0"] <= buckets["+Inf"]
