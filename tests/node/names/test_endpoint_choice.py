"""Which endpoint a client is led to."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.node.names import endpoint_choice
from kohort.node.names.endpoint_choice import Backend, EndpointChoice, affinity_seconds
from kohort.objects.core import Service
from kohort.objects.json_types import JsonObject

ENDPOINTS: list[Backend] = [("10.0.0.1", 80), ("10.0.0.2", 80), ("10.0.0.3", 80)]


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, None),
        ({"sessionAffinity": "None"}, None),
        ({"sessionAffinity": "ClientIP"}, 10_800),
        ({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}, 5),
    ],
)
def test_how_long_a_client_stays(spec: JsonObject, expected: int | None) -> None:
    assert affinity_seconds(msgspec.convert({"spec": spec}, Service)) == expected


def connect(choice: EndpointChoice, client: str) -> Backend:
    found = choice.candidates(client)[0]
    choice.chosen(client, found)
    return found


@pytest.mark.parametrize(("pause", "stays"), [(4.9, True), (5.0, False), (100.0, False)])
def test_a_client_is_remembered_for_so_long_after_its_last_connection(pause: float, stays: bool) -> None:
    clock, choice = Clock(), None
    kept = 0
    for _ in range(50):
        choice = EndpointChoice(clock)
        choice.update(ENDPOINTS, 5)
        first = connect(choice, "a")
        clock.time += 3.0
        assert connect(choice, "a") == first, "which counts from now on"
        clock.time += pause
        kept += connect(choice, "a") == first
    assert (kept == 50) is stays


def test_an_endpoint_that_does_not_answer_is_not_remembered() -> None:
    choice = EndpointChoice(Clock())
    choice.update(ENDPOINTS, 5)
    dead, answers = choice.candidates("a")[:2]
    choice.chosen("a", answers)
    assert choice.candidates("a")[0] == answers != dead


@given(st.lists(st.sampled_from(ENDPOINTS), unique=True), st.sampled_from([None, 5]))
def test_every_endpoint_is_tried_once(backends: list[Backend], timeout: int | None) -> None:
    choice = EndpointChoice(Clock())
    choice.update(ENDPOINTS, timeout)
    connect(choice, "a")
    choice.update(backends, timeout)
    assert sorted(choice.candidates("a")) == sorted(backends)


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_choice, "MOST_CLIENTS", 3)
    choice = EndpointChoice(Clock())
    choice.update(ENDPOINTS, 5)
    for number in range(10):
        connect(choice, str(number))
    assert [*choice._last] == ["7", "8", "9"]
