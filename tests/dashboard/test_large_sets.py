"""Sets with hundreds of groups: what a page costs grows with its pods and no faster, and what it draws is bounded."""

import sys
from types import FrameType

import pytest
from tests.builders import lws, pod

from kohort.dashboard.pages.set import set_sections
from kohort.dashboard.resize_page import resize_page
from kohort.dashboard.set_page import MOST_PODS_AT_ONCE, set_page
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.inspection.snapshot import Snapshot
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
    drawn = []
    for number in range(1, pages + 1):
        model, causes = set_page(snapshot, clock.now(), number)
        assert (model.page, model.pages, len(model.groups.groups)) == (number, pages, groups)
        sections = {one.id: one for one in set_sections(model, causes, ())}
        assert ("all-groups" in sections) == (pages > 1)
        assert len(sections["groups"].parts) * size <= max(MOST_PODS_AT_ONCE, size)
        drawn += [one.id for one in sections["groups"].parts]
    assert drawn == [f"group-{index}" for index in range(groups)]
    if pages > 1:
        assert str(sections["all-groups"].html).count("<li>") == groups


def test_a_page_beyond_the_last_is_the_last() -> None:
    assert set_page(large(61, 16), clock.now(), 99)[0].page == 3
    assert set_page(large(0, 16), clock.now(), 99)[0].page == 1
