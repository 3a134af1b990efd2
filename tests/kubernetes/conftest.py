"""Tests against a real control plane: found in KUBEBUILDER_ASSETS or the cache, else built once with Go."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubernetes.controlplane import ControlPlane, control_plane
from tools.kubernetes import build


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture(scope="session")
def binaries() -> Path:
    if build.find() is None and shutil.which("go") is None:
        pytest.skip("no real control plane: install Go, or point KUBEBUILDER_ASSETS to its binaries")
    return build.build()


@pytest.fixture(scope="session")
def kubernetes(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for all tests, with its own controllers and scheduler. It checks who may block a deletion, as
    some distributions do."""
    directory = tmp_path_factory.mktemp("kubernetes")
    flags = {"kube-apiserver": ["--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]}
    with control_plane(binaries, directory, "kube-controller-manager", "kube-scheduler", flags=flags) as plane:
        yield plane
