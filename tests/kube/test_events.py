"""Events: counted up, merged, limited, and never in the way of work."""

import asyncio

import msgspec
import pytest
from tests.kube.model_server import ModelServer

from kohort.kube import errors
from kohort.kube.client import Client
from kohort.kube.events import EventLimit, EventRecorder, reference_to
from kohort.kube.resources import NODES, PODS
from kohort.kube.transport import InProcessTransport
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta, PartialObject
from kohort.testing.faults import Faults
from kohort.testing.request_matching import writes

POD = PartialObject(metadata=ObjectMeta(name="web-0", namespace="n", uid="u1", resource_version="7"))


class Bench:
    def __init__(self) -> None:
        self.server = ModelServer(kind="Event")
        self.faults = Faults()
        self.client = Client(self.faults.wrap(InProcessTransport(self.server.handle)))
        self.recorder = EventRecorder(self.client, "kohort-groups", "host-1")

    def warn(self, message: str, reason: str = "Unhealthy") -> None:
        self.recorder.warning(PODS, POD, reason, message)

    @property
    def events(self) -> list[JsonObject]:
        return [*self.server.objects.get("events", {}).values()]


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_an_event_says_who_saw_what_happen_to_whom_and_when(bench: Bench) -> None:
    await asyncio.sleep(30)
    bench.recorder.normal(PODS, POD, "Created", "created pod")
    await bench.recorder.flush()
    (event,) = bench.events
    metadata = event.pop("metadata")
    assert metadata["namespace"] == "n"
    assert metadata["name"].startswith("web-0.")
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "n",
            "name": "web-0",
            "uid": "u1",
            "resourceVersion": "7",
        },
        "type": "Normal",
        "reason": "Created",
        "message": "created pod",
        "source": {"component": "kohort-groups", "host": "host-1"},
        "reportingComponent": "kohort-groups",
        "reportingInstance": "host-1",
        "firstTimestamp": "2026-01-01T00:00:30Z",
        "lastTimestamp": "2026-01-01T00:00:30Z",
        "count": 1,
    }


async def test_events_about_cluster_scoped_objects_live_in_default(bench: Bench) -> None:
    bench.recorder.normal(NODES, {"metadata": {"name": "node-1", "uid": "u"}}, "Ready", "ready")
    await bench.recorder.flush()
    assert bench.events[0]["metadata"]["namespace"] == "default"


async def test_the_same_event_again_is_counted_up(bench: Bench) -> None:
    for _ in range(3):
        bench.warn("probe failed")
        await asyncio.sleep(10)
    await bench.recorder.flush()
    (event,) = bench.events
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        3,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:20Z",
    )


async def test_an_event_that_was_deleted_meanwhile_is_written_anew(bench: Bench) -> None:
    bench.warn("probe failed")
    await bench.recorder.flush()
    bench.server.remove("events", "n", bench.events[0]["metadata"]["name"])
    bench.warn("probe failed")
    await bench.recorder.flush()
    assert [event["count"] for event in bench.events] == [1]


async def test_the_tenth_similar_event_is_merged_with_those_that_follow(bench: Bench) -> None:
    for number in range(15):
        bench.warn(f"probe failed with {number}")
    await bench.recorder.flush()
    assert len(bench.events) == 10
    merged = [event for event in bench.events if event["message"].startswith("(combined from similar events): ")]
    assert [(event["message"], event["count"]) for event in merged] == [
        ("(combined from similar events): probe failed with 14", 6)
    ]
    assert [(event["source"]["component"], event["reportingComponent"]) for event in merged] == [("kohort-groups", "")]


async def test_a_flood_is_cut_off_after_twenty_five_and_trickles_on(bench: Bench) -> None:
    for number in range(40):
        bench.warn("again", reason=f"Reason{number}")
    await bench.recorder.flush()
    assert len(bench.events) == 25
    await asyncio.sleep(301)
    bench.warn("again", reason="Later")
    bench.warn("again", reason="TooSoon")
    await bench.recorder.flush()
    assert len(bench.events) == 26
    other = PartialObject(metadata=ObjectMeta(name="web-1", namespace="n", uid="u2"))
    bench.recorder.warning(PODS, other, "Other", "objects do not share the dam")
    await bench.recorder.flush()
    assert len(bench.events) == 27


async def test_recording_never_waits_and_never_fails(bench: Bench) -> None:
    bench.faults.slow_down(3600)
    before = asyncio.get_running_loop().time()
    for number in range(5000):
        bench.warn("flood", reason=f"R{number}")
    assert asyncio.get_running_loop().time() == before
    await bench.recorder.close(timeout=1)
    assert asyncio.get_running_loop().time() <= before + 1.1


async def test_an_unreachable_server_is_tried_again(bench: Bench) -> None:
    bench.faults.time_out(1, on=writes(), times=2)
    bench.warn("probe failed")
    await bench.recorder.flush()
    assert len(bench.events) == 1


async def test_a_refused_event_is_dropped_and_the_next_one_is_written(bench: Bench) -> None:
    bench.faults.refuse(errors.forbidden("events", "", "namespace n is being terminated"), on=writes())
    bench.warn("one", reason="One")
    bench.warn("two", reason="Two")
    await bench.recorder.flush()
    assert [event["reason"] for event in bench.events] == ["Two"]


