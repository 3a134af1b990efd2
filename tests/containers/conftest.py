import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.containers.cluster import ContainerCluster, container_cluster
from tests.containers.containerd import Containerd, image_archive, pause_archive
from tests.containers.crio import Crio
from tests.containers.runtime import RuntimeUnderTest
from tools.container_packages import missing

from kohort.node import stale_state_cleanup

RUNTIMES: dict[str, type[RuntimeUnderTest]] = {"containerd": Containerd, "crio": Crio}
SLEEP = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")


@pytest.fixture(scope="session")
def runtime() -> Iterator[RuntimeUnderTest]:
    if reason := missing():
        pytest.skip(reason)
    directory = Path(tempfile.mkdtemp(prefix="kohort-"))  # paths of sockets must be short
    runtime = RUNTIMES[os.environ.get("KOHORT_TEST_RUNTIME") or "containerd"](directory)
    try:
        runtime.start()
        runtime.load(pause_archive())
        yield runtime
    finally:
        runtime.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def registry(runtime: RuntimeUnderTest) -> str:
    return runtime.registry()


@pytest.fixture(scope="session")
def image(runtime: RuntimeUnderTest, registry: str) -> str:
    """The name of an image of busybox that sleeps, in the registry."""
    return runtime.push(registry, "test/busybox:1", image_archive("busybox:1", command=SLEEP, mark="one"))


@pytest.fixture
async def cluster(runtime: RuntimeUnderTest, image: str, tmp_path: Path) -> AsyncIterator[ContainerCluster]:
    """Without a node: tests start its agent."""
    directory = tmp_path / "node"
    directory.mkdir(mode=0o700)
    async with container_cluster(runtime.socket, directory, image) as made:
        yield made
    await stale_state_cleanup.end(directory)
