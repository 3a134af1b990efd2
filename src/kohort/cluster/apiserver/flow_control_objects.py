"""The FlowSchemas and PriorityLevelConfigurations that every API server has.

They say how Kubernetes would share its capacity. They are there because clients and administrators expect to find, list
and edit them.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from kohort.objects.json_types import JsonObject

_AUTO_UPDATE: Final = {"apf.kubernetes.io/autoupdate-spec": "true"}
_ALL: Final = ("*",)


class PriorityLevel(msgspec.Struct, frozen=True):
    """A priority level that limits what is served at once; without `queues` the surplus is refused."""

    name: str
    shares: int
    lendable: int
    queues: int = 0
    hand_size: int = 0

    def document(self) -> JsonObject:
        response: JsonObject = {"type": "Reject"}
        if self.queues:
            queuing = {"queues": self.queues, "handSize": self.hand_size, "queueLengthLimit": 50}
            response = {"type": "Queue", "queuing": queuing}
        limited = {
            "nominalConcurrencyShares": self.shares,
            "lendablePercent": self.lendable,
            "limitResponse": response,
        }
        return _level(self.name, {"type": "Limited", "limited": limited})


_LEVELS: Final = (
    PriorityLevel("catch-all", 5, 0),
    PriorityLevel("global-default", 20, 50, 128, 6),
    PriorityLevel("leader-election", 10, 0, 16, 4),
    PriorityLevel("node-high", 40, 25, 64, 6),
    PriorityLevel("system", 30, 33, 64, 6),
    PriorityLevel("workload-high", 40, 50, 128, 6),
    PriorityLevel("workload-low", 100, 90, 128, 6),
)


class FlowSchema(msgspec.Struct, frozen=True):
    """Which requests have which priority; without resource rules and paths, all of its subjects."""

    name: str
    level: str
    precedence: int
    subjects: tuple[JsonObject, ...]
    distinguisher: str = ""
    resources: tuple[JsonObject, ...] = ()
    paths: tuple[str, ...] = ()

    def document(self) -> JsonObject:
        rules: JsonObject = {"subjects": list(self.subjects)}
        if self.resources or not self.paths:
            rules["resourceRules"] = list(self.resources) or [_resources(_ALL, _ALL, _ALL, cluster=True)]
        if self.paths or not self.resources:
            verbs = ["get"] if self.paths else ["*"]
            rules["nonResourceRules"] = [{"verbs": verbs, "nonResourceURLs": list(self.paths or _ALL)}]
        spec: JsonObject = {
            "priorityLevelConfiguration": {"name": self.level},
            "matchingPrecedence": self.precedence,
            "rules": [rules],
        }
        if self.distinguisher:
            spec["distinguisherMethod"] = {"type": self.distinguisher}
        return {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": self.name, "annotations": dict(_AUTO_UPDATE)},
            "spec": spec,
        }


def flow_control_objects() -> list[JsonObject]:
    exempt: JsonObject = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    levels = [_level("exempt", {"type": "Exempt", "exempt": exempt}), *(one.document() for one in _LEVELS)]
    return [*levels, *(flow.document() for flow in _flows())]


def _flows() -> Iterable[FlowSchema]:
    all_users = (_group("system:unauthenticated"), _group("system:authenticated"))
    nodes = (_group("system:nodes"),)
    manager, scheduler = _user("system:kube-controller-manager"), _user("system:kube-scheduler")
    account: JsonObject = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": "*"}}
    leases = _resources(("get", "create", "update"), ("coordination.k8s.io",), ("leases",))
    node_leases = _resources(_ALL, ("coordination.k8s.io",), ("leases",))
    own_nodes = _resources(_ALL, ("",), ("nodes", "nodes/status"), cluster=True)
    return (
        FlowSchema("exempt", "exempt", 1, (_group("system:masters"),)),
        FlowSchema("probes", "exempt", 2, all_users, paths=("/healthz", "/readyz", "/livez")),
        FlowSchema(
            "system-leader-election", "leader-election", 100, (manager, scheduler, account), "ByUser", (leases,)
        ),
        FlowSchema("system-node-high", "node-high", 400, nodes, "ByUser", (own_nodes, node_leases)),
        FlowSchema("system-nodes", "system", 500, nodes, "ByUser"),
        FlowSchema("kube-controller-manager", "workload-high", 800, (manager,), "ByNamespace"),
        FlowSchema("kube-scheduler", "workload-high", 800, (scheduler,), "ByNamespace"),
        FlowSchema("kube-system-service-accounts", "workload-high", 900, (account,), "ByNamespace"),
        FlowSchema("service-accounts", "workload-low", 9000, (_group("system:serviceaccounts"),), "ByUser"),
        FlowSchema("global-default", "global-default", 9900, all_users, "ByUser"),
        FlowSchema("catch-all", "catch-all", 10000, all_users, "ByUser"),
    )


def _level(name: str, spec: JsonObject) -> JsonObject:
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name, "annotations": dict(_AUTO_UPDATE)},
        "spec": spec,
    }


def _group(name: str) -> JsonObject:
    return {"kind": "Group", "group": {"name": name}}


def _user(name: str) -> JsonObject:
    return {"kind": "User", "user": {"name": name}}


def _resources(
    verbs: Iterable[str], groups: Iterable[str], resources: Iterable[str], *, cluster: bool = False
) -> JsonObject:
    rule: JsonObject = {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)}
    return {**rule, "namespaces": ["*"], **({"clusterScope": True} if cluster else {})}
