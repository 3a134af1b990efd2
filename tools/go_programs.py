"""Programs of other projects, compiled once from the Go module proxy into a cache folder.

Several test tiers run side by side and need the same programs: one of them compiles, the others wait for it.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def cache_folder(name: str) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "kohort" / name


@contextlib.contextmanager
def only_builder(folder: Path) -> Iterator[None]:
    """One process at a time is in here for a folder, which is made. The lock ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def go(source: Path, *words: str) -> str:
    """What Go prints, in the folder with the go.mod that pins versions."""
    environment = {**os.environ, "CGO_ENABLED": "0"}
    return subprocess.run(
        ["go", *words], cwd=source, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def compile_once(target: Path, source: Path, *command: str, package: str) -> Path:
    """The program `target`, made by `go COMMAND -o TARGET PACKAGE` if need be. RuntimeError without Go."""
    if target.is_file():
        return target
    if shutil.which("go") is None:
        raise RuntimeError(f"{target.name} is not built, and Go is not here to build it with")
    with only_builder(target.parent):
        if not target.is_file():
            print(f"building {target.name} of {target.parent.name} (once)", file=sys.stderr, flush=True)
            partial = target.with_name(f".{target.name}")
            go(source, *command, "-o", str(partial), package)
            partial.rename(target)
    return target
