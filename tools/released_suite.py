"""A test suite of a released operator, compiled once from the Go module proxy into the cache folder."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.go_programs import go, only_builder
from tools.released_operator import Released

END_TO_END: Final = "test/e2e"
DATA: Final = "test_data"
"""What a suite reads from the folder that it is started in, where it has such a folder."""


def suite_program(released: Released, suite: str = END_TO_END) -> Path:
    name = Path(suite).name
    return released.home / name / f"{name}.test"


def build_suite(released: Released, suite: str = END_TO_END, start: Path | None = None) -> Path:
    """The suite in the folder `suite` of the module, as a program. `start` takes the place of its file of the same
    name. The sources of a module are read-only, and Go wants to write beside them."""
    program = suite_program(released, suite)
    if program.is_file():
        return program
    if shutil.which("go") is None:
        raise RuntimeError("no Go to build the suite with")
    with only_builder(program.parent):
        return program if program.is_file() else _build(released, suite, start, program)


def _build(released: Released, suite: str, start: Path | None, program: Path) -> Path:
    print(f"building {suite} of {released.name} {released.version} (once)", file=sys.stderr, flush=True)
    found = go(released.source, "list", "-m", "-f", "{{.Dir}}", released.module)
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "module"
        shutil.copytree(found.strip(), sources, copy_function=shutil.copyfile)
        for path in (sources, *sources.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        if start is not None:
            shutil.copyfile(start, sources / suite / start.name)
        partial = program.with_name(f".{program.name}")
        subprocess.run(["go", "test", "-c", "-o", str(partial), f"./{suite}"], cwd=sources, check=True)
        if (sources / suite / DATA).is_dir():
            shutil.copytree(sources / suite / DATA, program.parent / DATA, dirs_exist_ok=True)
        partial.rename(program)
    return program
