"""Sets with hundreds of groups: what a page costs grows with its pods and no faster, and what it draws is bounded."""

import sys
from types import FrameType

import pytest
from tests.builders import lws, pod

from kohort.dashboard.fleet import row_of
from kohort.dashboard.pages.set import set_sections
from kohort.dashboard.resize_page import resize_page
from kohort.dashboard.set_page import MOST_PODS_AT_ONCE, logs_page, set_page
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.tree import drawn
from kohort.kube import clock
from kohort.objects.core import Pod
from kohort.objects.json_types import Json
from kohort.rules import group_labels


def large(groups: int, size: int) -> Snapshot:
    pods = []
    for group in range(groups):
        for worker in range(size):
            indexes = {group_labels.GROUP_INDEX: str(group), group_labels.WORKER_INDEX: str(worker)}
            name = f"llm-{group}-{worker}" if worker else f"llm-{group}"
            made = pod(name).labels({group_labels.NAME: "llm", **indexes}).on(f"node-{group}")
            pods.append(made.as_view(Pod))
    return Snapshot(lws("llm").replicas(groups).size(size).as_view(LeaderWorkerSet), pods=pods)


def calls_for(groups: int) -> int:
    snapshot, count = large(groups, 4), 0

    def called(frame: FrameType, event: str, argument: Json) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        model, causes = set_page(snapshot, clock.now())
        set_sections(model, causes, ())
        resize_page(snapshot, clock.now())
    finally:
        sys.setprofile(before)
    return count


def test_what_a_page_costs_grows_with_its_pods_and_no_faster() -> None:
    assert calls_for(200) < 5 * calls_for(50)


@pytest.mark.parametrize(("groups", "size", "pages"), [(30, 16, 1), (200, 16, 7), (3, 1000, 3), (480, 1, 1)])
def test_a_page_draws_a_bounded_number_of_pods(groups: int, size: int, pages: int) -> None:
    snapshot = large(groups, size)
    shown = []
    for number in range(1, pages + 1):
        model, causes = set_page(snapshot, clock.now(), number)
        assert (model.page, model.pages, len(model.groups.groups)) == (number, pages, groups)
        sections = {one.id: one for one in set_sections(model, causes, ())}
        assert ("all-groups" in sections) == (pages > 1)
        assert len(sections["groups"].parts) * size <= max(MOST_PODS_AT_ONCE, size)
        shown += [one.id for one in sections["groups"].parts]
    assert shown == [f"group-{index}" for index in range(groups)]
    if pages > 1:
        assert str(sections["all-groups"].html).count("<li>") == groups


@pytest.mark.parametrize(("replicas", "size"), [(2**31 - 1, 1), (1, 2**31 - 1), (2, 2**30 - 1)])
def test_a_set_that_wants_billions_of_pods_costs_others_nothing(replicas: int, size: int) -> None:
    """Any user who may create a set in one namespace writes these numbers, and the fleet of all users shows it."""
    made = lws("llm").replicas(replicas).size(size).subgroups(1)
    leader = {group_labels.NAME: "llm", group_labels.GROUP_INDEX: "0", group_labels.WORKER_INDEX: "0"}
    snapshot = Snapshot(made.as_view(LeaderWorkerSet), pods=[pod("llm-0").labels(leader).on("n").as_view(Pod)])
    now = clock.now()
    assert row_of(snapshot, now).wanted == replicas
    model, causes = set_page(snapshot, now)
    html = "".join(one.html for one in set_sections(model, causes, ()))
    assert len(html) < 2_000_000
    assert len(model.groups.groups) + model.groups.left_out == replicas
    assert len("\n".join(drawn(model.groups))) < 1_000_000
    assert "more" in html
    logs_page(snapshot, now, None, "")
    resize_page(snapshot, now)


def test_a_page_beyond_the_last_is_the_last() -> None:
    assert set_page(large(61, 16), clock.now(), 99)[0].page == 3
    assert set_page(large(0, 16), clock.now(), 99)[0].page == 1
