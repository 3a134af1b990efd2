"""The data plane as it starts: its port is opened by the first Ingress, and again after a failure."""

import socket

from tests.cluster.gateway.plane import INGRESSES, ingress, stage

from kohort.kube.resources import CONFIG_MAPS
from kohort.testing.request_matching import writes


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


async def test_a_start_that_failed_leaves_nothing_behind_that_keeps_the_next_one_from_its_port() -> None:
    port = free_port()
    async with stage("v1", port=port) as scene:
        scene.cluster.faults("gateway").refuse(500, on=writes(CONFIG_MAPS), times=2)
        await scene.cluster.client.create(INGRESSES, ingress("llm", "llm"), "default")
        assert await scene.open() == f"http://127.0.0.1:{port}"
        assert await scene.get() == (200, "v1")
