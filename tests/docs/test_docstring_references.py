"""Docstrings name modules and functions that exist: `plan.py`, `resize.pod_resize`, `stop_grace.StopReason`."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "kohort"
FILES = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}
MODULES = {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in FILES}
PACKAGES = {path.parent.name for path in SOURCE.rglob("__init__.py")} - {"kohort"}
OF_OTHERS = {"yaml.py", "conftest.py", "cel.bind"}
"""Files of users and of other projects, and functions of CEL."""
_IN_BACKTICKS = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"[\w/]+\.py")
_DOTTED = re.compile(r"[a-z_]+(?:\.[a-z_]+)*(?:\.\w+)")


def docstrings(path: Path) -> Iterator[str]:
    """Those of modules, classes and functions, and strings below constants and fields."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def is_reference(name: str) -> bool:
    """Whether a dotted name begins with a package or a module, not with a field of an object."""
    first = name.removeprefix("kohort.").partition(".")[0]
    return first in PACKAGES or ("_" in first and any(_ends(module, first) for module in MODULES))


def exists(name: str) -> bool:
    """Whether a dotted name is that of a module, or of something in a module, at most two levels deep."""
    parts = name.removeprefix("kohort.").split(".")
    for depth in range(min(3, len(parts))):
        module, inside = ".".join(parts[: len(parts) - depth]), parts[len(parts) - depth :]
        for found in MODULES:
            if _ends(found, module) and (not inside or inside[0] in names_in(found)):
                return True
    return False


@cache
def names_in(module: str) -> frozenset[str]:
    path = SOURCE / module.replace(".", "/")
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    nodes = list(ast.walk(tree))
    defined = {each.name for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    assigned = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    imported = {each.asname or each.name for each in nodes if isinstance(each, ast.alias)}
    return frozenset(defined | assigned | imported)


def _ends(path: str, end: str) -> bool:
    return path == end or path.endswith(f".{end}")


def test_files_and_modules_that_docstrings_name_exist() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        for name in {name for text in docstrings(path) for name in _IN_BACKTICKS.findall(text)} - OF_OTHERS:
            if _FILE.fullmatch(name):
                known = name in FILES or any(each.endswith(f"/{name}") for each in FILES) or (ROOT / name).is_file()
            else:
                known = not _DOTTED.fullmatch(name) or not is_reference(name) or exists(name)
            if not known:
                wrong.append(f"{path.relative_to(ROOT)}: `{name}`")
    assert wrong == []
