"""Messages are those that kube-scheduler 1.36 writes in the same situations."""

import random

import pytest
from tests.cluster.scheduler.scenery import (
    HOST,
    ZONE,
    anti_affinity,
    cluster,
    near,
    node,
    pod,
    required_nodes,
    spread,
)

from kohort.cluster.scheduler.decision import NodeChooser, Placement, Unschedulable, candidates_wanted
from kohort.cluster.scheduler.messages import unschedulable_message
from kohort.cluster.scheduler.preemption import NoEviction, find_eviction
from kohort.objects.json_types import JsonObject
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import PodInfo


def choose(info: PodInfo, state: ClusterState, seed: int = 1) -> Placement | Unschedulable:
    return NodeChooser(random.Random(seed)).choose(info, state)


def node_of(info: PodInfo, state: ClusterState) -> str:
    found = choose(info, state)
    assert isinstance(found, Placement), found
    return found.node


def complaint(info: PodInfo, state: ClusterState) -> str:
    found = choose(info, state)
    assert isinstance(found, Unschedulable)
    no_eviction = find_eviction(info, found, state)
    assert isinstance(no_eviction, NoEviction)
    return unschedulable_message(found, no_eviction)


NOBODY = "No preemption victims found for incoming pod"
HOPELESS = "Preemption is not helpful for scheduling"


def afterwards(text: str) -> str:
    return f" no new claims to deallocate, preemption: {text}"


def test_an_empty_cluster_has_its_own_message() -> None:
    assert complaint(pod(), cluster()) == "no nodes available to schedule pods"


def test_a_pod_that_wants_devices_waits_for_them() -> None:
    """Nobody allocates them here, and without them it would only seem to run."""
    wanting = pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}])
    assert complaint(wanting, cluster(node("n1"))).startswith(
        "0/1 nodes are available: the pod has resource claims, and this scheduler does not allocate devices."
    )


def test_reasons_are_counted_and_sorted() -> None:
    state = cluster(
        node("n1", "cpu=100m,memory=1Gi"),
        node("n2", unschedulable=True),
        node("n3", taints="k:NoSchedule"),
        node("n4", labels={"no": "x"}),
    )
    rule = required_nodes({"matchExpressions": [{"key": "no", "operator": "DoesNotExist"}]})
    assert complaint(pod("p", "cpu=1", affinity=rule), state) == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
        + afterwards(f"0/4 nodes are available: 4 {HOPELESS}.")
    )


def test_one_node_may_lack_several_things() -> None:
    state = cluster(node("n1", "cpu=1,memory=8Gi"), node("n2", "cpu=4,memory=1Gi"), node("n3", "cpu=1,memory=1Gi"))
    assert complaint(pod("p", "cpu=2,memory=2Gi"), state) == (
        "0/3 nodes are available: 2 Insufficient cpu, 2 Insufficient memory."
        + afterwards(f"0/3 nodes are available: 3 {HOPELESS}.")
    )


def test_preemption_says_what_it_found_on_each_node() -> None:
    state = cluster(
        node("n1", "cpu=4,memory=1Gi"),
        node("n2", "cpu=4,memory=1Gi,example.com/gpu=2"),
        on={"n2": [pod("there", "example.com/gpu=2")]},
    )
    assert complaint(pod("p", "example.com/gpu=1"), state) == (
        "0/2 nodes are available: 2 Insufficient example.com/gpu."
        + afterwards(f"0/2 nodes are available: 1 {NOBODY}, 1 {HOPELESS}.")
    )