async def test_a_hundred_are_written_at_once_and_fifty_a_second_from_then_on(bench: Bench) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number in range(200):
        pod = PartialObject(metadata=ObjectMeta(name=f"web-{number}", namespace="n", uid=f"u{number}"))
        bench.recorder.normal(PODS, pod, "Scheduled", "assigned")
    await asyncio.sleep(0.001)
    assert len(bench.events) == 100
    await bench.recorder.flush()
    assert len(bench.events) == 200
    assert loop.time() - begun == pytest.approx(2.0, abs=0.1)


async def test_what_waits_for_its_turn_is_written_at_the_end(bench: Bench) -> None:
    for number in range(150):
        pod = PartialObject(metadata=ObjectMeta(name=f"web-{number}", namespace="n", uid=f"u{number}"))
        bench.recorder.normal(PODS, pod, "Scheduled", "assigned")
    await bench.recorder.close()
    assert len(bench.events) == 150


async def test_what_was_done_and_to_what_is_part_of_the_event(bench: Bench) -> None:
    node = PartialObject(metadata=ObjectMeta(name="n1", uid="u2", resource_version="9"))
    bench.recorder.normal(PODS, POD, "Moved", "moved", action="Moving", related=reference_to(NODES, node))
    await bench.recorder.flush()
    (event,) = bench.events
    assert event["type"] == "Normal" and event["action"] == "Moving"
    assert event["related"]["name"] == "n1" and event["related"]["kind"] == "Node"


def test_references_of_views_and_documents_are_equal() -> None:
    document = {"metadata": {"name": "web-0", "namespace": "n", "uid": "u1", "resourceVersion": "7"}}
    assert reference_to(PODS, document) == reference_to(PODS, POD)
    assert reference_to(NODES, {"metadata": {"name": "n1"}}).namespace == ""


async def test_events_of_other_reasons_and_objects_are_not_counted_together(bench: Bench) -> None:
    bench.warn("same words", reason="One")
    bench.warn("same words", reason="Two")
    other = PartialObject(metadata=ObjectMeta(name="web-1", namespace="n", uid="u3", resource_version="7"))
    bench.recorder.warning(PODS, other, "One", "same words")
    await bench.recorder.flush()
    assert sorted((one["reason"], one["involvedObject"]["name"], one["count"]) for one in bench.events) == [
        ("One", "web-0", 1),
        ("One", "web-1", 1),
        ("Two", "web-0", 1),
    ]


async def test_similar_events_are_apart_again_after_ten_minutes(bench: Bench) -> None:
    for number in range(9):
        bench.warn(f"message {number}")
    await bench.recorder.flush()
    await asyncio.sleep(601)
    bench.warn("message 9")
    await bench.recorder.flush()
    assert not any(one["message"].startswith("(combined") for one in bench.events)


async def test_the_limit_of_an_object_can_be_chosen() -> None:
    server = ModelServer(kind="Event")
    recorder = EventRecorder(Client(InProcessTransport(server.handle)), "c", allowance=EventLimit(2, 0.0001))
    for number in range(5):
        recorder.normal(PODS, POD, f"Reason{number}", "message")
    await recorder.flush()
    assert len(server.objects.get("events", {})) == 2


async def test_names_of_events_are_unique_and_begin_with_the_object(bench: Bench) -> None:
    for number in range(20):
        bench.warn("message", reason=f"Reason{number}")
    await bench.recorder.flush()
    names = [one["metadata"]["name"] for one in bench.events]
    assert len(names) == len(set(names)) == 20
    assert all(name.startswith("web-0.") for name in names)


def pod_number(number: int) -> PartialObject:
    return PartialObject(metadata=ObjectMeta(name=f"web-{number}", namespace="n", uid=f"u{number}"))


async def test_events_beyond_five_thousand_waiting_are_dropped(bench: Bench) -> None:
    """The recorder never waits, so what the server does not take must end somewhere. Later events are written."""
    for number in range(5010):
        bench.recorder.warning(PODS, pod_number(number), "Unhealthy", "it is")
    await bench.recorder.flush()
    assert len(bench.events) == 5000
    bench.recorder.warning(PODS, pod_number(6000), "Unhealthy", "it is")
    await bench.recorder.flush()
    assert len(bench.events) == 5001


async def test_an_end_does_not_wait_for_a_server_that_is_away(bench: Bench) -> None:
    bench.faults.slow_down(3600)
    for number in range(3):
        bench.recorder.warning(PODS, pod_number(number), "Unhealthy", "it is")
    clock = asyncio.get_running_loop().time
    before = clock()
    await bench.recorder.close(timeout=2.0)
    assert clock() - before <= 2.1
    assert bench.events == []


async def test_a_recorder_without_events_ends_at_once(bench: Bench) -> None:
    await bench.recorder.close()
    assert bench.events == []


async def test_events_of_the_newer_form_are_the_same_for_one_version_of_their_object(bench: Bench) -> None:
    recorder = EventRecorder(bench.client, "default-scheduler", instance="default-scheduler-host-1")
    newer = msgspec.structs.replace(POD, metadata=msgspec.structs.replace(POD.metadata, resource_version="8"))
    for pod, message in ((POD, "no node"), (POD, "no room"), (newer, "no room")):
        recorder.warning(PODS, pod, "FailedScheduling", message, action="Scheduling")
    await recorder.flush()
    first, second = bench.events
    moment = first.pop("eventTime")
    assert first.pop("series") == {"count": 2, "lastObservedTime": moment}
    assert "series" not in second
    first.pop("metadata")
    assert first == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "n",
            "name": "web-0",
            "uid": "u1",
            "resourceVersion": "7",
        },
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": "no node",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host-1",
    }
