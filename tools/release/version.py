"""Which version a commit is, and why it cannot be released.

The tag decides, and everything that repeats the version must agree with it. All problems are found at once.
"""

import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

TAG: Final = re.compile(r"v(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)")


class ReleaseError(Exception):
    """This cannot be released; the message says why and what to do."""


@dataclass(frozen=True)
class Commit:
    revision: str
    time: int
    tags: tuple[str, ...]
    changed: tuple[str, ...]
    """Files that differ from the commit, or that git does not know."""


@dataclass(frozen=True)
class Written:
    """The version as the files of the commit have it."""

    places: dict[str, str]
    changelog: tuple[str, ...]
    """The headings of the changelog."""


def released_version(commit: Commit, written: Written) -> str:
    """
    | tags of the commit | files differ | version in files | answer |
    |---|---|---|---|
    | v1.2.3 | no | 1.2.3 | 1.2.3 |
    | none, or several | | | refused: tag it, or remove one |
    | v1.2.3 | yes | | refused: commit or remove them |
    | v1.2.3 | no | 1.2.2 | refused: change the files or the tag |
    | v1.2.3 | no | 1.2.3, not in the changelog | refused: give the changes a heading |
    """
    problems = []
    if commit.changed:
        listed = ", ".join(commit.changed[:5]) + (", ..." if len(commit.changed) > 5 else "")
        problems.append(f"the tree has changes that are not committed: {listed}; commit or remove them")
    versions = [found[1] for tag in commit.tags if (found := TAG.fullmatch(tag))]
    if len(versions) != 1:
        held = f"has the tags {', '.join(commit.tags)}" if versions else "has no tag such as v0.1.0"
        problems.append(
            f"commit {commit.revision[:12]} {held}; a release needs exactly one: git tag v{_guess(written)}"
        )
        raise ReleaseError(_sentence(problems))
    (version,) = versions
    problems.extend(
        f"{place} says {value}, the tag v{version}; change the file, or tag the commit that says {version}"
        for place, value in written.places.items()
        if value != version
    )
    if not any(re.match(rf"{re.escape(version)}(\s|$)", heading) for heading in written.changelog):
        problems.append(f'CHANGELOG.md has no heading "## {version}"; give "Unreleased" the version and the date')
    if problems:
        raise ReleaseError(_sentence(problems))
    return version


def read_commit(root: Path) -> Commit:
    return Commit(
        revision=git(root, "rev-parse", "HEAD"),
        time=int(git(root, "log", "-1", "--format=%ct")),
        tags=tuple(git(root, "tag", "--points-at", "HEAD").split()),
        changed=tuple(line[3:] for line in git(root, "status", "--porcelain").splitlines()),
    )


def read_written(root: Path) -> Written:
    chart = yaml.safe_load((root / "deploy" / "chart" / "Chart.yaml").read_text())
    code = re.search(r'^__version__ = "(.+)"$', (root / "src" / "kohort" / "__init__.py").read_text(), re.MULTILINE)
    places = {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"],
        "src/kohort/__init__.py": code[1] if code else "nothing",
        "deploy/chart/Chart.yaml (version)": str(chart["version"]),
        "deploy/chart/Chart.yaml (appVersion)": str(chart["appVersion"]),
    }
    headings = re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    return Written(places, tuple(headings))


def git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as problem:
        raise ReleaseError(
            f"git {' '.join(words)} failed in {root}: a release is made from a git checkout"
        ) from problem
    return done.stdout.rstrip("\n")


def _guess(written: Written) -> str:
    return written.places["pyproject.toml"]


def _sentence(problems: list[str]) -> str:
    return "\n".join(f"- {one}" for one in problems)
