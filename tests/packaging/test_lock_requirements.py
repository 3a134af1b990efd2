"""The lock files name every package that pyproject.toml asks for, at a version that it allows, with hashes."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
INPUTS: dict[str, list[str]] = {
    "run": PROJECT["project"]["dependencies"],
    **PROJECT["dependency-groups"],
    "build": PROJECT["build-system"]["requires"],
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def locked(lock: str) -> list[tuple[Requirement, list[str]]]:
    """Every entry of a lock file, with its hashes."""
    text = (ROOT / "requirements" / f"{lock}.lock").read_text().replace("\\\n", " ")
    entries = [line.partition("#")[0].split("--hash=") for line in text.splitlines()]
    return [
        (Requirement(first.strip()), [one.strip() for one in hashes]) for first, *hashes in entries if first.strip()
    ]


def pinned(name: str, python: str) -> dict[str, str]:
    """What is installed with this Python on Linux; fails when a package has two versions there."""
    place = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    found: dict[str, str] = {}
    for requirement, _ in locked(name):
        if requirement.marker is None or requirement.marker.evaluate(place):
            (version,) = requirement.specifier
            assert version.operator == "=="
            assert found.setdefault(canonicalize_name(requirement.name), version.version) == version.version
    return found


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("python", PYTHONS)
def test_what_is_asked_for_is_locked(name: str, python: str) -> None:
    """After a change of pyproject.toml: make lock."""
    found = pinned(name, python)
    for requirement in map(Requirement, INPUTS[name]):
        version = found.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in requirements/{name}.lock; run make lock"
        assert requirement.specifier.contains(version), f"{requirement} is locked at {version}; run make lock"


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_files_agree_on_what_they_share(python: str) -> None:
    everything: dict[str, str] = {}
    for name in INPUTS:
        for package, version in pinned(name, python).items():
            assert everything.setdefault(package, version) == version, package


@pytest.mark.parametrize("name", INPUTS)
def test_every_entry_has_hashes_and_no_address(name: str) -> None:
    for requirement, hashes in locked(name):
        assert hashes, requirement.name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes)
        assert requirement.url is None
    assert "://" not in (ROOT / "requirements" / f"{name}.lock").read_text()


def test_setup_and_image_install_nothing_else() -> None:
    image = (ROOT / "deploy" / "Containerfile").read_text()
    setup = (ROOT / "tools" / "setup_venv.py").read_text()
    assert set(re.findall(r"requirements/(\w+)\.lock", image)) == {"run", "build"}
    installs = [line for line in image.splitlines() if "pip install" in line]
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert "--require-hashes" in setup
