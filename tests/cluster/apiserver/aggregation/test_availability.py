"""Whether an aggregated server can be asked, as far as objects say."""

import pytest

from kohort.cluster.apiserver.aggregation.availability import (
    PASSED,
    Availability,
    Reason,
    ServiceReference,
    judge_service,
    with_condition,
)
from kohort.objects.json_types import JsonObject

WANTED = ServiceReference("ns", "api", 7443)
SERVICE: JsonObject = {"spec": {"type": "ClusterIP", "ports": [{"name": "https", "port": 7443}]}}
EXTERNAL: JsonObject = {"spec": {"type": "ExternalName", "externalName": "elsewhere"}}


def slice_of(*, ready: bool = True, port: str = "https", addresses: int = 1) -> JsonObject:
    endpoint = {"addresses": ["10.0.0.1"] * addresses, "conditions": {"ready": ready}}
    return {"ports": [{"name": port, "port": 443}], "endpoints": [endpoint]}


@pytest.mark.parametrize(
    ("service", "slices", "reason", "message"),
    [
        (None, [], Reason.SERVICE_NOT_FOUND, 'service/api in "ns" is not present'),
        (
            {"spec": {"ports": [{"port": 443}]}},
            [slice_of()],
            Reason.SERVICE_PORT_ERROR,
            'service/api in "ns" is not listening on port 7443',
        ),
        (SERVICE, [], Reason.ENDPOINTS_NOT_FOUND, 'cannot find endpointslices for service/api in "ns"'),
        (
            SERVICE,
            [slice_of(ready=False), slice_of(port="http")],
            Reason.MISSING_ENDPOINTS,
            'endpointslices for service/api in "ns" have no addresses with port name "https"',
        ),
    ],
)
def test_why_a_server_is_not_available(
    service: JsonObject | None, slices: list[JsonObject], reason: Reason, message: str
) -> None:
    assert judge_service(WANTED, service, slices) == Availability(reason, message)


def test_what_only_asking_can_tell() -> None:
    assert judge_service(WANTED, SERVICE, [slice_of(ready=False), slice_of()]) is None
    assert judge_service(WANTED, EXTERNAL, []) is None


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    other = {"type": "Other", "status": "True"}
    missing = Availability(Reason.SERVICE_NOT_FOUND, "gone")
    first = with_condition([other], missing, "t1")
    assert first[0] is other
    second = with_condition(first, Availability(Reason.MISSING_ENDPOINTS, "none"), "t2")
    assert (second[1]["lastTransitionTime"], second[1]["reason"]) == ("t1", "MissingEndpoints")
    third = with_condition(second, PASSED, "t3")
    assert (third[1]["lastTransitionTime"], third[1]["message"]) == ("t3", "all checks passed")
    assert with_condition(third, PASSED, "t4") == third
