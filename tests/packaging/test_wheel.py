"""What a user gets from the wheel alone: no checkout, no extras, an empty home."""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(ROOT), home=target
    )
    (found,) = target.glob("kohort-*.whl")
    return found


@pytest.fixture(scope="module")
def kohort(wheel: Path) -> Iterator[Path]:
    """The command of a fresh environment; in a short path, because the demo's sockets have short names."""
    with tempfile.TemporaryDirectory(prefix="kw-", dir="/tmp") as directory:
        environment = Path(directory) / "venv"
        run(sys.executable, "-m", "venv", str(environment), home=Path(directory))
        run(str(environment / "bin" / "pip"), "install", "--quiet", str(wheel), home=Path(directory))
        yield environment / "bin" / "kohort"


def run(*command: str, home: Path, timeout: float = 400) -> str:
    """What the command prints. Nothing of this environment's Python or of the user's own files reaches it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "XDG_", "KOHORT"))}
    environment = {**kept, "HOME": str(home)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, cwd=home, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_and_the_examples_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"kohort"}
    examples = {Path(name).name for name in names if name.startswith("kohort/examples/")}
    assert examples == {path.name for path in (ROOT / "examples").iterdir()}


def test_the_demo_runs_to_its_end(kohort: Path, tmp_path: Path) -> None:
    told = run(str(kohort), "demo", "--patience", "280", home=tmp_path)
    assert "everything worked" in told
    assert "Event loop is closed" not in told


def test_the_examples_are_installed(kohort: Path, tmp_path: Path) -> None:
    listed = [line.split()[0] for line in run(str(kohort), "examples", home=tmp_path).splitlines()]
    assert listed == sorted(path.stem for path in (ROOT / "examples").iterdir())
    assert run(str(kohort), "examples", "llm", home=tmp_path) == (ROOT / "examples" / "llm.yaml").read_text()
