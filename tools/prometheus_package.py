"""Installs Prometheus from Debian's packages for the tests of that source, if it is missing and may be installed.

`python -m tools.prometheus_package` ends with 0 when the tests can run. The daemon of the package is not started.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

POLICY: Final = Path("/usr/sbin/policy-rc.d")


def install() -> None:
    """Nothing happens without root or apt-get."""
    if shutil.which("prometheus") or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    forbidding = not POLICY.exists()
    if forbidding:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        for words in (["update"], ["install", "-y", "--no-install-recommends", "prometheus"]):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(["apt-get", "-qq", *words], check=False, env=environment, stdout=subprocess.DEVNULL)
    finally:
        if forbidding:
            POLICY.unlink()


if __name__ == "__main__":
    install()
    sys.exit(None if shutil.which("prometheus") else "prometheus is missing: apt-get install prometheus")
