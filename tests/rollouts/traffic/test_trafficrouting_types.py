"""TrafficRoutings as Rollouts see them: who uses one, and when none can begin to."""

import msgspec
import pytest

from kohort.objects.json_types import JsonObject
from kohort.rollouts.traffic.controller import traffic_request
from kohort.rollouts.traffic.model import RouteRef
from kohort.rollouts.traffic.trafficrouting_types import TrafficRouting
from kohort.rules.rollout_labels import GRACE_TIMES


def routing(phase: str = "Healthy", *finalizers: str, deleting: bool = False, **spec: JsonObject) -> TrafficRouting:
    metadata: JsonObject = {"name": "shared", "namespace": "default", "uid": "uid", "finalizers": list(finalizers)}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, TrafficRouting)


@pytest.mark.parametrize(
    ("phase", "deleting", "ending"),
    [
        ("", False, False),
        ("Initial", False, False),
        ("Healthy", False, False),
        ("Progressing", False, False),
        ("Finalizing", False, True),
        ("Terminating", False, True),
        ("Healthy", True, True),
    ],
)
def test_a_routing_that_ends_cannot_be_joined(phase: str, deleting: bool, ending: bool) -> None:
    assert routing(phase, deleting=deleting).is_ending() is ending


def test_a_rollout_uses_a_routing_by_its_own_finalizer() -> None:
    shared = routing("Progressing", "progressing.rollouts.kruise.io/first", "other/second")
    assert shared.is_used_by("first")
    assert not shared.is_used_by("second")
    assert not shared.is_used_by("fir")


def test_a_request_for_a_routing_touches_no_service() -> None:
    ref: JsonObject = {"service": "llm", "ingress": {"name": "llm"}}
    document = {
        "metadata": {"name": "shared", "namespace": "default", "uid": "uid"},
        "spec": {"objectRef": [ref], "strategy": {"weight": 20}},
    }
    request = traffic_request(msgspec.convert(document, TrafficRouting))
    assert request.only_traffic
    assert (request.step.weight, request.refs) == (20, (msgspec.convert(ref, RouteRef),))
    assert (request.owner["kind"], request.owner["uid"]) == ("TrafficRouting", "uid")


@pytest.mark.parametrize(
    ("text", "times"),
    [(None, {}), ('{"routes": "2026-01-01T00:00:00Z"}', {"routes": "2026-01-01T00:00:00Z"}), ("{", {}), ("[]", {})],
)
def test_times_that_cannot_be_read_begin_the_grace_period_anew(text: str | None, times: dict[str, str]) -> None:
    metadata: JsonObject = {"name": "shared", "namespace": "default", "uid": "uid"}
    if text is not None:
        metadata["annotations"] = {GRACE_TIMES: text}
    request = traffic_request(msgspec.convert({"metadata": metadata}, TrafficRouting))
    assert dict(request.grace_times) == times
