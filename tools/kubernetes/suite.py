"""Kubernetes' own end-to-end specs, run against kohort with pods in a real container runtime.

    python -m tools.kubernetes.suite [--area NAME ...] [--endpoint unix://SOCKET] [-- arguments of ginkgo]

The specs and the programs in their images are compiled once from the Go module proxy into the cache folder (the specs
take about a quarter of an hour), the images are made on this machine (`suite_images.py`) and served by a registry on
loopback. Without --endpoint a containerd of its own is started for the run. The last lines are a table of what has
passed, failed and was skipped in each area; the complete report is left in dist/specs.json.
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

from tests.containers.containerd import Containerd, pause_archive
from tools.container_packages import install, missing
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
    """What became of the specs in ginkgo's JSON report. Specs that were not selected are left out."""
    found = []
    for spec in (each for suite in report for each in suite["SpecReports"] or ()):
        state = {"passed": "passed", "skipped": "skipped", "pending": "skipped"}.get(spec["State"], "failed")
        message = (spec.get("Failure") or {}).get("Message", "")
        area = area_of(spec["LeafNodeLocation"]["FileName"])
        if spec["LeafNodeType"] != "It" or not area or (state == "skipped" and not message):
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
    if (found := programs()) is not None:
        return found
    if shutil.which("go") is None:
        raise RuntimeError("no Go to build the specs with")
    folder = cache_folder() / "e2e"
    folder.mkdir(parents=True, exist_ok=True)
    commands = {
        "ginkgo": ["go", "build", "-o", str(folder / ".part"), "github.com/onsi/ginkgo/v2/ginkgo"],
        "e2e.test": ["go", "test", "-c", "-o", str(folder / ".part"), "k8s.io/kubernetes/test/e2e"],
    }
    for name, command in commands.items():
        if not (folder / name).is_file():
            print(f"building {name} (once)", file=sys.stderr, flush=True)
            subprocess.run(command, cwd=HERE, check=True)
            (folder / ".part").rename(folder / name)
    return folder


@contextlib.contextmanager
def running_containerd() -> Iterator[Containerd]:
    install()
    if problem := missing():
        raise RuntimeError(problem)
    directory = Path(tempfile.mkdtemp(prefix="kohort-"))  # paths of sockets must be short
    runtime = Containerd(directory)
    try:
        runtime.start()
        runtime.load(pause_archive())
        yield runtime
    finally:
        runtime.stop()
        shutil.rmtree(directory, ignore_errors=True)


def serve_images(runtime: Containerd, place: Path) -> Path:
    """The file that redirects the specs to a registry on loopback which has their images."""
    registry, closed = runtime.registry(), runtime.registry(user="specs", password="specs")
    for name, archive in image_archives().items():
        runtime.push(registry, name, archive.read_bytes())
    names = ("promoterE2eRegistry", "gcRegistry", "gcEtcdRegistry", "buildImageRegistry", "sigStorageRegistry")
    redirected = dict.fromkeys((*names, "dockerLibraryRegistry", "cloudProviderGcpRegistry"), registry)
    redirected |= {"privateRegistry": closed, "invalidRegistry": "127.0.0.1:1/invalid"}
    place.write_text(json.dumps(redirected))
    return place


def run_specs(folder: Path, environment: dict[str, str], areas: list[str], more: list[str], report: Path) -> int:
    """The exit code of ginkgo."""
    files = "|".join(pattern for area in areas for pattern in AREAS[area])
    command = [str(folder / "ginkgo"), f"--procs={PROCESSES}", "--no-color", "--silence-skips", "--succinct"]
    command += [f"--focus-file=/test/e2e/({files})\\.go$", f"--skip={'|'.join(SKIPPED)}", "--timeout=3h"]
    command += [f"--output-dir={report.parent}", f"--json-report={report.name}", *more, str(folder / "e2e.test"), "--"]
    command += [f"--kubeconfig={environment['KUBECONFIG']}", "--num-nodes=1", "--disable-log-dump"]
    command += [f"--kubectl-path={kubernetes.build() / 'kubectl'}", "--dump-logs-on-failure=false"]
    return subprocess.run(command, env=environment, check=False).returncode


def run_suite(areas: list[str], endpoint: str, more: list[str], report: Path) -> list[Result]:
    """What has become of the specs of these areas, on a cluster that exists for this run only."""
    folder = build_programs()
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as place, running_containerd() as runtime:
        environment = {**os.environ, "KUBECONFIG": f"{place}/kubeconfig"}
        environment["KUBE_TEST_REPO_LIST"] = str(serve_images(runtime, Path(place) / "registries.yaml"))
        data = ["--data-dir", place]
        kohort = str(Path(sys.executable).with_name("kohort"))
        cluster = ["--port", "0", "--runtime", "cri", "--runtime-endpoint", endpoint or runtime.endpoint]
        subprocess.run([kohort, "up", *data, *cluster, "--detach"], check=True, stdout=subprocess.DEVNULL)
        try:
            run_specs(folder, environment, areas, more, report)
        finally:
            subprocess.run([kohort, "down", *data], check=False, stdout=subprocess.DEVNULL)
    if not report.is_file():
        raise RuntimeError("ginkgo has written no report; its last lines say why")
    return read_report(json.loads(report.read_text()))


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.kubernetes.suite", description=__doc__)
    parser.add_argument("--area", action="append", choices=AREAS, metavar="NAME", help=f"one of: {', '.join(AREAS)}")
    parser.add_argument("--endpoint", default="", help="socket of a container runtime that runs already")
    parser.add_argument("--report", type=Path, default=Path("dist/specs.json"))
    parser.add_argument("more", nargs="*", help="arguments of ginkgo, after --")
    given = parser.parse_args(words)
    results = run_suite(given.area or list(AREAS), given.endpoint, given.more, given.report.resolve())
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
