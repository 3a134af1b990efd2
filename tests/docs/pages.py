"""Runs the commands of a page as a reader would: in one shell, in the order of the page, with its own home directory.

Only blocks marked `sh` are commands; output is in unmarked blocks, and a test checks that no command is there. A line
that ends with `# exit N` must end with that code, every other line with 0. The sandbox differs from a reader's clone in
three ways: `make` only checks that its target exists, the cluster listens on any free port, and `kohort` is the one
under test.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
_TYPED = re.compile(r"^\s*(?:[$#] )?(?:kohort|kubectl|make|curl|git|pip|python3?|helm) [-a-z./]")
_EXIT = re.compile(r"^(?P<command>.*?)\s+# exit (?P<code>\d+)$")


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text())


def commands_outside_sh_blocks(page: Path) -> list[str]:
    """Lines of other blocks that look like commands."""
    other = re.findall(r"^```(?!sh$)[^\n]*\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [line for block in other for line in block.splitlines() if _TYPED.match(line)]


def kohort_commands_in_text(page: Path) -> list[str]:
    """Commands of kohort in the running text."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`(kohort [^`]+)`", prose)


def script(commands: list[str]) -> str:
    lines = ["set -eu"]
    for line in "\n".join(commands).splitlines():
        expected = _EXIT.match(line)
        if expected is None:
            lines.append(line)
        else:
            check = (
                f'[ "$code" = {expected["code"]} ] || {{ echo "exit code $code: {expected["command"]}" >&2; exit 1; }}'
            )
            lines.append(f"code=0; {expected['command']} || code=$?; {check}")
    return "\n".join(lines) + "\n"


def kubectl() -> str:
    """The path of kubectl; the test is skipped if this machine has none."""
    built = sorted((Path.home() / ".cache" / "kohort").glob("kubernetes-*/kubectl"))
    found = os.environ.get("KUBECTL") or (str(built[-1]) if built else shutil.which("kubectl"))
    if not found:
        pytest.skip("needs kubectl: install it, or name it in KUBECTL")
    return found


class Sandbox:
    """A folder that looks like a clone after `make setup`."""

    def __init__(self, folder: Path, kubectl: str) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        binaries = folder / ".venv" / "bin"
        binaries.mkdir(parents=True)
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "Makefile").symlink_to(ROOT / "Makefile")
        _program(binaries / "kohort", f'exec "{sys.executable}" -m kohort "$@"')
        _program(binaries / "kubectl-kohort", f'exec "{sys.executable}" -m kohort "$@"')
        completing = "from kohort.cli.completion import for_kubectl; for_kubectl()"
        _program(binaries / "kubectl_complete-kohort", f'exec "{sys.executable}" -c "{completing}" "$@"')
        _program(binaries / "python", f'exec "{sys.executable}" "$@"')
        _program(binaries / "kubectl", f'exec "{kubectl}" "$@"')
        _program(binaries / "make", f'exec /usr/bin/env PATH="$SYSTEM_PATH" make -n -C "{ROOT}" "$@" > /dev/null')
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "SYSTEM_PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "KOHORT_UP_PORT": "0",
        }

    def run(self, text: str, timeout: float = 280) -> "subprocess.CompletedProcess[str]":
        command = ["bash", "-c", text]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    def close(self) -> None:
        self.run("kohort down", timeout=120)


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
