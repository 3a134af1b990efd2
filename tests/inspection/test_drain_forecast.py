"""What a drain would do to groups, in which order."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import LeaderWorkerSet, lws
from tests.builders import pod as built_pod

from kohort.groups.leaderworkerset import LeaderWorkerSet as SetView
from kohort.inspection.drain_forecast import DrainForecast, drain_lines, forecast_drain
from kohort.inspection.node_bound_claims import node_bound_claims
from kohort.inspection.snapshot import Snapshot
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.policy import PodDisruptionBudget
from kohort.objects.volumes import PersistentVolume, PersistentVolumeClaim, Volume
from kohort.rules import group_labels


def leader(index: int, node: str, *, ready: bool = True) -> Pod:
    labels = {group_labels.NAME: "llm", group_labels.GROUP_INDEX: str(index), group_labels.WORKER_INDEX: "0"}
    return built_pod(f"llm-{index}").labels(labels).on(node).ready(ready).as_view(Pod)


def drained(subject: LeaderWorkerSet, *pods: Pod, since: str = "") -> DrainForecast:
    group_set = subject.size(1).namespaced("default").as_view(SetView)
    here = [one for one in pods if one.spec.node_name == "a"]
    return forecast_drain("a", here, [Snapshot(group_set, pods)], not_ready_since=since)


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
    assert found.groups[0].why == "it is already not ready"
    assert found.groups[1].waits_for == ["group 1"]


def test_a_drain_that_does_not_end() -> None:
    found = drained(guarded(0), *(leader(index, "a") for index in range(4)))
    assert {turn for turn, _ in turns(found)} == {None}
    assert not found.ends
    assert drain_lines(found)[-1].startswith("the drain does not end: raise spec.disruptionBudget.maxUnavailable")


def test_pods_without_a_group_are_named() -> None:
    other = built_pod("web", "shop").on("a").as_view(Pod)
    found = forecast_drain("a", [other], [])
    assert drain_lines(found) == ["drain of node a: 0 pods of 0 groups, 1 other pod", "  other pods: shop/web"]


def volume(name: str, *nodes: str) -> PersistentVolume:
    """A volume that these nodes reach; without any, all do."""
    made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {}}
    if nodes:
        field = {"key": "metadata.name", "operator": "In", "values": list(nodes)}
        made["spec"] = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [field]}]}}}
    return msgspec.convert(made, PersistentVolume)


def claim(name: str, volume_name: str) -> PersistentVolumeClaim:
    metadata = {"name": name, "namespace": "default"}
    return msgspec.convert({"metadata": metadata, "spec": {"volumeName": volume_name}}, PersistentVolumeClaim)


def nodes(*names: str, cordoned: str = "") -> list[Node]:
    return [
        msgspec.convert({"metadata": {"name": name}, "spec": {"unschedulable": name == cordoned}}, Node)
        for name in names
    ]


def test_claims_that_only_the_drained_node_reaches() -> None:
    claims = [claim("here", "v1"), claim("both", "v2"), claim("any", "v3"), claim("pending", ""), claim("lost", "v9")]
    volumes = [volume("v1", "a"), volume("v2", "a", "b"), volume("v3")]
    assert node_bound_claims("a", nodes("a", "b"), claims, volumes) == {("default", "here")}
    assert node_bound_claims("a", nodes("a", "b", cordoned="b"), claims, volumes) == {
        ("default", "here"),
        ("default", "both"),
    }, "a node that takes no pods does not help"


def with_claim(pod: Pod, name: str) -> Pod:
    source = msgspec.convert({"name": "weights", "persistentVolumeClaim": {"claimName": name}}, Volume)
    return replace(pod, spec=replace(pod.spec, volumes=(source,)))


def test_groups_with_volumes_of_the_node_stay_away_and_use_up_the_budget() -> None:
    group_set = guarded(2).size(1).namespaced("default").as_view(SetView)
    pods = [leader(0, "a"), with_claim(leader(1, "a"), "w-1"), with_claim(leader(2, "a"), "w-2"), leader(3, "a")]
    bound = frozenset({("default", "w-1"), ("default", "w-2")})
    found = forecast_drain("a", pods, [Snapshot(group_set, pods)], bound)
    assert turns(found) == [(1, 0), (1, 1), (2, 2), (None, 3)]
    lines = drain_lines(found)
    assert lines[2].endswith("llm-1; llm-1 cannot start elsewhere: only this node reaches the volume of w-1")
    assert lines[4].endswith("llm-3; groups 1, 2 do not come back while the node is drained")
    assert lines[5].startswith("groups with such volumes are not ready until the node is uncordoned")
    assert not found.ends


def test_a_claim_of_another_node_is_not_mentioned() -> None:
    pods = [with_claim(leader(0, "a"), "w-0")]
    group_set = guarded(1).size(1).namespaced("default").as_view(SetView)
    found = forecast_drain("a", pods, [Snapshot(group_set, pods)], frozenset({("other", "w-0")}))
    assert found.ends and "cannot start elsewhere" not in "".join(drain_lines(found))


def holding(subject: LeaderWorkerSet, *groups: int) -> LeaderWorkerSet:
    """A set whose groups are held."""
    records = {
        str(index): {"exhausted": {"leader": f"uid-{index}", "at": "2026-01-01T00:00:00Z", "restarts": 1}}
        for index in groups
    }
    return subject.but("spec.leaderWorkerTemplate.restartBudget", {"maxRestarts": 1}).but("status.restarts", records)


def identified(index: int, node: str) -> Pod:
    found = leader(index, node)
    return replace(found, metadata=replace(found.metadata, uid=f"uid-{index}"))


def test_a_held_group_keeps_its_place_of_the_budget() -> None:
    pods = [identified(0, "a"), identified(1, "b"), identified(2, "a"), identified(3, "b")]
    found = drained(holding(guarded(1), 1), *pods)
    assert turns(found) == [(None, 0), (None, 2)]
    assert not found.ends
    assert found.groups[0].why == "group 1 does not come back by itself, because it is held"
    assert drain_lines(found)[-1] == (
        "the drain does not end before held groups are restarted: kohort restart llm -n default --group 1"
    )
    assert turns(drained(holding(guarded(2), 1), *pods)) == [(1, 0), (2, 2)]


def test_a_held_group_whose_leader_goes_with_the_node_comes_back() -> None:
    found = drained(holding(guarded(1), 0), identified(0, "a"), identified(1, "a"), identified(2, "b"))
    assert turns(found) == [(1, 0), (2, 1)]
    assert found.ends


def test_a_drain_of_a_lost_node_does_not_end() -> None:
    since = "2026-01-01T00:00:00Z"
    found = drained(guarded(1), leader(0, "a"), leader(1, "b"), since=since)
    assert turns(found) == [(None, 0)]
    assert f"its node has not been ready since {since}" in found.groups[0].why
    assert drain_lines(found)[-1].endswith(
        "kubectl taint node a node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    )
    forced = guarded(1).but("spec.leaderWorkerTemplate.restartBudget", {"forceDeleteOnNodeLoss": True})
    assert drained(forced, leader(0, "a"), leader(1, "b"), since=since).ends
    other = built_pod("web", "shop").on("a").as_view(Pod)
    assert not forecast_drain("a", [other], [], not_ready_since=since).ends


def test_turns_begin_at_1_also_if_the_first_one_waits() -> None:
    found = drained(guarded(1), leader(0, "a"), leader(1, "a"), leader(2, "b", ready=False), leader(3, "b"))
    assert [(one.turn, one.group, one.waits_for) for one in found.groups] == [
        (1, 0, ["group 2"]),
        (2, 1, ["group 0"]),
    ]


def test_surge_groups_that_are_not_ready_go_at_once() -> None:
    """The webhook lets them go, whatever the budget says: they are not of the wanted groups."""
    ready = [leader(index, "b") for index in range(1, 4)]
    found = drained(guarded(1), leader(0, "b", ready=False), *ready, leader(4, "a", ready=False))
    assert [(one.turn, one.group, one.why) for one in found.groups] == [(1, 4, "it is already not ready")]
    assert drained(guarded(0), *ready, leader(0, "b"), leader(4, "a", ready=False)).ends


def test_surge_groups_take_no_place_of_the_budget() -> None:
    ready = [leader(index, "a" if index == 0 else "b") for index in range(4)]
    assert turns(drained(guarded(2), *ready, leader(4, "a"), leader(5, "a"))) == [(1, 0), (1, 4), (1, 5)]
    assert turns(drained(guarded(1), *ready, leader(4, "a"), leader(5, "a"))) == [(1, 0), (2, 4), (2, 5)]


@given(st.integers(0, 4), st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=7))
def test_no_turn_takes_more_groups_than_the_budget_leaves(limit: int, groups: list[tuple[bool, bool]]) -> None:
    """Four groups are wanted; those beyond are surge groups."""
    pods = [leader(index, "a" if here else "b", ready=ready) for index, (here, ready) in enumerate(groups)]
    found = drained(guarded(limit), *pods)
    away = {index for index in range(4) if index >= len(pods) or not pods[index].ready}
    for number in {one.turn for one in found.groups if one.turn is not None}:
        taken = {one.group: one for one in found.groups if one.turn == number and one.group in set(range(4)) - away}
        beside = 0 if any(one.waits_for for one in taken.values()) else len(away)
        assert not taken or len(taken) + beside <= limit
    assert found.ends or limit == 0


def test_scripts_find_the_turn_of_every_group() -> None:
    found = drained(lws("llm").replicas(1), leader(0, "a"))
    assert msgspec.to_builtins(found)["groups"][0]["turn"] == 1


# PodDisruptionBudgets of users


def budget(name: str, owner: SetView | None = None, namespace: str = "default", **status: int) -> PodDisruptionBudget:
    document: JsonObject = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": {}}}
    if owner is not None:
        document["metadata"]["ownerReferences"] = [owner.owner_reference()]
    return msgspec.convert({**document, "status": status}, PodDisruptionBudget)


def drained_with(*budgets: PodDisruptionBudget) -> DrainForecast:
    group_set = guarded(2).size(1).namespaced("default").as_view(SetView)
    pods = [leader(index, "a") for index in range(2)]
    pods = [replace(one, metadata=replace(one.metadata, namespace="default")) for one in pods]
    return forecast_drain("a", pods, [Snapshot(group_set, pods)], budgets=budgets)


def test_a_second_budget_keeps_a_drain_from_ending() -> None:
    group_set = guarded(2).size(1).namespaced("default").as_view(SetView)
    found = drained_with(budget("llm", group_set), budget("everything", disruptionsAllowed=1))
    assert (turns(found), found.ends) == ([(None, 0), (None, 1)], False)
    assert found.groups[0].why == (
        "PodDisruptionBudgets llm and everything select llm-0, and Kubernetes evicts no pod that more than one selects"
    )
    assert drain_lines(found)[-1] == (
        "the drain does not end before PodDisruptionBudget default/everything is changed or deleted"
    )


def test_a_budget_that_never_allows_anything_keeps_a_drain_from_ending() -> None:
    found = drained_with(budget("everything", disruptionsAllowed=0, currentHealthy=2, expectedPods=2))
    assert (turns(found), found.ends) == ([(None, 0), (None, 1)], False)


def test_budgets_that_leave_room_sooner_or_later_do_not() -> None:
    assert drained_with(budget("everything", disruptionsAllowed=1, currentHealthy=2, expectedPods=2)).ends
    assert drained_with(budget("everything", disruptionsAllowed=0, currentHealthy=1, expectedPods=2)).ends
    assert drained_with(budget("one"), budget("other", namespace="elsewhere")).ends
    assert drained_with(budget("llm", guarded(2).namespaced("default").as_view(SetView))).ends


def test_namespaces_whose_budgets_are_not_known_are_named() -> None:
    pods = [built_pod(f"web-{number}", f"shop-{number}").on("a").ready(True).as_view(Pod) for number in range(2)]
    found = forecast_drain("a", pods, [], budgets_unknown_in=["shop-0", "elsewhere"])
    assert found.budgets_unknown_in == ["shop-0"]
    words = "PodDisruptionBudgets of namespace shop-0 are not known: you may not list them"
    assert drain_lines(found)[-1] == words


def test_a_drain_leaves_daemons_static_pods_and_what_has_finished() -> None:
    web = built_pod("web", "shop").on("a").ready(True)
    daemon = web.but("metadata.ownerReferences", [{"kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}])
    static = web.but("metadata.annotations", {"kubernetes.io/config.mirror": "x"})
    finished = web.but("status.phase", "Succeeded")
    pods = [one.as_view(Pod) for one in (daemon, static, finished)]
    both = [budget("one", None, "shop"), budget("two", None, "shop")]
    found = forecast_drain("a", pods, [], not_ready_since="2026-01-01T00:00:00Z", budgets=both)
    assert (found.others, found.blocked_pods, found.ends) == ([], [], True)


def test_budgets_of_pods_without_a_group_count() -> None:
    web = built_pod("web", "shop").on("a").ready(True).as_view(Pod)
    found = forecast_drain("a", [web], [], budgets=[budget("one", None, "shop"), budget("two", None, "shop")])
    assert not found.ends
    assert any(line.startswith("  never: shop/web; PodDisruptionBudgets one and two") for line in drain_lines(found))
