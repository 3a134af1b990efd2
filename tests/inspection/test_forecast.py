"""What an edit would do."""

from collections.abc import Callable, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import LeaderWorkerSet, lws
from tests.inspection.scenes import group_set, leader_set, member, revision, scene, workers
from tests.work import instructions

from kohort.inspection.forecast import Forecast, SetChange, differences, forecast, forecast_lines, three_way
from kohort.inspection.peak_demand import group_requests
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Node
from kohort.objects.json_types import JsonObject
from kohort.rollouts.rollout_types import Rollout
from kohort.rollouts.workloads.group_hold import hold, keep_held

IMAGE = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.image"


def foresee(before: JsonObject, after: JsonObject) -> Forecast:
    subject = group_set(before)
    snapshot = scene(subject.replicas, subject.template.size, built=before)
    return forecast(snapshot, group_set(after))


def moves(found: Forecast) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]]:
    return [(step.created, step.recreated, step.removed, step.serving) for step in found.steps]


def test_a_new_set() -> None:
    found = forecast(None, group_set(lws("llm").replicas(2).size(4)))
    assert (found.action, found.extra_groups, found.extra_pods) == ("create", 2, 8)
    assert moves(found) == [((0, 1), (), (), 0)]


def test_nothing() -> None:
    found = foresee(lws("llm").replicas(2).size(2), lws("llm").replicas(2).size(2))
    assert (found.action, found.steps) == ("nothing", [])
    assert forecast_lines(found) == ["LeaderWorkerSet llm would not change."]


def test_a_roll_without_surge_takes_one_group_after_the_other() -> None:
    before = lws("llm").replicas(3).size(2)
    found = foresee(before, before.but(IMAGE, "new:2"))
    assert found.action == "roll"
    assert moves(found) == [((), (2,), (), 2), ((), (1,), (), 2), ((), (0,), (), 2)]
    assert (found.recreated, found.pods_recreated, found.extra_pods, found.fewest_serving) == ((2, 1, 0), 6, 0, 2)


def test_a_surge_first_makes_room() -> None:
    before = lws("llm").replicas(2).size(4).max_surge(1).max_unavailable(0)
    found = foresee(before, before.but(IMAGE, "new:2"))
    assert moves(found)[0] == ((2,), (), (), 2)
    assert moves(found)[-1][2] == (2,)
    assert (found.extra_groups, found.extra_pods) == (1, 4)
    assert found.fewest_serving == 2


def test_the_partition_holds() -> None:
    before = lws("llm").replicas(4).size(1).partition(2)
    found = foresee(before, before.but(IMAGE, "new:2"))
    assert (found.recreated, found.held) == ((3, 2), (0, 1))
    assert "Held at the old revision by the partition: groups 0, 1." in forecast_lines(found)


def test_scaling_recreates_nothing() -> None:
    before = lws("llm").replicas(2).size(2)
    up, down = foresee(before, before.replicas(4)), foresee(before, before.replicas(1))
    assert (up.action, moves(up), up.extra_pods) == ("scale", [((2, 3), (), (), 2)], 4)
    assert (down.action, moves(down), down.extra_pods) == ("scale", [((), (), (1,), 1)], 0)


def test_a_strategy_touches_no_group() -> None:
    before = lws("llm").replicas(2).size(2)
    found = foresee(before, before.max_surge(1))
    assert (found.action, found.recreated) == ("configure", ())


def test_a_new_size_recreates() -> None:
    before = lws("llm").replicas(1).size(2)
    found = foresee(before, before.size(3))
    assert (found.action, found.resized, found.pods_recreated) == ("roll", (2, 3), 2)


REQUESTS = "spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources"


@pytest.mark.parametrize(
    ("surge", "size", "cpu", "pods", "needed", "said"),
    [
        # The last of two groups to be recreated needs what both of the new ones have more.
        (0, 3, "1", 2, "2", "Room needed on top of today's: 2 pods (cpu 2)."),
        (0, 2, "3", 0, "8", "Room needed on top of today's: cpu 8."),
        # The surge group stands while both others are already new.
        (1, 3, "1", 5, "5", "Room needed on top of today's: 1 group, 5 pods (cpu 5)."),
        (0, 1, "1", 0, None, ""),
    ],
)
def test_groups_that_grow_need_room(surge: int, size: int, cpu: str, pods: int, needed: str | None, said: str) -> None:
    before = lws("llm").replicas(2).size(2).max_surge(surge).but(REQUESTS, {"requests": {"cpu": "1"}})
    found = foresee(before, before.size(size).but(REQUESTS, {"requests": {"cpu": cpu}}))
    assert (found.extra_pods, found.extra_requests.get("cpu")) == (pods, needed)
    assert [line for line in forecast_lines(found) if line.startswith("Room needed")] == ([said] if said else [])
    replaced = f"2 groups recreated (4 pods replaced by {2 * size});" if size != 2 else "2 groups recreated (4 pods);"
    assert any(line.startswith(replaced) for line in forecast_lines(found))


