"""Build a released LeaderWorkerSet manager for takeover tests and benchmarks, once, into a cache folder.

    python3 tools/lws/build.py            prints the path of the program

What it is installed with is taken from the module that it was built from (`installation()`, `definitions()`).
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


def installation() -> Path:
    """The folder with what that release is installed with, for kustomize."""
    return program().parent / "config"


def definitions() -> Path:
    """The folder with the definitions as that release ships them."""
    return installation() / "crd" / "bases"


def find() -> Path | None:
    return program() if program().is_file() and definitions().is_dir() else None


def build() -> Path:
    """The manager, compiled if need be. RuntimeError when that cannot be done."""
    found = find()
    if found is not None:
        return found
    if shutil.which("go") is None:
        raise RuntimeError("no Go to build the LeaderWorkerSet manager with")
    program().parent.mkdir(parents=True, exist_ok=True)
    if not program().is_file():
        print("building the LeaderWorkerSet manager (once)", file=sys.stderr, flush=True)
        partial = program().with_name(".manager")
        _go("build", "-ldflags", "-s -w", "-o", str(partial), "sigs.k8s.io/lws/cmd")
        partial.rename(program())
    module = Path(_go("list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/lws").strip())
    shutil.copytree(module / "config", installation(), copy_function=shutil.copyfile, dirs_exist_ok=True)
    # The folders of a module are read-only; these must not be, or nobody could remove them.
    for path in (installation(), *installation().rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return program()


def _go(*words: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(["go", *words], cwd=HERE, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


if __name__ == "__main__":
    try:
        print(build())
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the LeaderWorkerSet manager could not be built: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
