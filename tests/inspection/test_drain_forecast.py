"""What a drain would do to groups, in which order."""

from tests.builders import LeaderWorkerSet, lws
from tests.builders import pod as built_pod

from kohort.groups.leaderworkerset import LeaderWorkerSet as SetView
from kohort.inspection.drain_forecast import DrainForecast, drain_lines, forecast_drain
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Pod
from kohort.rules import group_labels


def leader(index: int, node: str, *, ready: bool = True) -> Pod:
    labels = {group_labels.NAME: "llm", group_labels.GROUP_INDEX: str(index), group_labels.WORKER_INDEX: "0"}
    return built_pod(f"llm-{index}").labels(labels).on(node).ready(ready).as_view(Pod)


def drained(subject: LeaderWorkerSet, *pods: Pod) -> DrainForecast:
    group_set = subject.size(1).namespaced("default").as_view(SetView)
    return forecast_drain("a", [one for one in pods if one.spec.node_name == "a"], [Snapshot(group_set, pods)])


def turns(forecast: DrainForecast) -> list[tuple[int | None, int]]:
    return [(one.turn, one.group) for one in forecast.groups]


def guarded(limit: int | str) -> LeaderWorkerSet:
    return lws("llm").replicas(4).but("spec.disruptionBudget", {"maxUnavailable": limit})


def test_all_at_once_without_a_budget() -> None:
    found = drained(lws("llm").replicas(4), *(leader(index, "a") for index in range(4)))
    assert turns(found) == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert found.ends


def test_group_by_group_with_one() -> None:
    assert turns(drained(guarded(1), *(leader(index, "a") for index in range(4)))) == [(1, 0), (2, 1), (3, 2), (4, 3)]
    assert turns(drained(guarded(3), *(leader(index, "a") for index in range(4)))) == [(1, 0), (1, 1), (1, 2), (2, 3)]


def test_groups_that_are_away_go_first_and_count() -> None:
    found = drained(guarded(1), leader(0, "a"), leader(1, "a", ready=False), leader(2, "b"), leader(3, "b"))
    assert turns(found) == [(1, 1), (2, 0)]
    assert found.groups[0].why == "it is not ready already"
    assert found.groups[1].waits_for == ["group 1"]


def test_a_drain_that_does_not_end() -> None:
    found = drained(guarded(0), *(leader(index, "a") for index in range(4)))
    assert {turn for turn, _ in turns(found)} == {None}
    assert not found.ends
    assert drain_lines(found)[-1].startswith("the drain does not end: raise spec.disruptionBudget.maxUnavailable")


def test_pods_without_a_group_are_named() -> None:
    other = built_pod("web", "shop").on("a").as_view(Pod)
    found = forecast_drain("a", [other], [])
    assert drain_lines(found) == ["drain of node a: 0 pods of 0 groups, 1 other pods", "  other pods: shop/web"]
