"""How many groups fit on the nodes that there are."""

import msgspec
import pytest

from kohort.objects.core import Node, Pod
from kohort.objects.json_types import Json, JsonObject
from kohort.rules.group_capacity import group_capacity

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int, *, ready: bool = True, labels: JsonObject | None = None, **spec: Json) -> Node:
    status = {
        "allocatable": {GPU: str(gpus), "cpu": "8", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    metadata = {"name": name, "labels": labels or {}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Node)


def pod(gpus: int, on: str = "", **spec: Json) -> Pod:
    container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}}
    return msgspec.convert({"spec": {"containers": [container], "nodeName": on, **spec}}, Pod)


TAINT = {"key": "gpu", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("nodes", "running", "group", "fitting"),
    [
        ([node("a", 8)], [], [pod(4), pod(4)], 1),
        ([node("a", 8), node("b", 8)], [], [pod(4), pod(4)], 2),
        ([node("a", 8), node("b", 8)], [pod(4, "a")], [pod(4), pod(4)], 1),
        ([node("a", 8), node("b", 8)], [pod(4, "a")], [pod(8)], 1),
        ([node("a", 8, ready=False), node("b", 8)], [], [pod(8)], 1),
        ([node("a", 8, unschedulable=True)], [], [pod(8)], 0),
        ([node("a", 8, taints=[TAINT])], [], [pod(8)], 0),
        ([node("a", 8, taints=[TAINT])], [], [pod(8, tolerations=[{"key": "gpu", "operator": "Exists"}])], 1),
        ([node("a", 8), node("b", 8, labels={"zone": "1"})], [], [pod(4, nodeSelector={"zone": "1"})], 2),
        ([], [], [pod(0)], 0),
    ],
)
def test_groups_that_fit(nodes: list[Node], running: list[Pod], group: list[Pod], fitting: int) -> None:
    found = group_capacity(nodes, running, group, 2)
    assert (found.fitting, found.enough) == (fitting, fitting == 2)


def test_what_is_lacking_is_named() -> None:
    assert group_capacity([node("a", 4)], [], [pod(8)], 1).lacking == (GPU,)
    assert group_capacity([node("a", 4, taints=[TAINT])], [], [pod(8)], 1).lacking == ()
