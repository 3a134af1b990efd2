"""Kubernetes' own end-to-end specs, run against kohort with pods in a real container runtime.

    python -m tools.kubernetes.suite [--area NAME ...] [--endpoint unix://SOCKET] [-- arguments of ginkgo]
    python -m tools.kubernetes.suite --in-kernel [--area NAME ...] [-- arguments of ginkgo]

The specs and the programs in their images are compiled once from the Go module proxy into the cache folder (the specs
take about a quarter of an hour), the images are made on this machine (`suite_images.py`) and served by a registry on
loopback. Without --endpoint a containerd of its own is started for the run. The last lines are a table of what has
passed, failed and was skipped in each area; the complete report is left in dist/specs.json, beside the log of the
cluster.

With --in-kernel the whole run, its cluster and its containerd included, is inside user-mode-linux, which has cgroup v2
whatever the machine has. Without --area it takes the areas that need cgroup v2. The console of that kernel is left in
dist/specs.log while it runs.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.containers.containerd import Containerd, may_lower_oom_scores, pause_archive
from tests.kernel.machine import in_user_mode_linux
from tests.kernel.machine import missing as missing_kernel
from tools.container_packages import install, missing
from tools.go_programs import compile_once
from tools.kubernetes import build as kubernetes
from tools.kubernetes.build import HERE, cache_folder
from tools.kubernetes.suite_images import image_archives, images_are_there

AREAS: Final = {
    "pods": ("common/node/pods", "node/pods", "common/node/pod_hostnameoverride", "common/node/podtemplates"),
    "kubelet": ("common/node/kubelet", "common/node/kubelet_etc_hosts", "node/events", "common/node/pod_admission"),
    "probes": ("common/node/container_probe",),
    "lifecycle hooks": ("common/node/lifecycle_hook", "node/pre_stop"),
    "init and ephemeral containers": ("common/node/init_container", "common/node/ephemeral_containers"),
    "restart rules": ("common/node/container_restart_policy",),
    "container runtime": ("common/node/runtime", "common/node/containers", "node/container_termination_metrics"),
    "environment": ("common/node/configmap", "common/node/secrets", "common/node/downwardapi", "common/node/expansion"),
    "environment from files": ("common/node/file_key",),
    "volumes: configMap": ("common/storage/configmap_volume", "common/storage/projected_configmap"),
    "volumes: secret": ("common/storage/secrets_volume", "common/storage/projected_secret"),
    "volumes: downward API": ("common/storage/downwardapi_volume", "common/storage/projected_downwardapi"),
    "volumes: projected": ("common/storage/projected_combined",),
    "volumes: emptyDir, hostPath": ("common/storage/empty_dir", "common/storage/host_path", "storage/subpath"),
    "volumes: image": ("common/node/image_volume",),
    "security context": ("common/node/security_context", "node/security_context", "common/node/privileged"),
    "sysctls": ("common/node/sysctl",),
    "runtime classes": ("common/node/runtimeclass",),
    "mount propagation": ("node/mount_propagation",),
    "network between pods": ("common/network/networking",),
    "kubectl": ("kubectl/[a-z_]+",),
    "in-place resize": ("common/node/pod_resize", "node/pod_resize"),
    "pod-level resources": ("common/node/pod_level_resources", "common/node/pod_level_resources_resize"),
}
"""Areas and the files of test/e2e that their specs are in."""
SKIPPED: Final = {
    r"\[Disruptive\]": "restart or break the node",
    r"\[Slow\]": "wait for many minutes each",
    r"Feature:Windows|WindowsHost": "need Windows",
    r"Feature:SELinux": "need a kernel with SELinux",
}
"""Specs that are not run, by their names, and why."""
PROCESSES: Final = 8
"""Most specs wait most of the time."""
CGROUP_AREAS: Final = ("in-place resize", "pod-level resources")
"""Areas whose specs need cgroup v2."""
REGISTRY: Final = "specs.test"
"""What the names of the images begin with in their archives."""
IMAGES_OF_CGROUP_AREAS: Final = ("busybox:", "pause:")
KERNEL_MEMORY: Final = "6G"
KERNEL_HOURS: Final = 6
KERNEL_PROCESSES: Final = 2
"""It has one processor, whose room the pods of all specs share."""
CUT_OFF: Final = "A suite timeout occurred"
"""What ginkgo says of a spec that runs when its --timeout is over."""
FAST: Final = ("volumes: projected", "volumes: secret")
"""Areas of the run within `make test-containers`."""


@dataclass(frozen=True)
class Result:
    area: str
    name: str
    state: str
    """passed, failed or skipped."""
    message: str = ""


def area_of(file: str) -> str:
    """The area of a spec, by the file that it is in; empty for files of no area."""
    for area, patterns in AREAS.items():
        if re.search(f"/test/e2e/({'|'.join(patterns)})\\.go$", file):
            return area
    return ""


def read_report(report: list[dict[str, Any]]) -> list[Result]:
    """What became of the specs in ginkgo's JSON report. Specs that were not selected are left out, and so are those
    that the end of the run has cut off."""
    found = []
    for spec in (each for suite in report for each in suite["SpecReports"] or ()):
        state = {"passed": "passed", "skipped": "skipped", "pending": "skipped"}.get(spec["State"], "failed")
        message = (spec.get("Failure") or {}).get("Message", "")
        area = area_of(spec["LeafNodeLocation"]["FileName"])
        if spec["LeafNodeType"] != "It" or not area or (state == "skipped" and not message) or CUT_OFF in message:
            continue
        name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
        found.append(Result(area, name, state, message))
    return found


def table(results: list[Result]) -> str:
    """Results by area, as Markdown."""
    counts = {area: Counter(each.state for each in results if each.area == area) for area in AREAS}
    lines = ["| area | passed | failed | skipped |", "|---|--:|--:|--:|"]
    for area, count in [*counts.items(), ("all", Counter(each.state for each in results))]:
        if count:
            lines.append(f"| {area} | {count['passed']} | {count['failed']} | {count['skipped']} |")
    return "\n".join(lines)


def programs() -> Path | None:
    """The folder with the compiled specs, if they are in the cache."""
    folder = cache_folder() / "e2e"
    return folder if all((folder / name).is_file() for name in ("e2e.test", "ginkgo")) else None


def ready() -> bool:
    """Whether a run needs to build nothing."""
    return programs() is not None and images_are_there()


def build_programs() -> Path:
    """The folder with the specs, compiled if need be. RuntimeError without Go."""
    folder = cache_folder() / "e2e"
    small = ("-ldflags", "-s -w")
    compile_once(folder / "ginkgo", HERE, "build", *small, package="github.com/onsi/ginkgo/v2/ginkgo")
    compile_once(folder / "e2e.test", HERE, "test", "-c", "-vet=off", *small, package="k8s.io/kubernetes/test/e2e")
    return folder


@contextlib.contextmanager
def running_containerd(oci_runtime: str) -> Iterator[Containerd]:
    install()
    if problem := missing():
        raise RuntimeError(problem)
    directory = Path(tempfile.mkdtemp(prefix="kohort-"))  # paths of sockets must be short
    runtime = Containerd(directory, oci_runtime=oci_runtime, restrict_oom_scores=not may_lower_oom_scores())
    try:
        runtime.start()
        runtime.load(pause_archive())
        yield runtime
    finally:
        runtime.stop()
        shutil.rmtree(directory, ignore_errors=True)


def serve_images(runtime: Containerd) -> tuple[str, str]:
    """A registry on loopback that has the images of the specs, and one that wants a password."""
    registry, closed = runtime.registry(), runtime.registry(user="specs", password="specs")
    for name, archive in image_archives().items():
        runtime.push(registry, name, archive.read_bytes())
    return registry, closed


def load_images(runtime: Containerd) -> tuple[str, str]:
    """The same without registries, for a kernel in which they would be slow: images of the runtime, by their names."""
    for archive in {image_archives()[name] for name in image_archives() if name.startswith(IMAGES_OF_CGROUP_AREAS)}:
        runtime.load(archive.read_bytes())
    return REGISTRY, "127.0.0.1:1/closed"


def redirect_images(registry: str, closed: str, place: Path) -> Path:
    """The file that tells the specs where their images are."""
    names = ("promoterE2eRegistry", "gcRegistry", "gcEtcdRegistry", "buildImageRegistry", "sigStorageRegistry")
    redirected = dict.fromkeys((*names, "dockerLibraryRegistry", "cloudProviderGcpRegistry"), registry)
    redirected |= {"privateRegistry": closed, "invalidRegistry": "127.0.0.1:1/invalid"}
    place.write_text(json.dumps(redirected))
    return place


def run_specs(folder: Path, environment: dict[str, str], chosen: argparse.Namespace) -> int:
    """The exit code of ginkgo."""
    report: Path = chosen.report
    files = "|".join(pattern for area in chosen.area for pattern in AREAS[area])
    command = [
        str(folder / "ginkgo"),
        f"--procs={chosen.processes}",
        "--no-color",
        "--silence-skips",
        "-v" if chosen.load_images else "--succinct",
    ]
    command += [f"--focus-file=/test/e2e/({files})\\.go$", f"--skip={'|'.join(SKIPPED)}", f"--timeout={chosen.timeout}"]
    command += [f"--output-dir={report.parent}", f"--json-report={report.name}", *chosen.more]
    command += [str(folder / "e2e.test"), "--", f"--kubeconfig={environment['KUBECONFIG']}", "--num-nodes=1"]
    command += [
        "--disable-log-dump",
        "--dump-logs-on-failure=false",
        f"--kubectl-path={kubernetes.build() / 'kubectl'}",
    ]
    return subprocess.run(command, env=environment, check=False).returncode


def run_here(chosen: argparse.Namespace) -> None:
    """Write the report of these specs, on a cluster that exists for this run only."""
    folder = build_programs()
    with tempfile.TemporaryDirectory() as place, running_containerd(chosen.oci_runtime) as runtime:
        registries = load_images(runtime) if chosen.load_images else serve_images(runtime)
        environment = {**os.environ, "KUBECONFIG": f"{place}/kubeconfig"}
        environment["KUBE_TEST_REPO_LIST"] = str(redirect_images(*registries, Path(place) / "registries.yaml"))
        data = ["--data-dir", place]
        kohort = [sys.executable, "-m", "kohort"]
        cluster = ["--port", "0", "--runtime", "cri", "--runtime-endpoint", chosen.endpoint or runtime.endpoint]
        log = Path(place, "kohort.log")
        with chosen.report.with_suffix(".kohort.log").open("wb") as copy:
            follower = subprocess.Popen(["tail", "-n", "+1", "-F", str(log)], stdout=copy, stderr=subprocess.DEVNULL)
        try:
            subprocess.run([*kohort, "up", *data, *cluster, "--detach"], check=True, stdout=subprocess.DEVNULL)
            run_specs(folder, environment, chosen)
        finally:
            subprocess.run([*kohort, "down", *data], check=False, stdout=subprocess.DEVNULL)
            follower.terminate()
            follower.wait()


def run_in_kernel(chosen: argparse.Namespace) -> None:
    """Have this program write the report inside user-mode-linux, where nothing can be built."""
    if problem := missing_kernel(native=False) or missing():
        raise RuntimeError(problem)
    build_programs(), image_archives(), kubernetes.build()
    words = ["-m", "tools.kubernetes.suite", "--load-images", "--processes", str(chosen.processes)]
    words += ["--report", str(chosen.report), "--timeout", chosen.timeout, "--oci-runtime", chosen.oci_runtime]
    words += [word for area in chosen.area for word in ("--area", area)]
    console = chosen.report.with_suffix(".log")
    in_user_mode_linux([*words, "--", *chosen.more], KERNEL_HOURS * 3600, KERNEL_MEMORY, console, chosen.slowness)


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.kubernetes.suite", description=__doc__)
    parser.add_argument("--area", action="append", choices=AREAS, metavar="NAME", help=f"one of: {', '.join(AREAS)}")
    parser.add_argument("--endpoint", default="", help="socket of a container runtime that runs already")
    parser.add_argument("--in-kernel", action="store_true", help="run in user-mode-linux, with cgroup v2")
    parser.add_argument("--load-images", action="store_true", help="import images into containerd, without a registry")
    parser.add_argument("--oci-runtime", default="runc", help="what starts containers for containerd: runc, crun")
    parser.add_argument("--processes", type=int, default=0, help="how many specs run at a time")
    parser.add_argument("--slowness", type=int, default=2, help="how much slower the clock of the kernel runs")
    parser.add_argument("--timeout", default="3h", help="when ginkgo stops and writes its report")
    parser.add_argument("--report", type=Path, default=Path("dist/specs.json"))
    parser.add_argument("more", nargs="*", help="arguments of ginkgo, after --")
    chosen = parser.parse_args(words)
    in_kernel = chosen.in_kernel or chosen.load_images
    if in_kernel and not set(chosen.area or ()) <= set(CGROUP_AREAS):
        parser.error(f"only images of these areas are provided without a registry: {', '.join(CGROUP_AREAS)}")
    chosen.area = chosen.area or list(CGROUP_AREAS if in_kernel else AREAS)
    chosen.processes = chosen.processes or (KERNEL_PROCESSES if in_kernel else PROCESSES)
    chosen.report = chosen.report.resolve()
    return chosen


def main(words: list[str]) -> int:
    chosen = parse(words)
    chosen.report.parent.mkdir(parents=True, exist_ok=True)
    chosen.report.unlink(missing_ok=True)
    (run_in_kernel if chosen.in_kernel else run_here)(chosen)
    if not chosen.report.is_file():
        raise RuntimeError("ginkgo has written no report; its last lines say why")
    results = read_report(json.loads(chosen.report.read_text()))
    for each in results:
        if each.state == "failed":
            print(f"failed: {each.name}\n    {each.message.splitlines()[0] if each.message else ''}")
    print(table(results))
    return int(any(each.state == "failed" for each in results))


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except (RuntimeError, subprocess.CalledProcessError) as problem:
        print(f"the specs could not be run: {problem}", file=sys.stderr)
        raise SystemExit(1) from None
