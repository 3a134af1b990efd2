"""Programs of other projects are compiled once, also if several tiers ask for them at the same moment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.go_programs import compile_once

COMPILER = """#!/bin/sh
echo "$@" >>"$COMPILED"
while [ "$1" != -o ]; do shift; done
echo program >"$2"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where `go` notes how it is called, and writes what it is asked for."""
    program = tmp_path / "bin" / "go"
    program.parent.mkdir()
    program.write_text(COMPILER)
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COMPILED": str(tmp_path / "compiled"), "PYTHONPATH": os.getcwd()}


def test_of_several_builders_one_compiles_and_all_have_the_program(tmp_path: Path, environment: dict[str, str]) -> None:
    target = tmp_path / "cache" / "helm"
    call = (
        f"from pathlib import Path; from tools.go_programs import compile_once; "
        f"print(compile_once(Path({str(target)!r}), Path({str(tmp_path)!r}), 'build', package='example.com/helm'))"
    )
    builders = [
        subprocess.Popen([sys.executable, "-c", call], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [one.communicate()[0].strip() for one in builders] == [str(target)] * 4
    assert target.read_text() == "program\n"
    partial = target.with_name(".helm")
    assert (tmp_path / "compiled").read_text().splitlines() == [f"build -o {partial} example.com/helm"]


def test_without_go_it_is_said_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="helm is not built, and Go is not here to build it with"):
        compile_once(tmp_path / "helm", tmp_path, "build", package="example.com/helm")
