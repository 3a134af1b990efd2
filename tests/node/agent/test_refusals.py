"""Pods that the node does not take in."""

from pathlib import Path

import pytest
from tests.node.agent.onenode import container, node

from kohort.objects.jsontypes import JsonObject


async def test_more_than_the_node_has_is_not_taken_in(tmp_path: Path) -> None:
    async with node(tmp_path, cpu="1") as bench:
        await bench.create(containers=[container("c", resources={"requests": {"cpu": "2"}})])
        await bench.until(lambda: bench.phase() == "Failed")
        assert bench.pod()["status"]["reason"] == "OutOfcpu"


@pytest.mark.parametrize(
    ("second", "labels", "reason"),
    [
        ({"os": {"name": "windows"}}, {}, "PodOSNotSupported"),
        ({}, {"kubernetes.io/os": "windows"}, "PodOSSelectorNodeLabelDoesNotMatch"),
        ({"containers": [container("c", ports=[{"containerPort": 1, "hostPort": 80}])]}, {}, "NodePorts"),
    ],
)
async def test_pods_that_were_bound_to_the_wrong_node_are_not_taken_in(
    tmp_path: Path, second: JsonObject, labels: JsonObject, reason: str
) -> None:
    async with node(tmp_path) as bench:
        await bench.create("p", containers=[container("c", ports=[{"containerPort": 2, "hostPort": 80}])])
        await bench.until(lambda: bench.phase() == "Running")
        await bench.create("q", labels=labels, **second)
        await bench.until(lambda: bench.phase("q") == "Failed")
        assert bench.pod("q")["status"]["reason"] == reason


async def test_pods_with_resources_of_their_own_need_cgroups(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(resources={"limits": {"cpu": "1", "memory": "64Mi"}})
        await bench.until(lambda: bench.phase() == "Failed")
        assert bench.pod()["status"]["reason"] == "PodLevelResourcesNotSupported"
