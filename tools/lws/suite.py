"""LeaderWorkerSet's own end-to-end suite, run against kohort on its embedded cluster.

    python -m tools.lws.suite [arguments of the suite, such as -ginkgo.focus=surge]

The suite is compiled once from the Go module proxy into the cache folder. Its pods run on simulated nodes and take a
second to start: the suite looks for surge groups four times a second and would miss a roll without any delay. The
suite changes the size of sets that have no resizePolicy, so the cluster runs with `--default-resize-policy Recreate`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.lws.build import LWS

SUITE: Final = "./test/e2e"
CLUSTER: Final = (
    "--port",
    "0",
    "--simulated-nodes",
    "8",
    "--simulated-start",
    "1",
    "--default-resize-policy",
    "Recreate",
)


def suite_program() -> Path:
    return LWS.home / "e2e.test"


def build_suite() -> Path:
    """The suite as a program. The sources of a module are read-only, and Go wants to write beside them."""
    program = suite_program()
    if program.is_file():
        return program
    if shutil.which("go") is None:
        raise RuntimeError("no Go to build the suite with")
    LWS.home.mkdir(parents=True, exist_ok=True)
    print(f"building the suite of {LWS.name} {LWS.version} (once)", file=sys.stderr, flush=True)
    found = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", LWS.module],
        cwd=LWS.source,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "module"
        shutil.copytree(found.strip(), sources, copy_function=shutil.copyfile)
        for path in (sources, *sources.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        partial = program.with_name(".e2e.test")
        subprocess.run(["go", "test", "-c", "-o", str(partial), SUITE], cwd=sources, check=True)
        partial.rename(program)
    return program


def run_suite(arguments: list[str]) -> int:
    """The exit code of the suite, run against a cluster that exists for this run only."""
    program = build_suite()
    with tempfile.TemporaryDirectory() as folder:
        data = ["--data-dir", folder]
        kohort = str(Path(sys.executable).with_name("kohort"))
        subprocess.run([kohort, "up", *data, *CLUSTER, "--detach"], check=True, stdout=subprocess.DEVNULL)
        try:
            environment = {**os.environ, "KUBECONFIG": str(Path(folder) / "kubeconfig")}
            return subprocess.run([str(program), *arguments], env=environment, check=False).returncode
        finally:
            subprocess.run([kohort, "down", *data], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        raise SystemExit(run_suite(sys.argv[1:]))
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the suite could not be run: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
