"""The end-to-end suite of Kruise Rollouts, run against kohort on its embedded cluster.

    python -m tools.rollouts.suite [arguments of the suite, such as -ginkgo.focus='Advanced Deployment']

The suite is compiled once from the Go module proxy into the cache folder. Its pods run on simulated nodes, on which an
image that does not exist is one whose pods never become ready.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.released_suite import build_suite
from tools.rollouts.build import ROLLOUTS

CLUSTER: Final = ("--port", "0", "--simulated-nodes", "8", "--simulated-start", "1")


def run_suite(arguments: list[str]) -> int:
    """The exit code of the suite, run against a cluster that exists for this run only."""
    program = build_suite(ROLLOUTS)
    with tempfile.TemporaryDirectory() as folder:
        data = ["--data-dir", folder]
        kohort = str(Path(sys.executable).with_name("kohort"))
        subprocess.run([kohort, "up", *data, *CLUSTER, "--detach"], check=True, stdout=subprocess.DEVNULL)
        try:
            environment = {**os.environ, "KUBECONFIG": str(Path(folder) / "kubeconfig")}
            return subprocess.run(
                [str(program), *arguments], env=environment, cwd=program.parent, check=False
            ).returncode
        finally:
            subprocess.run([kohort, "down", *data], check=False, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        raise SystemExit(run_suite(sys.argv[1:]))
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the suite could not be run: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
