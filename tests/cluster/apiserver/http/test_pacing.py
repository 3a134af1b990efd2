"""Streams that are many wait for each other; a few never wait."""

import asyncio

import pytest

from kohort.cluster.apiserver.http.pacing import LONGEST, SECONDS_PER_STREAM, Chunks, Rounds
from kohort.testing import virtual_time


@pytest.mark.parametrize(
    ("streams", "seconds"),
    [
        (1, 0.0),
        (9, 0.0),
        (10, 10 * SECONDS_PER_STREAM),
        (200, 0.04),
        (100_000, LONGEST),
    ],
)
def test_the_more_streams_the_further_rounds_are_apart(streams: int, seconds: float) -> None:
    async def waited() -> float:
        rounds = Rounds()
        rounds.streams = streams
        begun = asyncio.get_running_loop().time()
        await rounds.next()
        return asyncio.get_running_loop().time() - begun

    assert virtual_time.run(waited()) == pytest.approx(seconds)


def test_all_who_wait_go_on_in_the_same_round() -> None:
    async def ends() -> list[float]:
        rounds = Rounds()
        rounds.streams = 200
        clock = asyncio.get_running_loop().time

        async def wait_from(start: float) -> float:
            await asyncio.sleep(start)
            await rounds.next()
            return clock()

        return await asyncio.gather(*(wait_from(start) for start in (0.0, 0.01, 0.02)))

    assert virtual_time.run(ends()) == [pytest.approx(0.04)] * 3


def test_one_that_gives_up_takes_the_round_from_nobody() -> None:
    async def scenario() -> bool:
        rounds = Rounds()
        rounds.streams = 200
        leaving, staying = asyncio.create_task(rounds.next()), asyncio.create_task(rounds.next())
        await asyncio.sleep(0.01)
        leaving.cancel()
        await staying
        return leaving.cancelled()

    assert virtual_time.run(scenario())


def test_a_frame_is_wrapped_as_a_chunk_whoever_gets_it() -> None:
    chunks = Chunks()
    first, second = b"a" * 10, b"b" * 17
    assert [chunks.of(first), chunks.of(first), chunks.of(second), chunks.of(first)] == [
        b"a\r\n" + first + b"\r\n",
        b"a\r\n" + first + b"\r\n",
        b"11\r\n" + second + b"\r\n",
        b"a\r\n" + first + b"\r\n",
    ]
