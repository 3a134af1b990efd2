"""A released operator as a program, compiled once from the Go module proxy into a cache folder.

Beside the program lie the folders of its module that it is installed with, for kustomize, or needs at run time.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Released:
    name: str
    version: str
    module: str
    package: str
    folders: tuple[str, ...]
    source: Path
    """The folder with the go.mod that pins it."""

    @property
    def home(self) -> Path:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return root / "kohort" / f"{self.name}-{self.version}"

    @property
    def program(self) -> Path:
        return self.home / "manager"

    def folder(self, name: str) -> Path:
        return self.home / name

    def find(self) -> Path | None:
        complete = self.program.is_file() and all(self.folder(name).is_dir() for name in self.folders)
        return self.program if complete else None

    def build(self) -> Path:
        """The program, compiled if need be. RuntimeError when that cannot be done."""
        found = self.find()
        if found is not None:
            return found
        if shutil.which("go") is None:
            raise RuntimeError(f"no Go to build {self.name} {self.version} with")
        self.home.mkdir(parents=True, exist_ok=True)
        if not self.program.is_file():
            print(f"building {self.name} {self.version} (once)", file=sys.stderr, flush=True)
            partial = self.program.with_name(".manager")
            self._go("build", "-ldflags", "-s -w", "-o", str(partial), self.package)
            partial.rename(self.program)
        module = Path(self._go("list", "-m", "-f", "{{.Dir}}", self.module).strip())
        for name in self.folders:
            self._copy(module / name, self.folder(name))
        return self.program

    def _go(self, *words: str) -> str:
        environment = {**os.environ, "CGO_ENABLED": "0"}
        command = ["go", *words]
        return subprocess.run(
            command, cwd=self.source, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    def _copy(self, source: Path, target: Path) -> None:
        shutil.copytree(source, target, copy_function=shutil.copyfile, dirs_exist_ok=True)
        # The folders of a module are read-only; these must not be, or they could not be removed.
        for path in (target, *target.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def main(released: Released) -> None:
    try:
        print(released.build())
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"{released.name} could not be built: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
