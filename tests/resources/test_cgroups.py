"""The content of cgroup files."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.resources.figures import container, init, pod, sidecar

from kohort.objects.pods import Pod
from kohort.resources import CgroupValues, Settings, cgroups, container_cgroup, pod_cgroup
from kohort.resources.cgroups import Formula, cpu_quota

MI = 2**20


@pytest.mark.parametrize(
    ("milli", "shares", "line", "curve", "read_back", "quota"),
    [
        (0, 2, 1, 1, 2, None),
        (1, 2, 1, 1, 2, 1000),
        (2, 2, 1, 1, 2, 1000),
        (5, 5, 1, 2, 2, 1000),
        (10, 10, 1, 4, 2, 1000),
        (50, 51, 2, 11, 28, 5000),
        (100, 102, 4, 17, 79, 10000),
        (200, 204, 8, 29, 181, 20000),
        (500, 512, 20, 59, 489, 50000),
        (1000, 1024, 39, 100, 975, 100000),
        (2000, 2048, 79, 174, 1999, 200000),
        (16000, 16384, 625, 942, 15978, 1600000),
        (256000, 262144, 10000, 10000, 256000, 25600000),
    ],
)
def test_cpu_figures(milli: int, shares: int, line: int, curve: int, read_back: int, quota: int | None) -> None:
    assert cgroups.cpu_shares(milli) == shares
    assert cgroups.cpu_weight(milli, "line") == line
    assert cgroups.cpu_weight(milli) == curve
    assert cgroups.milli_from_weight(line, "line") == read_back
    assert cgroups.cpu_quota(milli) == quota


GUARANTEED = pod(container("50/70", "50/70"), container("70/50", "70/50"))


@pytest.mark.parametrize(
    ("name", "given_pod", "milli", "quota", "memory"),
    [
        ("N1", GUARANTEED, 120, 12000, 120 * MI),
        ("N2", pod(container(), request="100/100", limit="100/100"), 100, 10000, 100 * MI),
        (
            "N3",
            pod(container("20/20", "50/50"), container("30/30", "50/50"), request="100/100", limit="100/100"),
            *(100, 10000, 100 * MI),
        ),
        ("N4", pod(container("50/50", "50/50"), container(), request="100/100", limit="100/100"), 100, 10000, 100 * MI),
        ("N5", pod(container(), request="100/100", limit="100/100"), 100, 10000, 100 * MI),
        ("N6", pod(container("50/50", "50/50"), request="80/80", limit="100/100"), 80, 10000, 100 * MI),
        ("N7", pod(container("50/50"), container("30/30"), request="80/80", limit="100/100"), 80, 10000, 100 * MI),
        ("N8", pod(container(), request="100/100"), 100, None, None),
        ("N9", pod(container("50/50"), container("30/30"), request="100/100"), 100, None, None),
        ("N10", pod(container("50/50", "50/50"), container(), request="100/100"), 100, None, None),
        ("N11", pod(container("50/50", "50/50"), request="100/100", limit="100/100"), 100, 10000, 100 * MI),
        ("N12", pod(container("50/50", "50/50"), container(), request="100/100"), 100, None, None),
        ("N13", pod(container("30/30", "30/30"), request="100/100", limit="100/100"), 100, 10000, 100 * MI),
        ("N14", pod(container(), request="50/50", limit="100/100"), 50, 10000, 100 * MI),
        ("N15", pod(container("10/10", "30/30"), container(), request="50/50", limit="100/100"), 50, 10000, 100 * MI),
        ("N16", pod(container("50/30"), container("-/20"), request="50/50", limit="100/100"), 50, 10000, 100 * MI),
        (
            "N17",
            pod(container("100/100", "100/100"), container(), request="100/200", limit="200/200"),
            *(100, 20000, 200 * MI),
        ),
        ("N18", pod(container()), 0, None, None),
        ("limits only on containers", pod(container("10/10", "20/20"), sidecar("5/5", "10/10")), 15, 3000, 30 * MI),
        ("an init container without limits", pod(container("10/10", "20/20"), init("5/5")), 10, None, None),
        ("overhead", pod(container(), request="100/100", limit="200/200", overhead="50/20"), 150, 25000, 220 * MI),
    ],
)
def test_the_cgroup_of_a_pod(name: str, given_pod: Pod, milli: int, quota: int | None, memory: int | None) -> None:
    found = pod_cgroup(given_pod, Settings(formula="line"))
    expected = CgroupValues(cgroups.cpu_weight(milli, "line"), quota, 100_000, memory)
    assert found == expected, name


def test_n19_a_container_without_figures_feels_those_of_its_pod() -> None:
    shared = pod(container("50/50", "80/80"), container(), request="100/100", limit="200/300")
    own, inheriting = shared.spec.main_containers
    assert container_cgroup(shared, own) == CgroupValues(cgroups.cpu_weight(50), 8000, 100_000, 80 * MI)
    assert container_cgroup(shared, inheriting) == CgroupValues(cgroups.cpu_weight(200), 20000, 100_000, 300 * MI)


def test_a_container_without_any_figure_has_the_least_weight_and_no_limit() -> None:
    free = pod(container())
    assert container_cgroup(free, free.spec.main_containers[0]) == CgroupValues(1)


def test_without_a_quota_no_container_is_throttled() -> None:
    assert pod_cgroup(GUARANTEED, Settings(cpu_quota=False)).files()["cpu.max"] == "max 100000"


def test_another_period_scales_the_quota() -> None:
    assert pod_cgroup(GUARANTEED, Settings(cpu_period=10_000)).files()["cpu.max"] == "1200 10000"


def test_files_hold_the_words_of_the_kernel() -> None:
    assert pod_cgroup(pod(container(), request="100/100")).files() == {
        "cpu.weight": "17",
        "cpu.max": "max 100000",
        "memory.max": "max",
        "memory.high": "max",
        "memory.min": "0",
        "memory.low": "0",
    }


def test_huge_pages_are_limited_for_every_size_of_the_node() -> None:
    sizes = ("hugepages-2Mi", "hugepages-1Gi")
    backed = pod(container("10/10 hugepages-2Mi=4Mi", "10/10 hugepages-2Mi=4Mi"))
    files = pod_cgroup(backed, huge_page_sizes=sizes).files()
    assert (files["hugetlb.2MB.max"], files["hugetlb.1GB.max"]) == (str(4 * MI), "0")
    inner = container_cgroup(backed, backed.spec.main_containers[0], huge_page_sizes=sizes)
    assert inner.hugetlb_max == {"hugepages-2Mi": 4 * MI, "hugepages-1Gi": 0}


@pytest.mark.parametrize(
    ("given_pod", "minimum", "low"),
    [(GUARANTEED, 120 * MI, 0), (pod(container("-/100", "-/200")), 0, 100 * MI), (pod(container()), 0, 0)],
)
def test_requested_memory_is_protected_by_class(given_pod: Pod, minimum: int, low: int) -> None:
    values = pod_cgroup(given_pod, Settings(protect_memory=True))
    assert (values.memory_min, values.memory_low) == (minimum, low)


@pytest.mark.parametrize(
    ("given_pod", "of_pod", "of_container"),
    [
        (pod(container("-/100", "-/200")), None, 199229440),
        (pod(container("-/100"), request="-/100", limit="-/200"), 199229440, None),
        (pod(container("-/100", "-/100")), None, None),
        (pod(container(), request="-/100", limit="-/100"), None, None),
        (pod(container("-/100")), None, int(100 * MI + 0.9 * 900 * MI) // 4096 * 4096),
    ],
)
def test_memory_high_slows_down_before_the_limit(given_pod: Pod, of_pod: int | None, of_container: int | None) -> None:
    settings = Settings(throttling_factor=0.9, node_allocatable_memory=1000 * MI)
    assert pod_cgroup(given_pod, settings).memory_high == of_pod
    assert container_cgroup(given_pod, given_pod.spec.main_containers[0], settings).memory_high == of_container


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(cgroups).failed == 0


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(["curve", "line"]))
def test_more_cpu_never_means_less_weight(a: int, b: int, formula: Formula) -> None:
    low, high = sorted((a, b))
    assert 1 <= cgroups.cpu_weight(low, formula) <= cgroups.cpu_weight(high, formula) <= 10000


@given(st.integers(0, 10**6), st.sampled_from(["curve", "line"]))
def test_a_value_read_back_has_nearly_the_weight_that_was_written(milli: int, formula: Formula) -> None:
    weight = cgroups.cpu_weight(milli, formula)
    again = cgroups.cpu_weight(cgroups.milli_from_weight(weight, formula), formula)
    assert abs(again - weight) <= 1 + weight // 100


@given(st.integers(10, 10**6), st.sampled_from([1000, 10_000, 100_000, 1_000_000]))
def test_a_quota_read_back_is_the_limit_that_was_written(milli: int, period: int) -> None:
    quota = cgroups.cpu_quota(milli, period)
    assert quota is not None
    assert quota == 1000 or cgroups.milli_from_quota(quota, period) == milli


@given(st.integers(1, 10**1000), st.integers(1000, 1_000_000))
def test_any_limit_is_one_that_the_kernel_takes(milli: int, period: int) -> None:
    quota = cpu_quota(milli, period)
    assert quota is not None and 1000 <= quota < 2**44


def test_containers_end_as_a_whole_when_memory_runs_out_unless_told_otherwise() -> None:
    assert cgroups.container_memory_files() == {"memory.oom.group": "1", "memory.swap.max": "0"}
    assert cgroups.container_memory_files(Settings(single_process_oom_kill=True))["memory.oom.group"] == "0"
