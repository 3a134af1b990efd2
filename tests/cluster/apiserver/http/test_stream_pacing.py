"""Streams that are many wait for each other; a few never wait."""

import asyncio
from itertools import count

import pytest

from kohort.cluster.apiserver.http.stream_pacing import FEW, LONGEST, REST, SHORTEST, ChunkEncoder, StreamRounds
from kohort.testing import virtual_time


async def waited(rounds: StreamRounds) -> float:
    clock = asyncio.get_running_loop().time
    begun = clock()
    await rounds.next()
    return clock() - begun


@pytest.mark.parametrize(("streams", "seconds"), [(1, 0.0), (FEW - 1, 0.0), (FEW, SHORTEST), (200, SHORTEST)])
def test_only_many_streams_wait(streams: int, seconds: float) -> None:
    rounds = StreamRounds()
    rounds.streams = streams
    assert virtual_time.run(waited(rounds)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("taken", "pause"), [(0.0, SHORTEST), (0.01, REST * 0.01), (0.02, REST * 0.02), (5.0, LONGEST)]
)
def test_the_longer_a_round_takes_the_longer_is_the_pause_after_it(taken: float, pause: float) -> None:
    async def second_pause() -> float:
        rounds = StreamRounds(clock=count(step=taken).__next__)
        rounds.streams = 200
        await rounds.next()
        await asyncio.sleep(0)  # the round is over when all have had their turn
        return await waited(rounds)

    assert virtual_time.run(second_pause()) == pytest.approx(pause)


def test_all_waiting_streams_go_on_in_the_same_round() -> None:
    async def ends() -> list[float]:
        rounds = StreamRounds()
        rounds.streams = 200
        clock = asyncio.get_running_loop().time

        async def wait_from(start: float) -> float:
            await asyncio.sleep(start)
            await rounds.next()
            return clock()

        return await asyncio.gather(*(wait_from(start) for start in (0.0, SHORTEST / 4, SHORTEST / 2)))

    assert virtual_time.run(ends()) == [pytest.approx(SHORTEST)] * 3


def test_a_cancelled_stream_does_not_end_the_round_of_others() -> None:
    async def scenario() -> bool:
        rounds = StreamRounds()
        rounds.streams = 200
        leaving, staying = asyncio.create_task(rounds.next()), asyncio.create_task(rounds.next())
        await asyncio.sleep(SHORTEST / 2)
        leaving.cancel()
        await staying
        return leaving.cancelled()

    assert virtual_time.run(scenario())


def test_a_frame_is_encoded_as_a_chunk_once_for_all_streams() -> None:
    chunks = ChunkEncoder()
    first, second = b"a" * 10, b"b" * 17
    assert [chunks.of(first), chunks.of(first), chunks.of(second), chunks.of(first)] == [
        b"a\r\n" + first + b"\r\n",
        b"a\r\n" + first + b"\r\n",
        b"11\r\n" + second + b"\r\n",
        b"a\r\n" + first + b"\r\n",
    ]
