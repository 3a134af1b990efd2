"""What running pods could be given without being recreated."""

import pytest
from tests.builders import lws
from tests.inspection.scenes import group_set

from kohort.inspection.in_place_forecast import in_place, in_place_lines
from kohort.objects.json_types import JsonObject

CONTAINER = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0"
BURSTABLE: JsonObject = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
GUARANTEED: JsonObject = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def ask(before: JsonObject, after: JsonObject, **container: object) -> list[str] | None:
    """What is told of an edit from some resources to others; None if it is not about them alone."""
    built = lws("llm").size(2).but(f"{CONTAINER}.resources", before)
    for key, value in container.items():
        built = built.but(f"{CONTAINER}.{key}", value)
    found = in_place(group_set(built), group_set(built.but(f"{CONTAINER}.resources", after)))
    return in_place_lines(found) if found is not None else None


def test_more_of_both() -> None:
    after = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    assert ask(BURSTABLE, after) == [
        "Only cpu and memory change. Pods that run could have them in place, without a restart, instead: "
        "kohort resize llm -n default --cpu 2"
    ]


def test_a_policy_that_restarts() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    after = {"requests": {"cpu": "1", "memory": "3Gi"}, "limits": {"memory": "4Gi"}}
    found = ask(BURSTABLE, after, resizePolicy=policy)
    assert found is not None
    assert "in place, restarting main, instead" in found[0]
    other = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    found = ask(BURSTABLE, after, resizePolicy=other)
    assert found is not None
    assert "without a restart" in found[0]


def test_a_larger_pod_restarts_containers_that_inherit_its_limit() -> None:
    spec = "spec.leaderWorkerTemplate.workerTemplate.spec"
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    pod = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
    larger = {**pod, "limits": {"cpu": "2", "memory": "3Gi"}}
    built = lws("llm").size(2).but(f"{CONTAINER}.resizePolicy", policy).but(f"{spec}.resources", pod)
    found = in_place(group_set(built), group_set(built.but(f"{spec}.resources", larger)))
    assert found is not None
    assert found.possible
    assert found.restarts == ("main",)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (GUARANTEED, BURSTABLE, "the quality of service would change from Guaranteed to Burstable"),
        ({}, GUARANTEED, "the quality of service would change from BestEffort to Guaranteed"),
        (
            BURSTABLE,
            {"requests": {"cpu": "1", "memory": "1Gi"}},
            "the limit for memory of container main would be taken away",
        ),
    ],
)
def test_what_kubernetes_refuses(before: JsonObject, after: JsonObject, reason: str) -> None:
    assert ask(before, after) == [f"Only cpu and memory change, but not in place: {reason}."]


def test_other_edits_are_not_spoken_about() -> None:
    built = lws("llm").size(2).but(f"{CONTAINER}.resources", BURSTABLE)
    both = built.but(f"{CONTAINER}.resources", GUARANTEED).but(f"{CONTAINER}.image", "new:2")
    assert in_place(group_set(built), group_set(both)) is None
    assert in_place(group_set(built), group_set(built)) is None
    gpus: JsonObject = {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}
    assert in_place(group_set(built), group_set(built.but(f"{CONTAINER}.resources", gpus))) is None
