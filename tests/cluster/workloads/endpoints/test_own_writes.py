"""A change that the controller made itself is no reason to look again."""

from kohort.cluster.workloads.endpoints.own_writes import OwnWrites
from kohort.objects.json_types import JsonObject


def slice_at(version: str) -> JsonObject:
    return {"metadata": {"namespace": "ns", "name": "web-1", "resourceVersion": version}}


def test_own_writes_are_no_news() -> None:
    own_writes = OwnWrites()
    own_writes.record(slice_at("5"), "6")
    assert not own_writes.is_relevant_change(slice_at("5"), slice_at("6"))
    assert own_writes.is_relevant_change(slice_at("6"), slice_at("7"))


def test_a_key_that_came_too_early_is_queued_when_the_cache_has_caught_up() -> None:
    own_writes = OwnWrites()
    own_writes.record(slice_at("5"), "6")
    assert own_writes.is_pending(slice_at("5"))
    assert own_writes.is_relevant_change(slice_at("5"), slice_at("6"))
    assert not own_writes.is_pending(slice_at("6"))
    assert not own_writes.is_awaited_change(slice_at("6"), slice_at("7"))


def test_what_comes_and_goes_is_news_and_leaves_nothing_behind() -> None:
    own_writes = OwnWrites()
    own_writes.record(slice_at("5"), "6")
    assert own_writes.is_awaited_change(slice_at("6"), None)
    assert own_writes.is_awaited_change(None, slice_at("5"))
    assert not own_writes.is_pending(slice_at("5"))
