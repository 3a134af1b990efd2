"""Build Helm for the tests of the chart, once, into a cache folder.

    python3 tools/helm/build.py            prints the path of the program

A Helm that is installed is taken as it is.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "3.19.5"
HERE = Path(__file__).resolve().parent


def find() -> Path | None:
    installed = shutil.which("helm")
    if installed is not None:
        return Path(installed)
    return _cached() if _cached().is_file() else None


def build() -> Path:
    """The program, compiled if need be. RuntimeError when that cannot be done."""
    found = find()
    if found is not None:
        return found
    if shutil.which("go") is None:
        raise RuntimeError("neither Helm nor Go to build it with is here")
    target = _cached()
    target.parent.mkdir(parents=True, exist_ok=True)
    print("building Helm (once)", file=sys.stderr, flush=True)
    partial = target.with_name(".helm")
    command = ["go", "build", "-ldflags", "-s -w", "-o", str(partial), "helm.sh/helm/v3/cmd/helm"]
    subprocess.run(command, cwd=HERE, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    partial.rename(target)
    return target


def _cached() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "kohort" / f"helm-{VERSION}" / "helm"


if __name__ == "__main__":
    try:
        print(build())
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"Helm could not be built: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
