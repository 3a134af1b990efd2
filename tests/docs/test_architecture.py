"""docs/architecture.md shows the packages and the three main flows as they are in the code."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.docs.pages import ROOT
from tools.reference.packages import CONTENTS, layers

SOURCE = ROOT / "src" / "kohort"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FLOWS = ("apply → Ready", "resize → cgroup", "step → weight")
_STEP = re.compile(r"^\| (\d+) \| `([\w/.]+)` \| (.+?) \| .+ \|$", re.MULTILINE)


class Step(NamedTuple):
    number: int
    path: str
    reached_by: str


def steps(flow: str) -> list[Step]:
    section = PAGE.split(f"### {flow}\n", 1)[1].split("\n##", 1)[0]
    return [Step(int(number), path, reached) for number, path, reached in _STEP.findall(section)]


def module_of(path: str) -> str:
    return "kohort." + path.removesuffix(".py").replace("/", ".")


@cache
def imports_of(path: str) -> frozenset[str]:
    """Modules that a file imports, and names of modules (`kohort.kube.resources.PODS`), also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((SOURCE / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return frozenset(found)


def is_reached(step: Step, earlier: dict[int, str]) -> bool:
    if step.reached_by == "start":
        return step.number == 1
    if step.reached_by == "webhook":
        return "kohort.admission.reviews" in imports_of(step.path)
    if match := re.fullmatch(r"called by (\d+)", step.reached_by):
        return module_of(step.path) in imports_of(earlier[int(match[1])])
    if match := re.fullmatch(r"watches ([A-Z_]+)", step.reached_by):
        return f"kohort.kube.resources.{match[1]}" in imports_of(step.path)
    if match := re.fullmatch(r"with (\d+) through `([\w/.]+)`", step.reached_by):
        users = imports_of(step.path), imports_of(earlier[int(match[1])])
        return all(module_of(match[2]) in used for used in users)
    return False


@pytest.mark.parametrize("flow", FLOWS)
def test_a_flow_goes_through_the_files_that_the_page_names(flow: str) -> None:
    found = steps(flow)
    assert [step.number for step in found] == list(range(1, len(found) + 1))
    assert len(found) >= 10
    assert [step.path for step in found if not (SOURCE / step.path).is_file()] == []
    paths: dict[int, str] = {}
    broken = []
    for step in found:
        if not is_reached(step, paths):
            broken.append(f"{step.number} {step.path}: {step.reached_by}")
        paths[step.number] = step.path
    assert broken == []


@pytest.mark.parametrize(
    ("path", "reached_by"),
    [
        ("node/cgroups.py", "called by 1"),
        ("node/cgroups.py", "watches ROLLOUTS"),
        ("node/cgroups.py", "webhook"),
        ("node/cgroups.py", "with 1 through `rollouts/workloads/model.py`"),
        ("node/cgroups.py", "magic"),
        ("node/cgroups.py", "start"),
    ],
)
def test_a_link_that_is_not_in_the_code_is_found(path: str, reached_by: str) -> None:
    assert not is_reached(Step(2, path, reached_by), {1: "groups/status.py"})


def test_the_picture_shows_every_package_in_its_layer() -> None:
    packages = {one.parent.name for one in SOURCE.glob("*/__init__.py")}
    modules = {one.stem for one in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert set(CONTENTS) == packages | modules == {name for layer in layers() for name in layer}
    picture = (ROOT / "docs" / "packages.svg").read_text()
    heights = [
        {int(y) for y in re.findall(rf'y="(\d+)"[^>]*font-weight="bold">(?:{"|".join(layer)})<', picture)}
        for layer in layers()
    ]
    assert [len(one) for one in heights] == [1] * len(heights)
    assert heights == sorted(heights, key=min)


def test_the_layers_in_words_are_those_of_the_import_contract() -> None:
    (block,) = [
        one for one in re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if one.startswith("cli\n")
    ]
    assert [[name.strip() for name in line.split("|")] for line in block.splitlines()] == layers()


def is_a_file(name: str) -> bool:
    """A path below src/kohort or the repository, or the last part of such a path."""
    return any(SOURCE.glob(name)) or any(ROOT.glob(name)) or any(SOURCE.rglob(name))


@pytest.mark.parametrize(
    "page", ["architecture.md", "conformance.md", "performance.md", "traceability.md", "dependencies.md"]
)
def test_every_file_that_a_page_for_developers_names_exists(page: str) -> None:
    names = set(re.findall(r"`([\w/*.-]+\.py)`", (ROOT / "docs" / page).read_text()))
    assert [name for name in names if not is_a_file(name)] == []


def test_every_question_leads_to_a_file_or_folder() -> None:
    rows = re.findall(r"^\| [^|]+\? [^|]*\| (.+) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 40
    named = [re.findall(r"`([\w/*.]+)`", row) for row in rows]
    assert all(named)
    assert [path for paths in named for path in paths if not (is_a_file(path) or (SOURCE / path).is_dir())] == []


def test_every_module_that_a_folder_row_names_exists() -> None:
    """What looks like the name of a module is one, or a folder, of the folder in the first column."""
    wrong = []
    for folders, text in re.findall(r"^\| (`[\w/]+`(?:, `[\w/.]+`)*) \| (.+) \|$", PAGE, re.MULTILINE):
        for folder in re.findall(r"`([\w/]+)`", folders):
            place = SOURCE / folder
            if not place.is_dir():
                continue
            for name in re.findall(r"`([a-z][a-z0-9_]+)`", text):
                known = (place / f"{name}.py").exists() or (place / name).is_dir() or (SOURCE / name).exists()
                if not known and not any(place.rglob(f"{name}.py")):
                    wrong.append(f"{folder}: {name}")
    assert wrong == []


def test_the_version_is_written_in_one_place() -> None:
    """The site takes it from pyproject.toml."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version not in (ROOT / "mkdocs.yml").read_text()


def test_every_shared_rule_is_in_a_table_of_questions() -> None:
    modules = {one.name for one in (SOURCE / "rules").glob("*.py")} - {"__init__.py"}
    questions = "\n".join(re.findall(r"^\| .+\? \| .+ \|$", PAGE, re.MULTILINE))
    assert sorted(name for name in modules if f"`rules/{name}`" not in questions) == []


# Docstrings of packages are maps

PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
_NAMED_IN_DOCSTRING = re.compile(r"`([a-z][a-z_]*)(?:\.py)?`")
OTHER_PROGRAMS = frozenset({"kohort", "grpcio", "protobuf"})


def known_names(package: Path) -> set[str]:
    """Modules of a package and what they define, packages of kohort, and its commands."""
    found = {path.stem for path in package.rglob("*.py")} | {path.name for path in package.rglob("*") if path.is_dir()}
    found |= {path.name for path in SOURCE.iterdir()} | {path.stem for path in (SOURCE / "cli").glob("*.py")}
    for path in package.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
    siblings = {path.name for path in package.parent.iterdir() if path.is_dir()}
    return found | siblings | OTHER_PROGRAMS


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_modules_that_the_docstring_of_a_package_names_exist(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    named = set(_NAMED_IN_DOCSTRING.findall(docstring))
    assert named - known_names(package) == set()
