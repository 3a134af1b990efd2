"""Build Helm for the tests of the chart, once, into a cache folder.

    python3 -m tools.helm.build            prints the path of the program

A Helm that is installed is taken as it is.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tools.go_programs import cache_folder, compile_once

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
    return compile_once(_cached(), HERE, "build", "-ldflags", "-s -w", package="helm.sh/helm/v3/cmd/helm")


def _cached() -> Path:
    return cache_folder(f"helm-{VERSION}") / "helm"


if __name__ == "__main__":
    try:
        print(build())
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"Helm could not be built: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
