"""The files of a release."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tools.image import build as image
from tools.image.files import Files
from tools.release.version import Commit, ReleaseError, read_commit, read_written, released_version

from kohort.install import chart
from kohort.install.manifests import manifests
from kohort.install.options import DIGEST_FILE, TAGGED, InstallOptions, with_digest
from kohort.install.rendering import render

CHECKSUMS: Final = "SHA256SUMS"


def release(root: Path, output: Path, base: Path | None = None) -> list[Path]:
    """Checks first, then builds everything into the folder, which is replaced."""
    commit = read_commit(root)
    version = released_version(commit, read_written(root))
    with tempfile.TemporaryDirectory(prefix="kohort-release-") as directory:
        source, made = Path(directory) / f"kohort-{version}", Path(directory) / "release"
        made.mkdir()
        export(root, commit, source)
        _make_image(source, made, commit, version, base)
        digest = (made / "image.digest").read_text().strip()
        (source / "src" / "kohort" / "install" / DIGEST_FILE).write_text(f"{digest}\n")
        build_package(source, made, commit.time)
        (made / f"kohort-{version}.tgz").write_bytes(package_chart(digest))
        options = InstallOptions(image=with_digest(TAGGED, digest))
        (made / f"kohort-{version}-manifests.yaml").write_text(render(manifests(options)))
        (made / CHECKSUMS).write_text(checksums(made))
        shutil.rmtree(output, ignore_errors=True)
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(made, output)
    return sorted(output.iterdir())


def export(root: Path, commit: Commit, target: Path) -> None:
    """The files of the commit, and no others."""
    archive = subprocess.run(["git", "archive", commit.revision], cwd=root, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(target, filter="data")


def build_package(source: Path, target: Path, time: int) -> None:
    """Wheel and sdist."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def package_chart(digest: str) -> bytes:
    """What `helm package` would make of the chart, but the same every time; it names the image by digest."""
    files = Files()
    for path, content in chart.files(digest).items():
        files.add(f"kohort/{path}", content.encode())
    return files.layer().compressed


def validate_contents(document: str) -> None:
    problem = JsonStrictValidator(SchemaVersion.V1_5).validate_str(document)
    if problem is not None:
        raise ReleaseError(f"the list of contents is not valid CycloneDX 1.5: {problem}")


def checksums(folder: Path) -> str:
    """As `sha256sum --check` reads it."""
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir()))
    return "".join(lines)


def _make_image(source: Path, made: Path, commit: Commit, version: str, base: Path | None) -> None:
    try:
        built = image.build(source, base=base, origin=image.Origin(commit.revision, commit.time))
    except image.ImageError as problem:
        raise ReleaseError(f"no image: {problem}") from problem
    image.write(built, made)
    shutil.rmtree(made / "image")  # the archive has the same
    contents = made / f"kohort-{version}.cdx.json"
    (made / "image.cdx.json").rename(contents)
    validate_contents(contents.read_text())
