"""Installs what the tests with real containers need from Debian's packages, if it is missing and may be installed.

`python -m tools.container_packages` ends with 0 when the tests can run, and otherwise says why they cannot. Daemons
that packages would start are not started: the tests run their own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

PROGRAMS: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "docker-registry": "docker-registry",
    "skopeo": "skopeo",
    "busybox": "busybox-static",
    "htpasswd": "apache2-utils",
    "ip": "iproute2",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}
"""Programs that the tests use, and the Debian package that has each."""
POLICY: Final = Path("/usr/sbin/policy-rc.d")


def missing() -> str:
    """What keeps the tests with real containers from running here, empty if nothing does."""
    if os.geteuid() != 0:
        return "tests with real containers need root"
    packages = _missing_packages()
    return f"tests with real containers need packages: apt-get install {' '.join(packages)}" if packages else ""


def _missing_packages() -> list[str]:
    return sorted({package for program, package in PROGRAMS.items() if shutil.which(program) is None})


def install() -> None:
    """Nothing happens without root or apt-get."""
    packages = _missing_packages()
    if not packages or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    forbidding = not POLICY.exists()
    if forbidding:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(["apt-get", "-qq", *words], check=False, env=environment, stdout=subprocess.DEVNULL)
    finally:
        if forbidding:
            POLICY.unlink()


if __name__ == "__main__":
    install()
    if problem := missing():
        print(problem, file=sys.stderr)
        sys.exit(1)
