"""What pages draw from their models, without a cluster."""

import doctest
import re
from datetime import UTC, datetime
from html import unescape
from types import ModuleType

import msgspec
import pytest
from tests.dashboard.test_what_if import machine, member, shown

from kohort.dashboard import commands, log_stream, server, view
from kohort.dashboard.analysis_charts import ChartPoint, MetricChart, StepAnalysis
from kohort.dashboard.fleet import STATES, FleetFilter, FleetPage, FleetRow
from kohort.dashboard.pages import action, elements, nodes
from kohort.dashboard.pages import set as set_pages
from kohort.dashboard.pages.analysis import analysis_section
from kohort.dashboard.pages.elements import NOTHING, table_row
from kohort.dashboard.pages.fleet import fleet_sections
from kohort.dashboard.pages.nodes import nodes_sections
from kohort.dashboard.pages.release import release_sections
from kohort.dashboard.pages.release_words import state
from kohort.dashboard.pages.set import failures_sections, group_grid, head_section
from kohort.dashboard.release_page import RailStep, ReleasePage, StepPlace
from kohort.dashboard.set_page import FailuresPage, SetHead
from kohort.groups.failure_evidence import ContainerFailure, GroupFailure, PodFailure
from kohort.inspection import readable_amounts
from kohort.inspection.release import Release
from kohort.inspection.tree import GroupBranch, PodBranch, Subgroup
from kohort.kube import pod_logs
from kohort.objects.json_types import Json
from kohort.rollouts.analysis.metric_units import Unit
from kohort.rollouts.analysis.run_types import RunReason
from kohort.rules.rollout_labels import StepState

HEAD = SetHead(
    namespace="default",
    name="llm",
    state="Available",
    wanted=2,
    ready=2,
    updated=2,
    surge=0,
    size=2,
    revision=1,
    revision_key="5fc56c4848",
    images=("model:1",),
    paused=False,
    done=True,
    releasing=False,
    resizing=False,
    failing=False,
    age_seconds=60,
)


