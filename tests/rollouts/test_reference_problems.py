"""A reference that cannot be used is named by the field that the user wrote: of a Rollout, or of a TrafficRouting."""

import pytest

from kohort.rollouts import messages
from kohort.rollouts.reference_problems import (
    NoBackend,
    ObjectMissing,
    ReferenceProblem,
    RefField,
    RefList,
    ServiceNotNamed,
)
from kohort.rollouts.traffic.model import TrafficRequest

ROLLOUT = TrafficRequest("default", {}, ())
SHARED = TrafficRequest("default", {}, (), only_traffic=True)


def missing(request: TrafficRequest, kind: str, field: RefField) -> ReferenceProblem:
    return ObjectMissing(request.reference(kind, "llm", field))


def no_backend(request: TrafficRequest, kind: str, field: RefField) -> ReferenceProblem:
    return NoBackend(request.reference(kind, "llm", field), "other")


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (missing(ROLLOUT, "Ingress", RefField.INGRESS), "llm (trafficRoutings[0].ingress.name) does"),
        (missing(SHARED, "Ingress", RefField.INGRESS), "Ingress default/llm (objectRef[0].ingress.name)"),
        (missing(SHARED, "VirtualService", RefField.CUSTOM), "default/llm (objectRef[0].customNetworkRefs)"),
        (no_backend(ROLLOUT, "HTTPRoute", RefField.HTTP_ROUTE), "no rule with backendRef other"),
        (no_backend(SHARED, "HTTPRoute", RefField.HTTP_ROUTE), "or correct objectRef[0].service"),
        (no_backend(SHARED, "Ingress", RefField.INGRESS), "no path with backend service other"),
        (ServiceNotNamed(RefList.OF_TRAFFIC_ROUTING), "objectRef[0].service is empty"),
        (ServiceNotNamed(RefList.OF_ROLLOUT), "trafficRoutings[0].service is empty"),
    ],
)
def test_the_message_names_the_object_and_the_field(problem: ReferenceProblem, text: str) -> None:
    assert text in messages.unusable_reference(problem)