@pytest.mark.parametrize("written", [{}, {"maxSurge": 1, "maxUnavailable": 0, "partition": 0}])
def test_the_hold_of_a_rollout_is_not_an_edit(written: JsonObject) -> None:
    stored = {"partition": 0, "maxUnavailable": 1, "maxSurge": 0, **written}
    before = lws("llm").replicas(2).size(2).but("spec.rolloutStrategy.type", "RollingUpdate")
    before = before.but("spec.rolloutStrategy.rollingUpdateConfiguration", stored)
    edited = before.but(IMAGE, "new:2").but("spec.rolloutStrategy.rollingUpdateConfiguration", written or None)
    rollout = msgspec.convert({"metadata": {"name": "llm"}}, Rollout)
    found = forecast(scene(2, built=before, rollout=rollout), group_set(hold(edited, before, "llm", "a")))
    assert [change.after for change in found.changes] == ["new:2"]


def test_an_edit_of_the_strategy_under_the_hold_is_listed() -> None:
    stored = {"partition": 0, "maxUnavailable": 0, "maxSurge": 1}
    before = lws("llm").replicas(2).size(2).but("spec.rolloutStrategy.rollingUpdateConfiguration", stored)
    held = hold(before.but(IMAGE, "new:2"), before, "llm", "a")
    edit = msgspec.to_builtins(held)
    edit["spec"]["rolloutStrategy"]["rollingUpdateConfiguration"]["maxSurge"] = 2
    rollout = msgspec.convert({"metadata": {"name": "llm"}}, Rollout)
    found = forecast(scene(2, built=held, rollout=rollout), group_set(keep_held(edit, held)))
    assert [(one.path.rpartition(".")[2], one.before, one.after) for one in found.changes] == [("maxSurge", 1, 2)]


def test_another_spelling_is_not_listed_as_an_edit() -> None:
    """A revision that `kohort undo` brings back is stored in canonical form."""
    gpus, claims = f"{IMAGE.rpartition('.')[0]}.resources", "spec.leaderWorkerTemplate.volumeClaimTemplates"
    claim = {"metadata": {"name": "cache"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    before = lws("llm").replicas(2).size(2).but(gpus, {"limits": {"nvidia.com/gpu": "2"}})
    before = before.but(claims, [{**claim, "status": {}}])
    after = before.but(gpus, {"limits": {"nvidia.com/gpu": 2}}).but(claims, [claim]).but(IMAGE, "new:2")
    assert [change.after for change in foresee(before, after).changes] == ["new:2"]


def test_a_rollback_is_recognised() -> None:
    old, new = lws("llm").replicas(1).size(2), lws("llm").replicas(1).size(2).but(IMAGE, "new:2")
    snapshot = scene(1, built=new, revisions=[revision(old, 4, "a"), revision(new, 5)])
    assert forecast(snapshot, group_set(old)).returns_to == 4


@given(
    replicas=st.integers(1, 8),
    surge=st.integers(0, 3),
    unavailable=st.integers(0, 3),
    partition=st.integers(0, 9),
)
def test_every_roll_ends_and_keeps_its_promise(replicas: int, surge: int, unavailable: int, partition: int) -> None:
    before = lws("llm").replicas(replicas).size(2).max_surge(surge).max_unavailable(unavailable).partition(partition)
    subject = group_set(before)
    found = foresee(before, before.but(IMAGE, "new:2"))
    assert sorted(found.recreated) == list(range(min(partition, replicas), replicas))
    assert found.held == tuple(range(min(partition, replicas)))
    assert found.fewest_serving >= replicas - subject.unavailable
    assert found.extra_groups <= subject.surge


def test_requests_of_groups() -> None:
    resources = {"requests": {"nvidia.com/gpu": "8", "cpu": "500m"}}
    built = lws("llm").size(4).but("spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.resources", resources)
    found = group_requests(group_set(built).template, 2)
    assert {name: str(amount) for name, amount in found.items()} == {"nvidia.com/gpu": "64", "cpu": "4"}


def test_a_roll_under_way_goes_on_from_where_it_is() -> None:
    built = lws("llm").replicas(3).size(1)
    snapshot = scene(3, 1, built=built, stateful_sets=[leader_set(3, 2, revision="other")])
    assert sorted(forecast(snapshot, group_set(built)).recreated) == [0, 1, 2]


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [SetChange(".a", 1, 2)]),
        ({}, {"a": {"b": 1}}, [SetChange(".a", None, {"b": 1})]),
        (
            {"c": [{"name": "x", "image": "1"}]},
            {"c": [{"name": "x", "image": "2"}]},
            [SetChange(".c[x].image", "1", "2")],
        ),
        ({"c": [1, 2]}, {"c": [1]}, [SetChange(".c[1]", 2, None)]),
    ],
)
def test_differences(before: JsonObject, after: JsonObject, changes: list[SetChange]) -> None:
    assert differences(before, after) == changes


