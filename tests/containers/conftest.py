import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.containers.cluster import ContainerCluster, container_cluster
from tests.containers.containerd import Containerd, image_archive, pause_archive
from tools.container_packages import missing

from kohort.node.runtimes.cri.leftover_sandboxes import end_sandboxes

SLEEP = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    if reason := missing():
        pytest.skip(reason)
    directory = Path(tempfile.mkdtemp(prefix="kohort-"))  # paths of sockets must be short
    runtime = Containerd(directory)
    try:
        runtime.start()
        runtime.load(pause_archive())
        yield runtime
    finally:
        runtime.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def registry(containerd: Containerd) -> str:
    return containerd.registry()


@pytest.fixture(scope="session")
def image(containerd: Containerd, registry: str) -> str:
    """The name of an image of busybox that sleeps, in the registry."""
    return containerd.push(registry, "test/busybox:1", image_archive("busybox:1", command=SLEEP, mark="one"))


@pytest.fixture
async def cluster(containerd: Containerd, image: str, tmp_path: Path) -> AsyncIterator[ContainerCluster]:
    """Without a node: tests start its agent."""
    directory = tmp_path / "node"
    directory.mkdir(mode=0o700)
    async with container_cluster(containerd.socket, directory, image) as made:
        yield made
    await end_sandboxes(directory)
