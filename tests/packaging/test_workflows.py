"""The workflows of the forge call targets of the Makefile that exist, and build nothing by themselves."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
BUILDERS = ("pip ", "pytest", "docker ", "buildah", "helm package", "python -m build")


def steps(path: Path) -> list[dict[str, str]]:
    jobs = yaml.safe_load(path.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_is_built_is_a_target(path: Path) -> None:
    commands = [step["run"] for step in steps(path) if "run" in step]
    called = [target for command in commands for target in re.findall(r"\bmake ([a-z-]+)(?:$|\n)", command)]
    assert called and set(called) <= TARGETS
    assert [command for command in commands if any(builder in command for builder in BUILDERS)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_have_a_version(path: Path) -> None:
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]) for step in steps(path) if "uses" in step)


def test_rights_are_named() -> None:
    assert [path.name for path in WORKFLOWS if "permissions" not in yaml.safe_load(path.read_text())] == []
    assert {path.stem for path in WORKFLOWS} == {"ci", "release"}
