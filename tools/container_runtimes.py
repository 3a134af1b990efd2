"""Released container runtimes, compiled once from the Go module proxy into a cache folder.

`python -m tools.container_runtimes NAME VERSION` prints the folder of the programs, for tests that run with them:

    PATH=$(python -m tools.container_runtimes containerd 1.7.35):$PATH make test-containers
    PATH=$(python -m tools.container_runtimes crio 1.34.0):$PATH KOHORT_TEST_RUNTIME=crio make test-containers

Go is needed; for CRI-O also a C compiler and libseccomp-dev, and to run it conmon. Not all versions are in the proxy.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Build:
    module: str
    programs: tuple[str, ...]
    """Each is a package below `cmd` of the module."""
    tags: str
    cgo: bool = False
    c_programs: tuple[str, ...] = ()
    """Each has its sources in `NAME/src` of the module."""


CONTAINERD_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")


def description(name: str, version: str) -> Build:
    match name:
        case "containerd":
            major = version.partition(".")[0]
            module = "github.com/containerd/containerd" + (f"/v{major}" if int(major) > 1 else "")
            return Build(module, CONTAINERD_PROGRAMS, tags="no_btrfs,no_devmapper,no_zfs")
        case "crio":
            tags = "seccomp,containers_image_openpgp,exclude_graphdriver_btrfs"
            return Build("github.com/cri-o/cri-o", ("crio",), tags, cgo=True, c_programs=("pinns",))
    raise RuntimeError(f"{name} is not known: containerd or crio")


def home(name: str, version: str) -> Path:
    """The folder of the programs, whether they are there or not."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kohort" / f"{name}-{version}"


def build(name: str, version: str) -> Path:
    """The folder of the programs, compiled if need be. RuntimeError or CalledProcessError when that cannot be done."""
    described = description(name, version)
    place = home(name, version)
    partial = place.with_name(f".{place.name}")
    if place.is_dir():
        return place
    if shutil.which("go") is None:
        raise RuntimeError("there is no Go to build it with")
    print(f"building {name} {version} (once, some minutes)", file=sys.stderr, flush=True)
    shutil.rmtree(partial, ignore_errors=True)
    programs = partial / "bin"
    programs.mkdir(parents=True)
    (partial / "go.mod").write_text("module runtimes\n")
    found = json.loads(_run(partial, "go", "mod", "download", "-json", f"{described.module}@v{version}"))
    source = Path(found["Dir"])
    # The checksums of the release itself: the checksum database does not have every module that releases need.
    shutil.copyfile(source / "go.sum", partial / "go.sum")
    packages = [f"{described.module}/cmd/{program}" for program in described.programs]
    cgo = {"CGO_ENABLED": str(int(described.cgo))}
    _run(partial, "go", "get", *(f"{package}@v{version}" for package in packages), **cgo)
    flags = ("-tags", described.tags, "-ldflags", "-s -w")
    _run(partial, "go", "build", *flags, "-o", f"{programs}/", *packages, **cgo)
    for program in described.c_programs:
        sources = sorted(str(path) for path in (source / program / "src").glob("*.c"))
        _run(partial, "cc", "-Os", "-static", "-o", str(programs / program), *sources)
    programs.rename(place)
    shutil.rmtree(partial)
    return place


def _run(directory: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **environment}, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m tools.container_runtimes containerd|crio VERSION")
    try:
        print(build(sys.argv[1], sys.argv[2].removeprefix("v")))
    except (RuntimeError, ValueError, subprocess.CalledProcessError) as problem:
        sys.exit(f"{sys.argv[1]} {sys.argv[2]} could not be built: {problem}")
