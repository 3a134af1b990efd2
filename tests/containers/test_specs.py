"""Kubernetes' own end-to-end specs: the table that is made of a report, and a few specs where they are compiled."""

import subprocess
import sys
from pathlib import Path

import pytest
from tools.container_packages import missing
from tools.kubernetes import suite

from kohort.objects.json_types import JsonObject

FOLDER = "/root/go/pkg/mod/k8s.io/kubernetes@v1.36.4/test/e2e"


def spec(file: str, state: str, message: str = "") -> JsonObject:
    return {
        "ContainerHierarchyTexts": ["[sig-node] Pods"],
        "LeafNodeText": f"{state} in {file}",
        "LeafNodeType": "It",
        "LeafNodeLocation": {"FileName": f"{FOLDER}/{file}.go"},
        "State": state,
        "Failure": {"Message": message},
    }


def test_results_are_counted_by_area() -> None:
    report = [
        {
            "SpecReports": [
                spec("common/node/pods", "passed"),
                spec("node/pods", "timedout", "too late"),
                spec("node/pods", "timedout", "A suite timeout occurred"),
                spec("common/node/pods", "skipped", "needs another machine"),
                spec("common/node/pods", "skipped"),
                spec("kubectl/portforward", "passed"),
                spec("network/dns", "passed"),
            ]
        }
    ]
    results = suite.read_report(report)
    assert [(each.area, each.state) for each in results] == [
        ("pods", "passed"),
        ("pods", "failed"),
        ("pods", "skipped"),
        ("kubectl", "passed"),
    ]
    assert suite.table(results).splitlines()[2:] == [
        "| pods | 1 | 1 | 1 |",
        "| kubectl | 1 | 0 | 0 |",
        "| all | 2 | 1 | 1 |",
    ]


def test_areas_name_files_that_no_other_area_names() -> None:
    patterns = [pattern for files in suite.AREAS.values() for pattern in files]
    assert len(patterns) == len(set(patterns))


@pytest.mark.parametrize(
    ("words", "areas", "processes"),
    [
        ([], list(suite.AREAS), suite.PROCESSES),
        (["--area", "probes", "--processes", "2"], ["probes"], 2),
        (["--in-kernel"], list(suite.CGROUP_AREAS), suite.KERNEL_PROCESSES),
        (["--load-images"], list(suite.CGROUP_AREAS), suite.KERNEL_PROCESSES),
        (["--in-kernel", "--area", "pod-level resources"], ["pod-level resources"], suite.KERNEL_PROCESSES),
    ],
)
def test_a_run_in_a_kernel_takes_the_areas_that_need_cgroup_v2(
    words: list[str], areas: list[str], processes: int
) -> None:
    chosen = suite.parse(words)
    assert (chosen.area, chosen.processes) == (areas, processes)


def test_a_kernel_has_no_images_of_other_areas(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        suite.parse(["--in-kernel", "--area", "kubectl"])
    assert "in-place resize, pod-level resources" in capsys.readouterr().err


@pytest.mark.containers
@pytest.mark.timeout(300)
def test_specs_of_the_fast_areas(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    if not suite.ready():
        pytest.skip("NOT RUN: Kubernetes' specs are not compiled; python -m tools.kubernetes.suite does it once")
    command = [sys.executable, "-m", "tools.kubernetes.suite", "--report", str(tmp_path / "specs.json")]
    for area in suite.FAST:
        command += ["--area", area]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
