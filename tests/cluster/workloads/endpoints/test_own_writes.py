"""A change that the controller made itself is no reason to look again."""

from kohort.cluster.workloads.endpoints.own_writes import Echoes
from kohort.objects.json_types import JsonObject


def slice_at(version: str) -> JsonObject:
    return {"metadata": {"namespace": "ns", "name": "web-1", "resourceVersion": version}}


def test_own_writes_are_no_news() -> None:
    echoes = Echoes()
    echoes.wrote(slice_at("5"), "6")
    assert not echoes.is_news(slice_at("5"), slice_at("6"))
    assert echoes.is_news(slice_at("6"), slice_at("7"))


def test_whoever_came_too_early_is_called_when_the_cache_has_caught_up() -> None:
    echoes = Echoes()
    echoes.wrote(slice_at("5"), "6")
    assert echoes.is_awaited(slice_at("5"))
    assert echoes.is_news(slice_at("5"), slice_at("6"))
    assert not echoes.is_awaited(slice_at("6"))
    assert not echoes.is_answer(slice_at("6"), slice_at("7"))


def test_what_comes_and_goes_is_news_and_leaves_nothing_behind() -> None:
    echoes = Echoes()
    echoes.wrote(slice_at("5"), "6")
    assert echoes.is_answer(slice_at("6"), None)
    assert echoes.is_answer(None, slice_at("5"))
    assert not echoes.is_awaited(slice_at("5"))
