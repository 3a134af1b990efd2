"""Time stamps follow the event loop, on virtual time and in threads."""

import asyncio
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from kohort.kube import clock
from kohort.testing.virtual_time import EPOCH


async def test_time_is_that_of_the_loop() -> None:
    assert clock.seconds() == EPOCH
    await asyncio.sleep(1.5)
    assert clock.seconds() == EPOCH + 1.5
    assert clock.now() == datetime(2026, 1, 1, 0, 0, 1, 500_000, UTC)


async def test_time_stamps_have_whole_seconds_or_six_digits() -> None:
    await asyncio.sleep(61.25)
    assert clock.timestamp() == "2026-01-01T00:01:01Z"
    assert clock.micro_timestamp() == "2026-01-01T00:01:01.250000Z"


async def test_whole_seconds_are_rounded_down() -> None:
    await asyncio.sleep(0.999999)
    assert clock.timestamp() == "2026-01-01T00:00:00Z"


def test_without_a_loop_it_is_the_time_of_the_machine() -> None:
    before = time.time()
    assert before <= clock.seconds() <= time.time()


async def test_another_thread_sees_the_time_of_the_loop() -> None:
    await asyncio.sleep(3600)
    stamped = clock.with_frozen_time(clock.timestamp)
    assert await asyncio.to_thread(stamped) == "2026-01-01T01:00:00Z"


async def test_the_time_of_a_thread_is_frozen_when_the_function_is_made() -> None:
    stamped = clock.with_frozen_time(clock.seconds)
    await asyncio.sleep(10)
    assert await asyncio.to_thread(stamped) == EPOCH


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC), "2026-03-04T05:06:07Z"),
        (datetime(2026, 3, 4, 5, 6, 7, tzinfo=timezone(timedelta(hours=2))), "2026-03-04T03:06:07Z"),
    ],
)
def test_times_are_written_in_utc_and_read_back(moment: datetime, text: str) -> None:
    assert clock.format_time(moment) == text
    assert clock.parse_time(text) == moment


@pytest.mark.parametrize("text", ["2026-03-04T05:06:07.123456Z", "2026-03-04T07:06:07.123456+02:00"])
def test_fractions_and_offsets_are_read(text: str) -> None:
    assert clock.parse_time(text) == datetime(2026, 3, 4, 5, 6, 7, 123456, UTC)
