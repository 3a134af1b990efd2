"""Processes that kohort starts import its modules and libraries, whatever lies in the directory they are started in."""

import os
import subprocess
from pathlib import Path

from tests.children import environment
from tests.docs.pages import ROOT

from kohort.rules.python_command import python_command


def test_files_of_the_current_directory_are_not_imported(tmp_path: Path) -> None:
    for name in ("json", "yaml", "msgspec", "click", "kohort"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current directory')\n")
    done = subprocess.run(
        python_command("kohort", "version"),
        cwd=tmp_path,
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_no_module_is_started_in_another_way() -> None:
    sources = (ROOT / "src" / "kohort").rglob("*.py")
    found = [str(path.relative_to(ROOT)) for path in sources if 'sys.executable, "-m"' in path.read_text()]
    assert found == []