def words(html: str) -> str:
    """What a reader sees."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))


def test_rows_name_their_columns_for_narrow_screens() -> None:
    drawn = table_row(("Pod", "Node", "Message"), ["llm-0", NOTHING, None])
    assert drawn.count("data-label") == 3
    assert re.findall(r'data-label="(\w+)" class="none"', drawn) == ["Node", "Message"]


@pytest.mark.parametrize(
    "module", [action, elements, nodes, server, set_pages, commands, log_stream, pod_logs, readable_amounts, view]
)
def test_examples_hold(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted and not found.failed


# Charts


def chart(**more: Json) -> MetricChart:
    made = MetricChart(
        name="ttft",
        verdict="Failed",
        message="too slow",
        critical=False,
        advisory=False,
        canary_value=0.2,
        stable_value=0.1,
        unit=Unit.SECONDS,
        limit="maxRatio",
        fail_above=0.0,
        lower=0.2,
        upper=0.6,
        points=[ChartPoint(10, 0.5, 0.1), ChartPoint(20, 0.7, 0.2)],
    )
    return msgspec.structs.replace(made, **more)


def drawn(found: MetricChart, message: str = "", reason: str = RunReason.JUDGED) -> str:
    analysis = StepAnalysis(1, "Failed", reason, message, "Gate", 20.0, 3, "", [found])
    return analysis_section([analysis]).html


def test_a_limit_that_compares_versions_follows_the_stable_one() -> None:
    """maxRatio fails above a difference of 0: that is the share of the stable version, not a share of 0."""
    assert chart(compared=True).bounds == [(10, 0.1), (20, 0.2)]
    assert chart(compared=True, fail_above=0.05).bounds == [(10, 0.1 + 0.05), (20, 0.2 + 0.05)]
    assert chart(fail_above=0.3).bounds == [(10, 0.3), (20, 0.3)]
    assert chart(fail_above=None).bounds == []


def test_a_chart_has_scales_and_its_points_are_within_them() -> None:
    html = drawn(chart(compared=True, stable_share=0.15))
    assert {"0 %", "87.5 %", "0 s", "20 s"} <= set(re.findall(r"<text[^>]*>([^<]+)</text>", html))
    for points in re.findall(r'points="([^"]+)"', html):
        places = [tuple(map(float, one.split(","))) for one in points.split()]
        assert all(0 <= x <= 340 and 0 <= y <= 150 for x, y in places), places


def test_a_chart_without_samples_says_so() -> None:
    html = drawn(chart(points=[], lower=None, upper=None, fail_above=None, verdict="NoData"))
    assert "no samples yet" in html and "too few samples" in html and "<polyline" not in html


def test_what_a_metric_says_is_said_once() -> None:
    assert words(drawn(chart(), message="failed: too slow")).count("too slow") == 1
    assert "the source is gone" in words(drawn(chart(), "the source is gone", RunReason.SOURCE_ERROR))


# Releases

RELEASE = Release(
    rollout="llm",
    style="Canary",
    phase="Progressing",
    reason="InRolling",
    paused=False,
    step=1,
    steps=2,
    step_state="",
    next_step=2,
    replicas_asked="1",
    traffic_asked="",
    matches=(),
    traffic_observed=None,
    waits_for_approval=False,
    pause_seconds=None,
    pause_seconds_left=None,
    stable_revision="",
    new_revision="",
    new_replicas=1,
    new_replicas_ready=1,
    message="",
)


@pytest.mark.parametrize("found", StepState)
def test_every_state_of_a_step_has_words_of_its_own(found: StepState) -> None:
    said = state(msgspec.structs.replace(RELEASE, step_state=found))
    assert said and found.value not in said


def test_a_pause_is_said_before_anything_else_but_a_stop() -> None:
    paused = msgspec.structs.replace(RELEASE, paused=True, step_state="StepPaused", waits_for_approval=True)
    assert state(paused) == "is paused"
    assert state(paused, stopped=True) == "is stopped by its analysis"


def test_the_current_step_shows_the_weight_observed_and_counts_its_pause_down() -> None:
    steps = [
        RailStep(1, StepPlace.CURRENT, "50%", 1, "20%", ("header x-tester=1",), 600, False),
        RailStep(2, StepPlace.NEXT, "100%", 2, "100%", (), None, False),
    ]
    release = msgspec.structs.replace(RELEASE, traffic_observed=15, pause_seconds=600, pause_seconds_left=421)
    ends = "2026-11-17T13:22:28Z"
    page = ReleasePage(HEAD, "llm", "Canary", "Progressing", release, ends, False, True, steps, None, None, ())
    html = "".join(one.html for one in release_sections(page, ()))
    first, second = (words(one) for one in re.findall(r'<li class="step.*?</li>', html))
    assert "1 of 2 groups (50%)" in first and "20% of requests 15% observed" in first and "x-tester=1" in first
    assert "goes on by itself, 7 min 1 s left" in first and "observed" not in second
    (moment,) = re.findall(r'data-until="(\d+)"', html)
    assert datetime.fromtimestamp(int(moment), UTC) == datetime.fromisoformat(ends)


@pytest.mark.parametrize(
    ("overridable", "forward", "links"),
    [
        (False, True, ["step=1", "step=3", "full=1"]),
        (False, False, ["step=1"]),
        (True, False, ["step=1", "override=1"]),
    ],
    ids=["not held", "held until there is a verdict", "stopped by its analysis"],
)
def test_only_steps_that_the_analysis_permits_are_offered(overridable: bool, forward: bool, links: list[str]) -> None:
    steps = [RailStep(number, place, "1", 1, "", (), None, True) for number, place in enumerate(StepPlace, 1)]
    release = msgspec.structs.replace(RELEASE, step=2, steps=3)
    page = ReleasePage(HEAD, "llm", "Canary", "Progressing", release, "", overridable, forward, steps, None, None, ())
    html = "".join(one.html for one in release_sections(page, ("approve",)))
    assert re.findall(r"actions/approve\?(\w+=\d)", html) == links


def test_groups_beyond_those_wanted_are_named_in_the_fleet_and_on_the_page_of_their_set() -> None:
    row = FleetRow("default", "llm", "Updating", 2, 2, 1, 1, 2, 1, ("model:1",), False, False, None, None, "")
    fleet = FleetPage(FleetFilter(), [row], 1, 1, dict.fromkeys(STATES, 0), 0, ["default"])
    drawn = "".join(one.html for one in fleet_sections(fleet))
    head = head_section(msgspec.structs.replace(HEAD, surge=1), "").html
    assert "2/2 +1" in words(drawn) and "2 of 2 +1 surge" in words(head)
    assert all('aria-label="2 of 2 groups ready, 1 surge"' in one for one in (drawn, head))


# Nodes


def test_amounts_of_nodes_are_readable() -> None:
    """Canonical forms of differences, such as 67108863Ki, say nothing to a reader."""
    node = msgspec.structs.replace(
        machine("n-0"), status=msgspec.structs.replace(machine("n-0").status, allocatable={"memory": "24265691136"})
    )
    found = words("".join(one.html for one in nodes_sections(shown([node], []))))
    assert "22.6Gi of 22.6Gi" in found and "24265691136" not in found
    assert "1 node " in found


def test_groups_of_a_set_on_a_node_share_a_line() -> None:
    pods = [member(f"llm-{number}", "n-0", 1, group=number) for number in (0, 1, 2, 5)]
    html = "".join(one.html for one in nodes_sections(shown([machine("n-0")], pods)))
    assert "groups 0–2, 5" in html
    assert html.count("/dashboard/sets/default/llm") == 1


def test_a_bar_shows_what_the_words_beside_it_say() -> None:
    pod = member("llm-0", "n-0", 2, group=0)
    html = "".join(one.html for one in nodes_sections(shown([machine("n-0")], [pod])))
    found = re.findall(r'width="([\d.]+)" height="6" class="full"', html)
    labels = re.findall(r'class="free-bar".*?aria-label="(\d+) of (\d+) nvidia.com/gpu free"', html)
    assert labels and "requested" not in html
    free, whole = map(int, labels[0])
    assert float(found[0]) == round(100 * free / whole, 1)


def test_racks_are_within_their_zone() -> None:
    zone, rack = "topology.kubernetes.io/zone", "example.com/rack"
    nodes = [machine(f"n-{one}", **{zone: f"zone-{one // 2}", rack: f"r{one}"}) for one in range(4)]
    sections = nodes_sections(shown(nodes, []))
    assert [one.id for one in sections] == ["nodes-head", "domain-0", "domain-1"]
    assert "zone-0" in sections[1].html and "rack r0" in sections[1].html and "rack r1" in sections[1].html


# Failures


def test_a_group_whose_budget_is_used_up_is_marked() -> None:
    """Its pods may run again: only the mark says that it does not serve."""
    pod = PodBranch("llm-0", "leader", True, "1/1", "Running", 3, "sim-0", "10.0.0.1", 60)
    group = GroupBranch(0, False, True, False, 1, "a", False, 1, [pod], held=True)
    drawn = group_grid([group], "", 1)
    assert 'class="cell bad"' in drawn
    assert "held" in words(drawn)
    waits = group_grid([msgspec.structs.replace(group, held=False, restart_at="2026-01-01T00:00:00Z")], "", 1)
    assert "restarts soon" in words(waits)


def test_subgroups_are_boxes_with_their_pods() -> None:
    pods = [
        PodBranch(f"llm-0-{one}", "worker" if one else "leader", True, "1/1", "Running", 0, "sim-0", "10.0.0.1", 60)
        for one in range(4)
    ]
    boxes = [Subgroup(0, ["llm-0-1", "llm-0-2"], 0), Subgroup(1, ["llm-0-3"], 1)]
    drawn = group_grid([GroupBranch(0, False, True, False, 1, "a", False, 5, pods, subgroups=boxes)], "", 5)
    first, second = re.findall(r'<li class="subgroup">(.*?)</ul></li>', drawn)
    assert "Subgroup 0" in first and first.count('class="pod ') == 2 and "llm-0-0" not in first
    assert "Subgroup 1" in second and second.count("pod missing") == 1
    assert drawn.count("pod leader") == drawn.count("pod missing") == 1


def test_the_newest_failure_shows_its_log_and_where_it_was() -> None:
    def failure(number: int, **more: Json) -> GroupFailure:
        main = ContainerFailure("main", 137, log=f"end of {number}")
        of_pod = PodFailure("llm-0", "n-0", (main,), ("Started",))
        given = {"group": 0, "at": "2026-11-17T13:22:28Z", "reason": "PodRestarted", "leader": str(number)}
        return msgspec.structs.replace(msgspec.convert(given, GroupFailure), pods=(of_pod,), **more)

    page = FailuresPage(HEAD, True, [failure(0, held=True), failure(1, set="llm-x")])
    html = failures_sections(page)[1].html
    assert re.findall(r'<details id="failure-(\d)-llm-0-log-main"( open)?', html) == [("0", " open"), ("1", "")]
    newer = failures_sections(FailuresPage(HEAD, True, [failure(2), *page.failures]))[1].html
    assert re.findall(r'<details id="failure-(\d)-llm-0-events"', newer) == ["2", "0", "1"]  # each keeps its id
    said = words(html)
    assert "2026-11-17 13:22:28 UTC" in said and "held" in said
    assert "of the new version, llm-x" in said
