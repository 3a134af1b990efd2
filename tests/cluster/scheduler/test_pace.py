"""A thousand decisions a second on a hundred nodes, also with the rules that groups carry. CPU time, best of three."""

import random
import time
from collections.abc import Callable

import pytest
from tests.cluster.scheduler.scenery import HOST, ZONE, affinity, anti_affinity, cluster, node, pod, spread

from kohort.cluster.scheduler.decision import NodeChooser, Placement
from kohort.objects.json_types import JsonObject
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import PodInfo

SIZE = "cpu=64,memory=256Gi"
ASK = "cpu=500m,memory=1Gi"


def plain(number: int) -> PodInfo:
    return pod(f"p{number}", ASK, owner="web")


def spreading(number: int) -> PodInfo:
    return pod(f"p{number}", ASK, labels={"app": "x"}, topologySpreadConstraints=[spread()])


def exclusive(number: int) -> PodInfo:
    group = f"g{number // 8}"
    own: JsonObject = {"matchExpressions": [{"key": "group", "operator": "In", "values": [group]}]}
    foreign: JsonObject = {
        "matchExpressions": [
            {"key": "group", "operator": "Exists"},
            {"key": "group", "operator": "NotIn", "values": [group]},
        ]
    }
    rules = affinity({"labelSelector": own, "topologyKey": HOST})
    rules |= anti_affinity({"labelSelector": foreign, "topologyKey": HOST})
    return pod(f"p{number}", ASK, labels={"group": group}, affinity=rules)


def place_all(pods: list[PodInfo], state: ClusterState) -> float:
    chooser = NodeChooser(random.Random(1))
    started = time.process_time()
    for info in pods:
        found = chooser.choose(info, state)
        assert isinstance(found, Placement)
        state.assume(info, found.node)
    return time.process_time() - started


@pytest.mark.parametrize("kind", [plain, spreading, exclusive])
def test_a_thousand_decisions_a_second(kind: Callable[[int], PodInfo]) -> None:
    pods = [kind(number) for number in range(400)]
    nodes = [node(f"n{number}", SIZE, labels={ZONE: f"z{number % 10}"}) for number in range(100)]
    assert min(place_all(pods, cluster(*nodes)) for _ in range(3)) < 0.4
