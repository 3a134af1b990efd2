"""A group of real processes below `kohort up` is resized as a whole, or not at all."""

import pytest
from tests.kernel.groups import NAME, NAMESPACE, Group, resized_as_a_whole_or_not_at_all
from tests.node.processes import Bench, bench, data

from kohort.kube.resources import LEADER_WORKER_SETS
from kohort.objects.json_types import JsonObject

__all__ = ["bench", "data"]
pytestmark = pytest.mark.e2e


async def test_a_group_is_resized_in_place(bench: Bench) -> None:
    def check(pods: dict[str, JsonObject], large: bool) -> None:
        limit = "200m" if large else "100m"
        found = {pod["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"] for pod in pods.values()}
        assert found == {limit}

    await resized_as_a_whole_or_not_at_all(Group(bench.client), check)
    await bench.client.delete(LEADER_WORKER_SETS, NAME, NAMESPACE)
