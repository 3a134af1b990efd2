"""Cancelling tasks."""

import asyncio

import pytest

from kohort.kube.tasks import as_coroutine, cancel_all


async def test_cancelled_tasks_have_ended_when_the_call_returns() -> None:
    ended: list[str] = []

    async def slow_to_end(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5)
            ended.append(name)

    tasks = [asyncio.create_task(slow_to_end(name)) for name in ("a", "b")]
    await asyncio.sleep(0)
    await cancel_all(*tasks)
    assert sorted(ended) == ["a", "b"] and all(task.cancelled() for task in tasks)


async def test_failures_of_cancelled_tasks_are_not_raised() -> None:
    async def fails() -> None:
        raise RuntimeError("broken")

    async def finished() -> None:
        return

    await cancel_all(asyncio.create_task(fails()), asyncio.create_task(finished()))
    await cancel_all()


async def test_anything_that_can_be_awaited_becomes_a_coroutine() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(as_coroutine(lambda: future))
    future.set_exception(ValueError("from the future"))
    with pytest.raises(ValueError, match="from the future"):
        await task
