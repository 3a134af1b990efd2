"""The conformance suite of the Gateway API, and the echo server that it sends requests to.

    python3 -m tools.gateway_api.build            prints the path of the suite

Both are compiled once from the Go module proxy into the cache folder; the definitions of the Gateway API lie beside
them, as the same release ships them.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.go_programs import cache_folder, compile_once, go, only_builder

VERSION: Final = "1.6.3"
SOURCE: Final = Path(__file__).resolve().parent
_ECHO: Final = "sigs.k8s.io/gateway-api/conformance/echo-basic"
_API: Final = "sigs.k8s.io/gateway-api"


def home() -> Path:
    return cache_folder(f"gateway-api-{VERSION}")


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
    compile_once(echo_server(), SOURCE, "build", "-ldflags", "-s -w", package=_ECHO)
    module = Path(go(SOURCE, "list", "-m", "-f", "{{.Dir}}", _API).strip())
    with only_builder(home()):
        definitions().mkdir(exist_ok=True)
        for path in (module / "config" / "crd" / "standard").glob("gateway.networking.k8s.io_*s.yaml"):
            if "vap_" not in path.name:
                shutil.copyfile(path, definitions() / path.name)
    return compile_once(suite(), SOURCE, "test", "-c", "-ldflags", "-s -w", package=".")


if __name__ == "__main__":
    try:
        print(build())
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the conformance suite could not be built: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
