"""A controller waits until its cache shows what it wrote, and no longer."""

import asyncio

import msgspec
import pytest

from kohort.cluster.workloads.expectations import Expectations
from kohort.kube.resources import Key
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import Pod
from kohort.testing.virtual_time import run

OWNER = Key("default", "web")


def cached(uid: str, *, deleting: bool = False) -> Pod:
    metadata: JsonObject = {"name": "web-1", "uid": uid}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": metadata}, Pod)


async def waits_for_a_new_pod(known: Pod | None) -> bool:
    expectations = Expectations()
    expectations.created(OWNER, "a", known)
    return not expectations.met(OWNER)


async def waits_for_a_deletion(known: Pod | None) -> bool:
    expectations = Expectations()
    expectations.deleted(OWNER, "a", known)
    return not expectations.met(OWNER)


@pytest.mark.parametrize(("known", "waits"), [(None, True), (cached("a"), False)])
def test_a_new_object_is_waited_for_unless_the_cache_shows_it(known: Pod | None, waits: bool) -> None:
    assert run(waits_for_a_new_pod(known)) is waits


@pytest.mark.parametrize(
    ("known", "waits"),
    [(None, False), (cached("a"), True), (cached("b"), False), (cached("a", deleting=True), False)],
)
def test_a_deletion_is_waited_for_while_the_cache_shows_the_object(known: Pod | None, waits: bool) -> None:
    assert run(waits_for_a_deletion(known)) is waits


def test_what_the_cache_shows_is_not_waited_for_any_more() -> None:
    async def story() -> None:
        expectations = Expectations()
        expectations.created(OWNER, "a", None)
        expectations.deleted(OWNER, "b", cached("b"))
        expectations.seen(OWNER, "a", leaving=False)
        assert not expectations.met(OWNER)
        expectations.seen(OWNER, "b", leaving=True)
        assert expectations.met(OWNER)

    run(story())


def test_an_object_that_never_appears_is_given_up_after_a_while() -> None:
    async def story() -> None:
        expectations = Expectations()
        expectations.created(OWNER, "a", None)
        await asyncio.sleep(301)
        assert expectations.met(OWNER)

    run(story())
