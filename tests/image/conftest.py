"""The image, built once, and a containerd that has it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.containers import containerd as node_containerd
from tests.image.containerd import Containerd, containerd
from tools.container_packages import missing
from tools.image.build import Built, archive_name, build, write
from tools.kubernetes import build as kubernetes_programs

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.image)
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def built() -> Built:
    return build(ROOT)


@pytest.fixture(scope="session")
def archive(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image")
    write(built, folder)
    return folder / archive_name(built)


@pytest.fixture(scope="session")
def runtime(archive: Path) -> Iterator[Containerd]:
    """Its folder has a short name, because names of sockets are short, and is on a disk that can be an overlay."""
    if reason := missing():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="kohort-ctr-", dir="/var/tmp"))
    try:
        with containerd(folder) as running:
            running.load(archive)
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def binaries() -> Path:
    if kubernetes_programs.find() is None and shutil.which("go") is None:
        pytest.skip("no real control plane: install Go, or point KUBEBUILDER_ASSETS to its binaries")
    return kubernetes_programs.build()


@pytest.fixture(scope="session")
def node_runtime() -> Iterator[node_containerd.Containerd]:
    """One for nodes of kohort, with the container runtime interface."""
    if reason := missing():
        pytest.skip(reason)
    directory = Path(tempfile.mkdtemp(prefix="kohort-", dir="/var/tmp"))
    runtime = node_containerd.Containerd(directory)
    try:
        runtime.start()
        runtime.load(node_containerd.pause_archive())
        yield runtime
    finally:
        runtime.stop()
        shutil.rmtree(directory, ignore_errors=True)
