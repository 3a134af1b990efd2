"""What is said about a pod that is not ready."""

import msgspec
import pytest

from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject
from kohort.rules.unready_reason import why_not_ready

UNSCHEDULED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available",
}
PROBE_FAILS = {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers: [main]"}


def waiting(reason: str) -> JsonObject:
    return {"name": "main", "state": {"waiting": {"reason": reason}}}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"phase": "Pending", "conditions": [UNSCHEDULED]}, "Pending: 0/3 nodes are available"),
        ({"phase": "Pending", "conditions": [{**UNSCHEDULED, "message": ""}]}, "Pending: Unschedulable"),
        (
            {"phase": "Pending", "containerStatuses": [waiting("ImagePullBackOff")]},
            "Pending: container main is waiting: ImagePullBackOff",
        ),
        ({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]}, "Pending"),
        ({"phase": "Running", "conditions": [PROBE_FAILS]}, "Running, not ready: containers: [main]"),
        ({"phase": "Running"}, "Running, not ready"),
        ({"phase": "Failed"}, "Failed"),
        ({}, "Pending"),
    ],
)
def test_the_most_telling_fact_is_named(status: JsonObject, told: str) -> None:
    assert why_not_ready(msgspec.convert({"metadata": {"name": "llm-0"}, "status": status}, Pod)) == told


def test_a_pod_that_is_leaving_is_not_waited_for() -> None:
    metadata = {"name": "llm-0", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert why_not_ready(msgspec.convert({"metadata": metadata, "status": {"phase": "Running"}}, Pod)) == "terminating"
