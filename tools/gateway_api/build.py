"""The conformance suite of the Gateway API, and the echo server that it sends requests to.

    python3 -m tools.gateway_api.build            prints the path of the suite

Both are compiled once from the Go module proxy into the cache folder; the definitions of the Gateway API lie beside
them, as the same release ships them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

VERSION: Final = "1.6.3"
SOURCE: Final = Path(__file__).resolve().parent
_ECHO: Final = "sigs.k8s.io/gateway-api/conformance/echo-basic"
_API: Final = "sigs.k8s.io/gateway-api"


def home() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "kohort" / f"gateway-api-{VERSION}"


def suite() -> Path:
    return home() / "conformance.test"


def echo_server() -> Path:
    return home() / "echo-basic"


def definitions() -> Path:
    """The folder with the definitions of the standard channel."""
    return home() / "crd"


def build() -> Path:
    """The suite as a program, compiled if need be. RuntimeError when that cannot be done."""
    if suite().is_file() and echo_server().is_file() and definitions().is_dir():
        return suite()
    if shutil.which("go") is None:
        raise RuntimeError("no Go to build the conformance suite with")
    home().mkdir(parents=True, exist_ok=True)
    print(f"building the conformance suite of the Gateway API {VERSION} (once)", file=sys.stderr, flush=True)
    _compile(echo_server(), "build", "-ldflags", "-s -w", _ECHO)
    module = Path(_go("list", "-m", "-f", "{{.Dir}}", _API).strip())
    definitions().mkdir(exist_ok=True)
    for path in (module / "config" / "crd" / "standard").glob("gateway.networking.k8s.io_*s.yaml"):
        if "vap_" not in path.name:
            shutil.copyfile(path, definitions() / path.name)
    _compile(suite(), "test", "-c", "-ldflags", "-s -w", ".")
    return suite()


def _compile(target: Path, command: str, *words: str) -> None:
    partial = target.with_name(f".{target.name}")
    *options, package = words
    _go(command, *options, "-o", str(partial), package)
    partial.rename(target)


def _go(*words: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0"}
    return subprocess.run(
        ["go", *words], cwd=SOURCE, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    try:
        print(build())
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the conformance suite could not be built: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
