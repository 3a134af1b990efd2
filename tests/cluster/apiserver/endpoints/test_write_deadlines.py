"""Writes that take too long are given up; others, and those who wait for them, are left alone."""

import asyncio

import pytest

from kohort.cluster.apiserver.endpoints.write_deadlines import WriteDeadlines


async def finished() -> str:
    return "done"


async def test_what_is_quick_is_answered() -> None:
    assert await WriteDeadlines(34.0).within(finished()) == "done"


async def test_what_takes_too_long_is_given_up() -> None:
    begun = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):
        await WriteDeadlines(34.0).within(asyncio.sleep(1000))
    assert 34.0 <= asyncio.get_running_loop().time() - begun <= 36.0
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_cancelled_caller_stays_cancelled() -> None:
    task = asyncio.create_task(WriteDeadlines(34.0).within(asyncio.sleep(1000)))
    await asyncio.sleep(3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_that_is_overdue_does_not_take_others_with_it() -> None:
    deadlines = WriteDeadlines(34.0)
    late = asyncio.create_task(deadlines.within(asyncio.sleep(1000)))
    await asyncio.sleep(30)
    assert await deadlines.within(asyncio.sleep(20, "done")) == "done"
    with pytest.raises(TimeoutError):
        await late
