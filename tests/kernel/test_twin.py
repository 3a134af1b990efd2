"""The node agent beside kubelet: the same pods, and what kubelet has made of them (`make twin` records it)."""

import re

import pytest
from tests.kernel.machine import ROOT, missing
from tests.kernel.twin.cases import CASES
from tests.kernel.twin.comparison import Difference, Known, differences, outdated, unexplained, weights_agree
from tests.kernel.twin.differences import KNOWN
from tools.container_packages import missing as missing_packages
from tools.record_kubelet import oracle, recorded

QUICK = (
    "burstable",
    "capabilities",
    "environment-of-the-downward-api",
    "init-containers",
    "non-root-refused",
    "out-of-memory",
    "program-missing",
    "projected-volume",
    "resize-of-memory-in-use",
    "resize-of-the-pod",
    "resize-of-three-up-and-down",
    "resize-restarts-for-memory",
    "resources-of-pod-and-container",
    "sidecar-of-a-pod-that-ends",
)
"""What is compared in every run of the tests; `make twin` takes all."""
SECTION = "## The node agent beside kubelet"


def test_every_case_has_an_answer_of_kubelet() -> None:
    answers = oracle()["kubelet"]
    assert sorted(answers) == sorted(case.name for case in CASES)
    assert len(answers) >= 30
    unfinished = [name for name, records in answers.items() if any("problem" in each for each in records)]
    assert unfinished == []
    assert {case.name: len(case.steps) for case in CASES} == {name: len(records) for name, records in answers.items()}


def test_the_known_differences_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text()
    section = page.partition(SECTION)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)[1:]
    assert sorted(set(rows)) == sorted({each.what for each in KNOWN})


@pytest.mark.kernel
@pytest.mark.timeout(660)
def test_pods_become_what_kubelet_makes_of_them() -> None:
    if reason := missing(native=False) or missing_packages():
        pytest.skip(reason)
    found = differences(oracle()["kubelet"], recorded("kohort", list(QUICK))["kohort"])
    assert [str(each) for each in unexplained(found, KNOWN)] == []


def test_a_difference_is_explained_by_place_and_values() -> None:
    kubelet = {"a": [{"status": {"phase": "Running", "qosClass": "Burstable"}, "events": ["Normal Pulled: x"]}]}
    ours = {"a": [{"status": {"phase": "Pending", "qosClass": "Burstable"}, "events": ["Normal Started: y"]}]}
    found = differences(kubelet, ours)
    assert found == [
        Difference("a", 0, "/events/Normal Pulled", "there", "nothing"),
        Difference("a", 0, "/events/Normal Started", "nothing", "there"),
        Difference("a", 0, "/status/phase", "Running", "Pending"),
    ]
    known = [Known("x", "/status/phase", ours="Pending"), Known("y", "/events/*", ours="there"), Known("z", "/none")]
    assert unexplained(found, known) == found[:1]
    assert outdated(found, known) == known[2:]


@pytest.mark.parametrize(
    ("kubelet", "ours", "agree"),
    [
        ("4", "17", True),
        ("4", "18", True),
        ("4", "4", False),
        ("1", "1", True),
        ("39", "100", True),
        ("max", "1", False),
    ],
)
def test_weights_of_the_two_formulas_agree_if_they_are_of_the_same_request(
    kubelet: str, ours: str, agree: bool
) -> None:
    assert weights_agree(kubelet, ours) is agree