def test_nodes_ruled_out_by_name_are_not_even_asked() -> None:
    rule = required_nodes({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n9"]}]})
    assert complaint(pod(affinity=rule), cluster(node("n1"), node("n2"))) == (
        "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
        + afterwards(f"0/2 nodes are available: 2 {HOPELESS}.")
    )


def test_a_pod_that_never_preempts_says_so() -> None:
    state = cluster(node("n1", "cpu=1,memory=1Gi"), on={"n1": [pod("low", "cpu=1")]})
    assert complaint(pod("p", "cpu=1", priority=10, preemptionPolicy="Never"), state) == (
        "0/1 nodes are available: 1 Insufficient cpu." + afterwards("not eligible due to preemptionPolicy=Never.")
    )


def test_the_emptier_node_is_better() -> None:
    state = cluster(node("n1"), node("n2"), on={"n1": [pod("there", "cpu=2,memory=4Gi")]})
    assert node_of(pod("p", "cpu=1,memory=2Gi"), state) == "n2"


def test_a_pod_goes_where_it_restores_the_balance() -> None:
    state = cluster(
        node("n1", "cpu=10,memory=10Gi"),
        node("n2", "cpu=10,memory=10Gi"),
        on={"n1": [pod("a", "cpu=5,memory=1Gi")], "n2": [pod("b", "cpu=1,memory=5Gi")]},
    )
    assert node_of(pod("p", "memory=2Gi"), state) == "n1"


def test_preferred_labels_attract() -> None:
    preferred = {"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    rule = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    state = cluster(node("n1"), node("n2", labels={"disk": "ssd"}), node("n3"))
    assert node_of(pod(affinity=rule), state) == "n2"


def test_soft_taints_repel() -> None:
    state = cluster(node("n1", taints="k:PreferNoSchedule"), node("n2"), node("n3", taints="k:PreferNoSchedule"))
    assert node_of(pod(), state) == "n2"
    tolerant = pod(tolerations=[{"key": "k", "operator": "Exists"}])
    assert {node_of(tolerant, state) for _ in range(3)} <= {"n1", "n2", "n3"}


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_preferences_between_pods_work_in_both_directions(kind: str) -> None:
    term = {"weight": 100, "podAffinityTerm": near({"app": "x"})}
    rule: JsonObject = {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    own = cluster(node("n1"), node("n2"), on={"n1": [pod("there", labels={"app": "x"})]})
    theirs = cluster(node("n1"), node("n2"), on={"n1": [pod("there", affinity=rule)]})
    expected = "n1" if kind == "podAffinity" else "n2"
    assert node_of(pod(affinity=rule), own) == expected
    assert node_of(pod(labels={"app": "x"}), theirs) == expected


def test_soft_constraints_spread_without_forbidding() -> None:
    nodes = [node(f"{zone}{i}", labels={ZONE: zone}) for zone in "abc" for i in range(2)]
    there = [pod(f"x{i}", labels={"app": "x"}) for i in range(3)]
    state = cluster(*nodes, on={"a0": there[:2], "b0": there[2:]})
    info = pod(labels={"app": "x"}, topologySpreadConstraints=[spread(when="ScheduleAnyway")])
    assert node_of(info, state) in {"c0", "c1"}


def test_pods_of_one_controller_spread_over_nodes_by_themselves() -> None:
    state = cluster(*(node(f"n{i}") for i in range(5)))
    chosen = []
    for number in range(5):
        info = pod(f"r{number}", owner="web")
        chosen.append(node_of(info, state))
        state.add_pod(info, chosen[-1])
    assert sorted(chosen) == ["n0", "n1", "n2", "n3", "n4"]


def test_a_large_image_draws_a_pod_to_the_node_that_has_it() -> None:
    images = {"image:latest": 900 * 2**20}
    state = cluster(node("n1"), node("n2", images=images))
    assert node_of(pod(), state) == "n2"


def test_equal_nodes_are_drawn_by_lot() -> None:
    state = cluster(node("n1"), node("n2"))
    found = {NodeChooser(random.Random(seed)).choose(pod(), state) for seed in range(20)}
    assert len(found) == 2


def test_a_promised_place_is_tried_first() -> None:
    state = cluster(node("n1"), node("n2"), on={"n2": [pod("there", "cpu=3")]})
    assert node_of(pod("p", "cpu=1", status={"nominatedNodeName": "n2"}), state) == "n2"


@pytest.mark.parametrize(("priority", "fits"), [(0, False), (10, False), (11, True)])
def test_room_that_was_promised_to_a_pod_is_respected_by_lesser_ones(priority: int, fits: bool) -> None:
    state = cluster(node("n1", "cpu=1,memory=1Gi"))
    state.nominate(pod("promised", "cpu=800m", priority=10), "n1")
    found = choose(pod("p", "cpu=500m", priority=priority), state)
    assert isinstance(found, Placement) is fits
    assert state.nodes["n1"].pods == {}


def test_a_pod_must_fit_without_those_that_are_only_promised() -> None:
    state = cluster(node("n1"))
    state.nominate(pod("promised", labels={"app": "db"}, priority=10), "n1")
    friend = pod("p", affinity={"podAffinity": anti_affinity(near({"app": "db"}))["podAntiAffinity"]})
    assert isinstance(choose(friend, state), Unschedulable)


def test_large_clusters_are_searched_in_turn() -> None:
    assert [candidates_wanted(nodes) for nodes in (1, 100, 101, 1000, 10_000)] == [1, 100, 100, 420, 500]
    state = cluster(*(node(f"n{i}") for i in range(300)))
    chooser = NodeChooser(random.Random(1))
    seen = set()
    for number in range(12):
        found = chooser.choose(pod(f"p{number}"), state)
        assert isinstance(found, Placement) and found.evaluated == 144
        seen.add(int(found.node[1:]) // 100)
    assert seen == {0, 1, 2}


def test_a_node_that_went_away_is_no_candidate() -> None:
    state = cluster(node("n1"), node("n2"), on={"n2": [pod("there")]})
    state.remove_node("n2")
    assert node_of(pod(), state) == "n1"
    state.remove_node("n1")
    assert choose(pod(), state) == Unschedulable(0)


def test_hostname_label_is_not_needed_for_names() -> None:
    rule = required_nodes({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]})
    assert node_of(pod(affinity=rule, nodeSelector={HOST: "n2"}), cluster(node("n1"), node("n2"))) == "n2"
