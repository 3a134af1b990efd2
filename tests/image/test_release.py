"""`make release` from a tagged commit: every file, twice the same, and a package that names the image it came with."""

import hashlib
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from kohort import __version__
from kohort.install.options import TAGGED

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This commit with a heading in the changelog, tagged."""
    folder = tmp_path_factory.mktemp("release") / "kohort"
    _run(ROOT, "git", "clone", "-q", "--no-tags", str(ROOT), str(folder))
    changelog = folder / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## Unreleased", f"## {__version__} (2026-01-01)", 1))
    _run(folder, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qam", "release")
    _run(folder, "git", "tag", f"v{__version__}")
    return folder


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _command(output: Path, *words: str) -> list[str]:
    """The code of the repository, not that of this checkout."""
    return ["env", "PYTHONPATH=src:.", sys.executable, "-m", "tools.release", "--output", str(output), *words]


def test_a_release_is_complete_and_the_same_twice(repository: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    _run(repository, *_command(first))
    _run(repository, *_command(second, "--base", str(first / "base.lock")))
    assert (first / "SHA256SUMS").read_text() == (second / "SHA256SUMS").read_text()
    assert {path.name for path in first.iterdir()} == {
        *("SHA256SUMS", "base.lock", "image.digest"),
        *(f"kohort-{__version__}{ending}" for ending in (".tar.gz", ".tgz", ".cdx.json", "-manifests.yaml")),
        *(f"kohort-{__version__}{ending}" for ending in ("-py3-none-any.whl", "-image-amd64.tar")),
    }
    for line in (first / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((first / name).read_bytes()).hexdigest() == digest

    digest = (first / "image.digest").read_text().strip()
    with tarfile.open(first / f"kohort-{__version__}-image-amd64.tar") as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        assert json.load(index)["manifests"][0]["digest"] == digest
    with zipfile.ZipFile(first / f"kohort-{__version__}-py3-none-any.whl") as wheel:
        assert wheel.read("kohort/install/image.digest").decode().strip() == digest
    with tarfile.open(first / f"kohort-{__version__}.tar.gz") as archive:
        assert f"kohort-{__version__}/src/kohort/install/image.digest" in archive.getnames()
    objects = yaml.safe_load_all((first / f"kohort-{__version__}-manifests.yaml").read_text())
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"{TAGGED}@{digest}"


def test_a_changed_tree_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "left-behind").write_text("x")
    try:
        done = subprocess.run(_command(tmp_path / "x"), cwd=repository, capture_output=True, text=True, timeout=60)
    finally:
        (repository / "left-behind").unlink()
    assert done.returncode == 1
    assert "left-behind; commit or remove them" in done.stderr