@pytest.mark.parametrize(
    ("last", "live", "wanted", "patch"),
    [
        ({}, {"a": 1}, {"a": 1}, {}),
        ({}, {"a": 1, "others": 2}, {"a": 3}, {"a": 3}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": 1, "b": 2}, {"a": 1}, {"a": 1}, {}),
        ({"s": {"x": 1, "y": 1}}, {"s": {"x": 1, "y": 1, "z": 1}}, {"s": {"x": 2}}, {"s": {"x": 2, "y": None}}),
        ({}, {"l": [1, 2]}, {"l": [1]}, {"l": [1]}),
    ],
)
def test_what_kubectl_apply_would_send(
    last: JsonObject, live: JsonObject, wanted: JsonObject, patch: JsonObject
) -> None:
    assert three_way(last, live, wanted) == patch


def wanting(replicas: int, size: int = 2) -> LeaderWorkerSet:
    return lws("llm").replicas(replicas).size(size).but(REQUESTS, {"requests": {"cpu": "1"}})


def with_three_groups(replicas: int) -> Snapshot:
    """So many groups are wanted, and the first three exist."""
    pods = [member(group, worker) for group in range(3) for worker in range(2)]
    sets = [leader_set(replicas), *(workers(group) for group in range(3))]
    return scene(built=wanting(replicas), pods=pods, stateful_sets=sets)


EDITS: Mapping[str, Callable[[int], Forecast]] = {
    "create": lambda count: forecast(None, group_set(wanting(count))),
    "grow": lambda count: forecast(scene(3, built=wanting(3)), group_set(wanting(count))),
    "grow and roll": lambda count: forecast(scene(3, built=wanting(3)), group_set(wanting(count).but(IMAGE, "new:2"))),
    "shrink": lambda count: forecast(with_three_groups(count), group_set(wanting(2))),
}


@pytest.mark.parametrize("edit", EDITS)
def test_groups_that_do_not_exist_cost_no_work_and_fill_no_page(edit: str) -> None:
    few, many = 5_000, 1_000_000
    before = instructions(lambda: EDITS[edit](few))
    assert instructions(lambda: EDITS[edit](many)) < 1.01 * before
    assert len(msgspec.json.encode(EDITS[edit](many))) < 20_000


def test_a_roll_of_a_million_groups_of_which_three_exist_has_a_bounded_number_of_steps() -> None:
    after = wanting(1_000_000).max_unavailable(50).but(IMAGE, "new:2")
    found = forecast(with_three_groups(1_000_000), group_set(after))
    assert len(found.steps) < 50
    assert found.recreated[-1] == 0 and len(found.recreated) + found.left_out == 1_000_000


def test_groups_that_are_not_listed_need_room_all_the_same() -> None:
    before, after = scene(3, built=wanting(3)), group_set(wanting(1_000_000))
    found = forecast(before, after)
    assert (found.extra_groups, found.extra_pods, found.left_out) == (999_997, 1_999_994, 998_997)
    assert found.extra_requests["cpu"] == "1999994"
    lines = forecast_lines(found)
    assert "  1. create groups 3 to 1002 (3 groups ready meanwhile)" in lines
    assert "  Not listed: 998997 more groups that do not exist yet." in lines


@pytest.mark.parametrize(("cpus", "homeless"), [(1500, 1), (1501, 0), (1498, 3)])
def test_groups_that_are_not_listed_are_placed_on_nodes(cpus: int, homeless: int) -> None:
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"cpu": str(cpus), "pods": "10000"}, "conditions": [ready]}
    machine = msgspec.convert({"metadata": {"name": "large"}, "status": status}, Node)
    found = forecast(None, group_set(wanting(1501, size=1)), [machine])
    assert found.room is not None
    assert (found.room.fits, found.room.homeless) == (not homeless, homeless)


def test_a_roll_that_may_go_on_without_its_surge_is_not_said_to_wait_for_it() -> None:
    before = lws("llm").replicas(3).size(2).max_surge(1).max_unavailable(1).partition(2)
    found = foresee(before, before.but(IMAGE, "new:2"))
    assert [(step.created, step.recreated, step.serving) for step in found.steps] == [((3,), (), 3), ((), (2,), 2)]
    assert found.fewest_serving == 2


def test_a_roll_that_cannot_go_on_without_its_surge_waits_for_it() -> None:
    before = lws("llm").replicas(3).size(2).max_surge(1).max_unavailable(0)
    assert foresee(before, before.but(IMAGE, "new:2")).fewest_serving == 3
