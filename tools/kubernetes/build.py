"""Build the real control plane for tests and benchmarks, once, into a cache folder.

    python3 tools/kubernetes/build.py            prints the folder with etcd, kube-apiserver, ..., kubectl
    python3 tools/kubernetes/build.py kubelet    prints the path of kubelet, which only `make twin` and a benchmark need

Binaries named by KUBEBUILDER_ASSETS are taken as they are. Otherwise Go compiles them from its module proxy: about six
minutes on two cores, the first time.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "kohort" / f"kubernetes-{VERSION}"


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
    folder = cache_folder()
    program = folder / name
    if program.is_file():
        return program
    if shutil.which("go") is None:
        raise RuntimeError(
            f"{name} is not built, and Go is not here: install Go, or point KUBEBUILDER_ASSETS to the control plane"
        )
    folder.mkdir(parents=True, exist_ok=True)
    print(f"building {name} (once)", file=sys.stderr, flush=True)
    partial = folder / f".{name}"
    command = ["go", "build", "-ldflags", _flags(), "-o", str(partial), package]
    subprocess.run(command, cwd=HERE, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    return partial.rename(program)


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
        raise SystemExit(1) from None
