"""What can be released, and the parts of a release that need no network. The whole is made in tests/image."""

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import msgspec
import pytest
import yaml
from tools.image.sbom import Component, render
from tools.release.build import checksums, package_chart, validate_contents
from tools.release.version import Commit, ReleaseError, Written, read_commit, read_written, released_version

from kohort import __version__
from kohort.install import options

ROOT = Path(__file__).parents[2]
COMMIT = Commit("0123456789abcdef", 0, ("v1.2.3",), ())
PLACES = {"pyproject.toml": "1.2.3", "deploy/chart/Chart.yaml (version)": "1.2.3"}
WRITTEN = Written(PLACES, ("Unreleased", "1.2.3 (2026-01-01)", "1.2.2"))


@pytest.mark.parametrize("tags", [("v1.2.3",), ("v1.2.3", "nightly")])
def test_the_tag_is_the_version(tags: tuple[str, ...]) -> None:
    commit = Commit("abc", 0, tags, ())
    assert released_version(commit, WRITTEN) == "1.2.3"


def test_a_candidate_can_be_released() -> None:
    written = Written({"pyproject.toml": "1.2.3rc1"}, ("1.2.3rc1",))
    assert released_version(Commit("abc", 0, ("v1.2.3rc1",), ()), written) == "1.2.3rc1"


@pytest.mark.parametrize(
    ("commit", "written", "words"),
    [
        (Commit("abc", 0, ("v1.2.3",), ("a.py", "b.py")), WRITTEN, ["not committed: a.py, b.py; commit or remove"]),
        (Commit("0123456789abcdef", 0, (), ()), WRITTEN, ["0123456789ab has no tag", "git tag v1.2.3"]),
        (Commit("abc", 0, ("nightly",), ()), WRITTEN, ["no tag such as v0.1.0"]),
        (Commit("abc", 0, ("v1.2.3", "v1.2.4"), ()), WRITTEN, ["has the tags v1.2.3, v1.2.4"]),
        (
            COMMIT,
            Written({**PLACES, "pyproject.toml": "1.2.2"}, WRITTEN.changelog),
            ["pyproject.toml says 1.2.2, the tag v1.2.3"],
        ),
        (COMMIT, Written(PLACES, ("Unreleased", "1.2.30")), ['CHANGELOG.md has no heading "## 1.2.3"']),
        (Commit("abc", 0, (), ("a.py",)), WRITTEN, ["not committed: a.py", "has no tag"]),
        (COMMIT, Written({"x": "1", "y": "2"}, ()), ["x says 1", "y says 2", "no heading"]),
    ],
)
def test_what_cannot_be_released_is_refused_with_all_reasons(
    commit: Commit, written: Written, words: list[str]
) -> None:
    with pytest.raises(ReleaseError) as refused:
        released_version(commit, written)
    assert [word for word in words if word not in str(refused.value)] == []


def test_the_versions_in_this_repository_agree() -> None:
    assert set(read_written(ROOT).places.values()) == {__version__}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with the files that carry the version."""
    for name in ("pyproject.toml", "CHANGELOG.md", "deploy/chart/Chart.yaml", "src/kohort/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {__version__} (2026-01-01)\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "all")
    return tmp_path


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True)


def test_commit_and_files_are_read_from_git(repository: Path) -> None:
    with pytest.raises(ReleaseError, match="no tag"):
        released_version(read_commit(repository), read_written(repository))
    _git(repository, "tag", f"v{__version__}")
    assert released_version(read_commit(repository), read_written(repository)) == __version__
    (repository / "new file").write_text("x")
    with pytest.raises(ReleaseError, match="new file"):
        released_version(read_commit(repository), read_written(repository))


def test_the_command_refuses_before_it_builds_anything(tmp_path: Path) -> None:
    """This commit is either not tagged or the tree has changes; or both, or the output is complete."""
    if not read_commit(ROOT).changed and f"v{__version__}" in read_commit(ROOT).tags:
        pytest.skip("this commit can be released")
    command = [sys.executable, "-m", "tools.release", "--output", str(tmp_path / "release")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("no release:\n- ")
    assert not (tmp_path / "release").exists()


def test_the_chart_is_packed_as_helm_would_and_names_the_image_by_digest() -> None:
    packed = package_chart("sha256:abc")
    assert packed == package_chart("sha256:abc")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        names = {member.name for member in archive.getmembers() if member.isfile()}
        manager = archive.extractfile("kohort/templates/manager.yaml")
        description = archive.extractfile("kohort/Chart.yaml")
        assert manager is not None and description is not None
        assert "@sha256:abc" in manager.read().decode()
        assert yaml.safe_load(description.read())["version"] == __version__
    chart = ROOT / "deploy" / "chart"
    assert names == {f"kohort/{path.relative_to(chart)}" for path in chart.rglob("*") if path.is_file()}


def test_sums_are_what_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"2")
    (tmp_path / "a").write_bytes(b"1")
    assert checksums(tmp_path).splitlines() == [
        f"{hashlib.sha256(b'1').hexdigest()}  a",
        f"{hashlib.sha256(b'2').hexdigest()}  b",
    ]


def test_the_list_of_contents_is_checked_against_the_schema() -> None:
    digest = hashlib.sha256(b"").hexdigest()
    parts = [Component("pypi", "a", "1", digest), Component("deb", "libc6", "2.36-9", digest, "amd64")]
    document = render("kohort", "1", 0, parts)
    validate_contents(document)
    with pytest.raises(ReleaseError, match="not valid CycloneDX"):
        validate_contents(json.dumps({**json.loads(document), "components": [{"name": "a"}]}))


def test_a_package_with_a_digest_installs_that_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that a release adds is what the package reads."""
    assert options.released_digest() == ""
    assert options.IMAGE == options.TAGGED
    monkeypatch.setattr("kohort.install.options.resources.files", lambda _: tmp_path)
    (tmp_path / options.DIGEST_FILE).write_text("sha256:abc\n")
    assert options.released_digest() == "sha256:abc"
    assert options.with_digest("k:1", "sha256:abc") == "k:1@sha256:abc"
    assert msgspec.structs.replace(options.InstallOptions(), image="mine").image == "mine"
