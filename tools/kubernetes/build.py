"""Build the real control plane for tests and benchmarks, once, into a cache folder.

    python3 -m tools.kubernetes.build            prints the folder with etcd, kube-apiserver, ..., kubectl
    python3 -m tools.kubernetes.build kubelet    prints the path of kubelet, which only `make twin` and a benchmark need

Binaries named by KUBEBUILDER_ASSETS are taken as they are. Otherwise Go compiles them from its module proxy: about six
minutes on two cores, the first time.
"""

import os
import subprocess
import sys
from pathlib import Path

from tools import go_programs
from tools.go_programs import compile_once

VERSION = "1.36.4"
HERE = Path(__file__).resolve().parent
PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
KUBELET = "k8s.io/kubernetes/cmd/kubelet"


def cache_folder() -> Path:
    return go_programs.cache_folder(f"kubernetes-{VERSION}")


def find() -> Path | None:
    """The folder with all programs, if there is one."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    for folder in ([Path(given)] if given else []) + [cache_folder()]:
        if all((folder / name).is_file() for name in PROGRAMS):
            return folder
    return None


def find_kubelet() -> Path | None:
    """The path of kubelet, if it was built."""
    program = cache_folder() / "kubelet"
    return program if program.is_file() else None


def build() -> Path:
    """The folder with all programs, compiled if need be. RuntimeError when that cannot be done."""
    found = find()
    if found is not None:
        return found
    for name, package in PROGRAMS.items():
        _compile(name, package)
    return cache_folder()


def build_kubelet() -> Path:
    """The path of kubelet, compiled if need be. RuntimeError when that cannot be done."""
    return find_kubelet() or _compile("kubelet", KUBELET)


def _compile(name: str, package: str) -> Path:
    return compile_once(cache_folder() / name, HERE, "build", "-ldflags", _flags(), package=package)


def _flags() -> str:
    """Binaries built from modules do not know their version; clients and version checks want it."""
    values = {
        "k8s.io/component-base/version.gitVersion": f"v{VERSION}",
        "k8s.io/component-base/version.gitMajor": VERSION.split(".")[0],
        "k8s.io/component-base/version.gitMinor": VERSION.split(".")[1],
        "k8s.io/component-base/version.gitTreeState": "clean",
    }
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())])


if __name__ == "__main__":
    try:
        print(build_kubelet() if sys.argv[1:] == ["kubelet"] else build())
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the control plane could not be built: {problem}", file=sys.stderr)
        print("KUBEBUILDER_ASSETS may name a folder that has it", file=sys.stderr)
        raise SystemExit(1) from None
