"""The token bucket."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.kube.ratelimit import TokenBucket


async def test_a_burst_passes_without_waiting_and_the_rest_is_spread() -> None:
    bucket = TokenBucket(rate=10, burst=5)
    now = asyncio.get_running_loop().time
    times = []
    for _ in range(8):
        await bucket.take()
        times.append(round(now(), 6))
    assert times == [0, 0, 0, 0, 0, 0.1, 0.2, 0.3]


async def test_waiters_are_served_in_order_at_the_rate() -> None:
    bucket = TokenBucket(rate=2, burst=1)
    now = asyncio.get_running_loop().time
    served: list[tuple[int, float]] = []

    async def ask(number: int) -> None:
        await bucket.take()
        served.append((number, now()))

    await asyncio.gather(*(ask(number) for number in range(4)))
    assert served == [(0, 0.0), (1, 0.5), (2, 1.0), (3, 1.5)]


async def test_the_bucket_fills_up_to_its_size_and_no_further() -> None:
    bucket = TokenBucket(rate=1, burst=3)
    for _ in range(3):
        assert bucket.try_take()
    assert not bucket.try_take()
    await asyncio.sleep(1000)
    assert [bucket.try_take() for _ in range(4)] == [True, True, True, False]


async def test_a_cancelled_waiter_gives_its_token_back() -> None:
    bucket = TokenBucket(rate=1, burst=1)
    await bucket.take()
    waiter = asyncio.create_task(bucket.take())
    await asyncio.sleep(0.5)
    waiter.cancel()
    await asyncio.sleep(0.5)
    assert bucket.try_take()


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_bucket_that_never_fills_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="rate above 0"):
        TokenBucket(rate, burst)


@given(st.integers(1, 20), st.floats(0.5, 50), st.integers(1, 60))
def test_no_more_than_the_burst_and_the_rate_pass(burst: int, rate: float, wanted: int) -> None:
    now = 0.0
    bucket = TokenBucket(rate, burst, clock=lambda: now)
    passed = 0
    for step in range(wanted):
        now = step * 0.1
        passed += bucket.try_take()
    assert passed <= burst + rate * now + 1e-6
    assert passed >= min(wanted, burst)


def test_a_reservation_says_how_long_to_wait() -> None:
    bucket = TokenBucket(2.0, 1, clock=lambda: 0.0)
    assert [bucket.reserve() for _ in range(4)] == pytest.approx([0.0, 0.5, 1.0, 1.5])
    assert not bucket.try_take(), "reserved tokens are gone"
