"""What one large group costs the operator: every set shares its process."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tests.builders import lws
from tests.groups.test_lifecycle import create, groups_cluster, settled

from kohort.groups.pod_observer import pod_facts


class Calls:
    def __init__(self) -> None:
        self.number = 0


@contextmanager
def calls_of_pod_facts() -> Iterator[Calls]:
    calls, code = Calls(), pod_facts.__code__

    def note(frame: FrameType, event: str, _: object) -> None:
        calls.number += event == "call" and frame.f_code is code

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def looks_per_pod(size: int) -> float:
    async with groups_cluster() as cluster:
        with calls_of_pod_facts() as calls:
            await create(cluster, lws("llm").replicas(1).size(size))
            await cluster.until(lambda: settled(cluster, 1))
        return calls.number / size


async def test_a_pod_of_a_large_group_costs_no_more_than_one_of_a_small_group() -> None:
    assert await looks_per_pod(32) <= 2 * await looks_per_pod(4)
