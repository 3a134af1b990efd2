"""Watch frames, from bytes in any portions to typed events."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube import errors
from kohort.kube.watch_frames import Bookmark, FrameDecoder, LineSplitter, Unreadable, WatchEvent
from kohort.objects.core import Pod
from kohort.objects.json_types import JsonObject

POD = b'{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"status":{"phase":"Running"}}'


def decode(frame: bytes) -> WatchEvent[Pod] | Bookmark | Unreadable:
    return FrameDecoder(Pod).decode(frame)


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED", "DELETED"])
def test_a_change_carries_the_view(change: str) -> None:
    event = decode(b'{"type":"%s","object":%s}' % (change.encode(), POD))
    assert isinstance(event, WatchEvent)
    assert event.type == change
    assert (event.object.metadata.name, event.object.status.phase) == ("a", "Running")


def test_members_may_come_in_any_order_and_spacing() -> None:
    event = decode(b'{ "object" : %s, "type" : "MODIFIED" }' % POD)
    assert isinstance(event, WatchEvent)
    assert (event.type, event.object.metadata.resource_version) == ("MODIFIED", "7")


def test_bookmarks_tell_the_version_and_the_end_of_the_initial_events() -> None:
    plain = b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9"}}}'
    assert decode(plain) == Bookmark("9")
    end = (
        b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9",'
        b'"annotations":{"k8s.io/initial-events-end":"true"}}}}'
    )
    assert decode(end) == Bookmark("9", initial_events_end=True)


def test_an_error_frame_is_raised_as_what_it_is() -> None:
    frame = (
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"too old resource version: 1 (5)","reason":"Expired","code":410}}'
    )
    with pytest.raises(errors.Expired, match="too old"):
        decode(frame)


def test_an_object_that_does_not_fit_the_view_is_reported_with_its_name() -> None:
    frame = b'{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"spec":"?"}}'
    found = decode(frame)
    assert isinstance(found, Unreadable)
    assert (found.namespace, found.name, found.resource_version) == ("n", "a", "7")


def test_a_null_is_an_absent_field() -> None:
    event = decode(b'{"type":"ADDED","object":{"metadata":{"name":"a","labels":null},"spec":{"nodeName":null}}}')
    assert isinstance(event, WatchEvent)
    assert (event.object.metadata.labels, event.object.spec.node_name) == ({}, "")


def test_whole_objects_are_dictionaries() -> None:
    event = FrameDecoder(JsonObject).decode(b'{"type":"ADDED","object":%s}' % POD)
    assert isinstance(event, WatchEvent)
    assert event.object == msgspec.json.decode(POD)


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_do_not_depend_on_chunk_borders(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cutter = LineSplitter()
    found: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += cutter.feed(stream[:size])
        stream = stream[size:]
    assert found == lines


def test_an_unknown_type_of_event_is_an_error() -> None:
    with pytest.raises(errors.InternalError, match="watch event of unknown type 'RENAMED'"):
        decode(b'{"type":"RENAMED","object":%s}' % POD)


def test_a_bookmark_without_annotations_is_not_the_end_of_the_initial_events() -> None:
    frame = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}'
    assert decode(frame) == Bookmark("12", initial_events_end=False)


def test_a_frame_that_is_not_json_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(b"<html>")


@given(st.binary(max_size=100).filter(lambda data: b"\n" not in data))
def test_a_line_without_its_end_waits(data: bytes) -> None:
    lines = LineSplitter()
    assert list(lines.feed(data)) == []
    assert list(lines.feed(b"\n")) == ([data] if data.strip() else list(LineSplitter().feed(data + b"\n")))


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED", "DELETED"])
@given(version=st.integers(1, 10**12))
def test_versions_are_kept_as_text(change: str, version: int) -> None:
    body = msgspec.json.encode({"metadata": {"name": "a", "namespace": "n", "resourceVersion": str(version)}})
    event = decode(b'{"type":"%s","object":%s}' % (change.encode(), body))
    assert isinstance(event, WatchEvent) and event.object.metadata.resource_version == str(version)
