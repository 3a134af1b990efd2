"""What a scrape shows of queues, reconciles, requests and caches. Times are virtual."""

import asyncio

from kohort.kube.metrics import Metrics


def sample(metrics: Metrics, metric: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(metric, labels)


async def test_a_key_is_timed_in_the_queue_and_at_work() -> None:
    metrics = Metrics()
    queue = metrics.queue("pods")
    queue.added("a")
    queue.added("b")
    assert sample(metrics, "workqueue_depth", name="pods") == 2
    await asyncio.sleep(3)
    queue.taken("a")
    await asyncio.sleep(20)
    assert sample(metrics, "workqueue_depth", name="pods") == 1
    assert sample(metrics, "workqueue_unfinished_work_seconds", name="pods") == 20
    assert sample(metrics, "workqueue_longest_running_processor_seconds", name="pods") == 20
    queue.done("a")
    queue.retried()
    assert sample(metrics, "workqueue_queue_duration_seconds_sum", name="pods") == 3
    assert sample(metrics, "workqueue_work_duration_seconds_sum", name="pods") == 20
    assert sample(metrics, "workqueue_work_duration_seconds_bucket", name="pods", le="10.0") == 0
    assert sample(metrics, "workqueue_work_duration_seconds_bucket", name="pods", le="30.0") == 1
    assert sample(metrics, "workqueue_unfinished_work_seconds", name="pods") == 0
    assert sample(metrics, "workqueue_adds_total", name="pods") == 2
    assert sample(metrics, "workqueue_retries_total", name="pods") == 1


def test_reconciles_are_counted_by_their_result() -> None:
    metrics = Metrics()
    reconciler = metrics.reconciler("pods", workers=4)
    reconciler.began()
    assert sample(metrics, "controller_runtime_active_workers", controller="pods") == 1
    reconciler.finished("success", 0.5)
    reconciler.ended()
    reconciler.finished("error", 1.5)
    reconciler.raised(RuntimeError("a bug"))
    reconciler.raised(TimeoutError())
    assert sample(metrics, "controller_runtime_active_workers", controller="pods") == 0
    assert sample(metrics, "controller_runtime_max_concurrent_reconciles", controller="pods") == 4
    results = {
        result: sample(metrics, "controller_runtime_reconcile_total", controller="pods", result=result)
        for result in ("success", "error", "requeue", "requeue_after")
    }
    assert results == {"success": 1, "error": 1, "requeue": 0, "requeue_after": 0}
    assert sample(metrics, "controller_runtime_reconcile_errors_total", controller="pods") == 1
    assert sample(metrics, "controller_runtime_reconcile_panics_total", controller="pods") == 1
    assert sample(metrics, "controller_runtime_reconcile_timeouts_total", controller="pods") == 1
    assert sample(metrics, "controller_runtime_reconcile_time_seconds_sum", controller="pods") == 2
    assert sample(metrics, "controller_runtime_terminal_reconcile_errors_total", controller="pods") == 0


def test_requests_are_counted_by_method_and_code() -> None:
    metrics = Metrics()
    for code in (200, 200, 409, 0):
        metrics.request("PATCH", code, 0.25)
    assert sample(metrics, "rest_client_requests_total", method="PATCH", code="200") == 2
    assert sample(metrics, "rest_client_requests_total", method="PATCH", code="409") == 1
    assert sample(metrics, "rest_client_requests_total", method="PATCH", code="<error>") == 1, "no answer at all"
    assert sample(metrics, "rest_client_request_duration_seconds_count", method="PATCH") == 4


def test_caches_watches_and_leadership() -> None:
    metrics = Metrics()
    cache = metrics.informer("pods")
    cache.listed()
    cache.holds(7)
    metrics.watch_events("pods").inc()
    metrics.leading("operator", True)
    assert sample(metrics, "kohort_informer_objects", resource="pods") == 7
    assert sample(metrics, "kohort_informer_lists_total", resource="pods") == 1
    assert sample(metrics, "kohort_watch_events_total", resource="pods") == 1
    assert sample(metrics, "leader_election_master_status", name="operator") == 1
    metrics.leading("operator", False)
    assert sample(metrics, "leader_election_master_status", name="operator") == 0


def test_parts_of_one_process_do_not_share_counters() -> None:
    one, other = Metrics(), Metrics()
    one.watch_events("pods").inc()
    assert sample(one, "kohort_watch_events_total", resource="pods") == 1
    assert sample(other, "kohort_watch_events_total", resource="pods") is None


def test_the_text_of_a_scrape() -> None:
    metrics = Metrics()
    metrics.request("GET", 200, 0.001)
    assert b'rest_client_requests_total{code="200",method="GET"} 1.0' in metrics.render()
