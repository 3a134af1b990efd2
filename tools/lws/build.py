"""Build a released LeaderWorkerSet manager for takeover tests and benchmarks, once, into a cache folder.

    python3 tools/lws/build.py            prints the path of the program

Its definitions are read from the module that it was built from (`definitions()`).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "0.9.0"
HERE = Path(__file__).resolve().parent


def program() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "kohort" / f"lws-{VERSION}" / "manager"


def find() -> Path | None:
    return program() if program().is_file() and definitions().is_dir() else None


def definitions() -> Path:
    """The folder with the definitions as that release ships them."""
    return program().parent / "definitions"


def build() -> Path:
    """The manager, compiled if need be. RuntimeError when that cannot be done."""
    found = find()
    if found is not None:
        return found
    if shutil.which("go") is None:
        raise RuntimeError("no Go to build the LeaderWorkerSet manager with")
    target = program()
    target.parent.mkdir(parents=True, exist_ok=True)
    print("building the LeaderWorkerSet manager (once)", file=sys.stderr, flush=True)
    partial = target.with_name(".manager")
    environment = {**os.environ, "CGO_ENABLED": "0"}
    command = ["go", "build", "-ldflags", "-s -w", "-o", str(partial), "sigs.k8s.io/lws/cmd"]
    subprocess.run(command, cwd=HERE, env=environment, check=True)
    where = ["go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/lws"]
    module = subprocess.run(where, cwd=HERE, env=environment, check=True, capture_output=True, text=True).stdout
    definitions().mkdir(exist_ok=True)
    for shipped in (Path(module.strip()) / "config" / "crd" / "bases").iterdir():
        (definitions() / shipped.name).write_bytes(shipped.read_bytes())
    partial.rename(target)
    return target


if __name__ == "__main__":
    try:
        print(build())
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the LeaderWorkerSet manager could not be built: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
