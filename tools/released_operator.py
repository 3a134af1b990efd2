"""A released operator as a program, compiled once from the Go module proxy into a cache folder.

Beside the program lie the folders of its module that it is installed with, for kustomize, or needs at run time.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.go_programs import cache_folder, compile_once, go, only_builder


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
        return cache_folder(f"{self.name}-{self.version}")

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
        compile_once(self.program, self.source, "build", "-ldflags", "-s -w", package=self.package)
        module = Path(go(self.source, "list", "-m", "-f", "{{.Dir}}", self.module).strip())
        with only_builder(self.home):
            for name in self.folders:
                self._copy(module / name, self.folder(name))
        return self.program

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
