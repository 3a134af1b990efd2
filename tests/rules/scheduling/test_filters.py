"""Every filter against a table; reasons are the words that Kubernetes users know."""

import pytest
from tests.cluster.scheduler.scenery import (
    HOST,
    ZONE,
    affinity,
    anti_affinity,
    cluster,
    near,
    node,
    pod,
    required_nodes,
    spread,
)

from kohort.objects.core import Node
from kohort.objects.json_types import JsonObject
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.filters import fits
from kohort.rules.scheduling.pod_and_node_info import PodInfo
from kohort.rules.scheduling.rejection_text import reason_text

CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"
LABELS = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
NOT_NEAR = "node(s) didn't match pod affinity rules"
REPELS = "node(s) didn't match pod anti-affinity rules"
REPELLED = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED = "node(s) didn't match pod topology spread constraints"


def reasons(info: PodInfo, state: ClusterState, name: str = "n1") -> list[str]:
    rejection = fits(info, state.nodes[name], state)
    return [] if rejection is None else [reason_text(reason) for reason in rejection.reasons]


def tolerating(**toleration: str) -> PodInfo:
    return pod(tolerations=[toleration])


@pytest.mark.parametrize(
    ("info", "there", "expected"),
    [
        (pod(), node("n1", unschedulable=True), [CORDONED]),
        (
            tolerating(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule"),
            node("n1", unschedulable=True),
            [],
        ),
        (pod(), node("n1", taints="k=v:NoSchedule"), [TAINTED]),
        (pod(), node("n1", taints="k=v:NoExecute"), [TAINTED]),
        (pod(), node("n1", taints="k=v:PreferNoSchedule"), []),
        (tolerating(key="k", value="v", effect="NoSchedule"), node("n1", taints="k=v:NoSchedule"), []),
        (tolerating(key="k", operator="Equal", value="w"), node("n1", taints="k=v:NoSchedule"), [TAINTED]),
        (tolerating(key="k", operator="Exists", effect="NoExecute"), node("n1", taints="k=v:NoSchedule"), [TAINTED]),
        (tolerating(operator="Exists"), node("n1", taints="k=v:NoSchedule,j:NoExecute"), []),
        (tolerating(key="k", operator="Exists"), node("n1", taints="k=v:NoSchedule,j:NoExecute"), [TAINTED]),
    ],
)
def test_cordon_and_taints(info: PodInfo, there: Node, expected: list[str]) -> None:
    assert reasons(info, cluster(there)) == expected


def expression(key: str, operator: str, *values: str) -> JsonObject:
    return {"key": key, "operator": operator, "values": [*values]}


@pytest.mark.parametrize(
    ("spec", "matches"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, True),
        ({"nodeSelector": {"disk": "ssd", "x": "y"}}, False),
        ({"affinity": required_nodes({"matchExpressions": [expression("disk", "In", "ssd", "hdd")]})}, True),
        ({"affinity": required_nodes({"matchExpressions": [expression("disk", "NotIn", "ssd")]})}, False),
        ({"affinity": required_nodes({"matchExpressions": [expression("none", "NotIn", "ssd")]})}, True),
        ({"affinity": required_nodes({"matchExpressions": [expression("disk", "Exists")]})}, True),
        ({"affinity": required_nodes({"matchExpressions": [expression("disk", "DoesNotExist")]})}, False),
        ({"affinity": required_nodes({"matchExpressions": [expression("size", "Gt", "4")]})}, True),
        ({"affinity": required_nodes({"matchExpressions": [expression("size", "Lt", "5")]})}, False),
        ({"affinity": required_nodes({"matchFields": [expression("metadata.name", "In", "n1")]})}, True),
        ({"affinity": required_nodes({"matchFields": [expression("metadata.name", "NotIn", "n1")]})}, False),
        ({"affinity": required_nodes({})}, False),
        ({"affinity": required_nodes({}, {"matchExpressions": [expression("disk", "Exists")]})}, True),
        (
            {
                "affinity": required_nodes(
                    {"matchExpressions": [expression("disk", "Exists"), expression("none", "Exists")]}
                )
            },
            False,
        ),
        (
            {
                "nodeSelector": {"disk": "hdd"},
                "affinity": required_nodes({"matchExpressions": [expression("disk", "Exists")]}),
            },
            False,
        ),
    ],
)
def test_node_selector_and_affinity(spec: JsonObject, matches: bool) -> None:
    state = cluster(node("n1", labels={"disk": "ssd", "size": "5"}))
    assert reasons(pod(**spec), state) == ([] if matches else [LABELS])


def port(number: int, address: str = "", protocol: str = "TCP") -> list[JsonObject]:
    exposed = {"containerPort": 80, "hostPort": number, "hostIP": address, "protocol": protocol}
    return [{"name": "c", "image": "i", "ports": [exposed]}]


@pytest.mark.parametrize(
    ("wanted", "free"),
    [
        (port(8080), False),
        (port(8081), True),
        (port(8080, protocol="UDP"), True),
        (port(8080, "127.0.0.1"), False),
        (port(8080, "10.0.0.9"), True),
        (port(0), True),
    ],
)
def test_node_ports(wanted: list[JsonObject], free: bool) -> None:
    state = cluster(node("n1"), on={"n1": [pod("other", containers=port(8080, "127.0.0.1"))]})
    assert reasons(pod(containers=wanted), state) == ([] if free else [PORTS])


@pytest.mark.parametrize(
    ("asked", "held", "expected", "preemption_may_help"),
    [
        ("cpu=1,memory=1Gi", "", [], None),
        ("cpu=1001m", "", ["Insufficient cpu"], False),
        ("cpu=500m", "cpu=600m", ["Insufficient cpu"], True),
        ("cpu=400m", "cpu=600m", [], None),
        ("cpu=500m,memory=900Mi", "cpu=600m,memory=200Mi", ["Insufficient cpu", "Insufficient memory"], True),
        ("cpu=500m,memory=2Gi", "cpu=600m", ["Insufficient cpu", "Insufficient memory"], False),
        ("ephemeral-storage=1", "", ["Insufficient ephemeral-storage"], False),
        ("x.io/gpu=1", "", [], None),
        ("x.io/gpu=2", "x.io/gpu=1", ["Insufficient x.io/gpu"], True),
        ("x.io/none=1", "", ["Insufficient x.io/none"], False),
        ("hugepages-2Mi=2Mi", "", ["Insufficient hugepages-2Mi"], False),
        ("", "cpu=1", [], None),
        ("cpu=1m", "cpu=1", ["Insufficient cpu"], True),
    ],
)
def test_room(asked: str, held: str, expected: list[str], preemption_may_help: bool | None) -> None:
    there = node("n1", "cpu=1,memory=1Gi,x.io/gpu=2")
    state = cluster(there, on={"n1": [pod("other", held)]})
    rejection = fits(pod("p", asked), state.nodes["n1"], state)
    assert ([] if rejection is None else [reason_text(reason) for reason in rejection.reasons]) == expected
    assert (None if rejection is None else rejection.preemption_may_help) == preemption_may_help


def test_the_number_of_pods_counts_too() -> None:
    assert reasons(pod(), cluster(node("n1", pods=1), on={"n1": [pod("other")]})) == ["Too many pods"]


def test_overbooked_nodes_still_take_pods_that_ask_for_nothing() -> None:
    state = cluster(node("n1", "cpu=1,memory=1Gi"), on={"n1": [pod("other", "cpu=2,memory=2Gi")]})
    assert reasons(pod("zero"), state) == []


DB = pod("db", labels={"app": "db"})


@pytest.mark.parametrize(
    ("rule", "labels", "expected"),
    [
        (affinity(near({"app": "db"})), {}, {"n1": [], "n2": [NOT_NEAR], "n3": [NOT_NEAR]}),
        (affinity(near({"app": "db"}, ZONE)), {}, {"n1": [], "n2": [], "n3": [NOT_NEAR]}),
        (affinity(near({"app": "nobody"})), {}, {"n1": [NOT_NEAR], "n2": [NOT_NEAR], "n3": [NOT_NEAR]}),
        (affinity(near({"app": "me"})), {"app": "me"}, {"n1": [], "n2": [], "n3": []}),
        (affinity(near({"app": "me"}, ZONE)), {"app": "me"}, {"n1": [], "n2": [], "n3": [NOT_NEAR]}),
        (
            affinity(near({"app": "db"}), near({"app": "me"})),
            {"app": "me"},
            {"n1": [NOT_NEAR], "n2": [NOT_NEAR], "n3": [NOT_NEAR]},
        ),
        (anti_affinity(near({"app": "db"})), {}, {"n1": [REPELS], "n2": [], "n3": []}),
        (anti_affinity(near({"app": "db"}, ZONE)), {}, {"n1": [REPELS], "n2": [REPELS], "n3": []}),
        (affinity(near({"app": "db"}, namespaces=["other"])), {}, {"n1": [NOT_NEAR], "n2": [NOT_NEAR]}),
        (affinity(near({"app": "db"}, namespaceSelector={})), {}, {"n1": [], "n2": [NOT_NEAR]}),
        (
            affinity(near({"app": "db"}, namespaceSelector={"matchLabels": {"team": "a"}})),
            {},
            {"n1": [], "n2": [NOT_NEAR]},
        ),
        (
            affinity(near({"app": "db"}, namespaceSelector={"matchLabels": {"team": "b"}})),
            {},
            {"n1": [NOT_NEAR], "n2": [NOT_NEAR]},
        ),
        (anti_affinity({"topologyKey": HOST}), {}, {"n1": []}),
        (anti_affinity(near({"app": "db"}, matchLabelKeys=["rev"])), {"rev": "2"}, {"n1": []}),
        (anti_affinity(near({"app": "db"}, mismatchLabelKeys=["rev"])), {"rev": "2"}, {"n1": [REPELS]}),
    ],
)
def test_affinity_between_pods(rule: JsonObject, labels: JsonObject, expected: dict[str, list[str]]) -> None:
    nodes = (node("n1", labels={ZONE: "a"}), node("n2", labels={ZONE: "a"}), node("n3"))
    state = cluster(*nodes, on={"n1": [DB]})
    state.add_namespace("default", {"team": "a"})
    info = pod(affinity=rule, labels=labels)
    assert {name: reasons(info, state, name) for name in expected} == expected


@pytest.mark.parametrize(("labels", "expected"), [({"app": "x"}, [REPELLED]), ({"app": "y"}, [])])
def test_anti_affinity_binds_both_sides(labels: JsonObject, expected: list[str]) -> None:
    grumpy = pod("grumpy", affinity=anti_affinity(near({"app": "x"})))
    assert reasons(pod(labels=labels), cluster(node("n1"), on={"n1": [grumpy]})) == expected


def test_an_exclusive_group_keeps_others_out_of_its_zone() -> None:
    def member(group: str, name: str) -> PodInfo:
        own = {"matchExpressions": [expression("group", "In", group)]}
        foreign = {"matchExpressions": [expression("group", "Exists"), expression("group", "NotIn", group)]}
        rules = affinity({"labelSelector": own, "topologyKey": ZONE})
        rules |= anti_affinity({"labelSelector": foreign, "topologyKey": ZONE})
        return pod(name, labels={"group": group}, affinity=rules)

    nodes = [node(f"{zone}{i}", labels={ZONE: zone}) for zone in "ab" for i in range(2)]
    state = cluster(*nodes, on={"a0": [member("g0", "leader")]})
    assert [reasons(member("g0", "worker"), state, name) for name in ("a0", "a1", "b0")] == [[], [], [NOT_NEAR]]
    assert [reasons(member("g1", "other"), state, name) for name in ("a1", "b0")] == [[REPELS], []]
    assert [reasons(pod("plain"), state, name) for name in ("a0", "b0")] == [[], []]
    assert reasons(pod("marked", labels={"group": "g9"}), state, "a1") == [REPELLED]


X = {"app": "x"}


@pytest.mark.parametrize(
    ("constraint", "spec", "expected"),
    [
        (spread(), {}, {"a1": [SKEWED], "b1": [], "none": [SKEWED + " (missing required label)"]}),
        (spread(2), {}, {"a1": [], "b1": []}),
        (spread(minDomains=3), {}, {"a1": [SKEWED], "b1": []}),
        (spread(nodeAffinityPolicy="Honor"), {"nodeSelector": {HOST: "a1"}}, {"a1": []}),
        (spread(nodeAffinityPolicy="Ignore"), {"nodeSelector": {HOST: "a1"}}, {"a1": [SKEWED]}),
        (spread(nodeTaintsPolicy="Honor"), {}, {"a1": []}),
        (spread(nodeTaintsPolicy="Honor"), {"tolerations": [{"operator": "Exists"}]}, {"a1": [SKEWED]}),
        (spread(matchLabelKeys=["rev"]), {}, {"a1": [], "b1": []}),
        (spread(when="ScheduleAnyway"), {}, {"a1": [], "b1": [], "none": []}),
        (spread(labelSelector={}), {}, {"a1": [], "b1": []}),
        (spread(labelSelector=None), {}, {"a1": [], "b1": []}),
    ],
)
def test_topology_spread(constraint: JsonObject, spec: JsonObject, expected: dict[str, list[str]]) -> None:
    b1 = node("b1", labels={ZONE: "b"}, taints="" if "Taints" not in str(constraint) else "k:NoSchedule")
    state = cluster(node("a1", labels={ZONE: "a"}), b1, node("none"), on={"a1": [pod("there", labels=X)]})
    info = pod(labels=X | {"rev": "2"}, topologySpreadConstraints=[constraint], **spec)
    assert {name: reasons(info, state, name) for name in expected} == expected


def test_spreading_looks_away_from_pods_that_leave() -> None:
    state = cluster(
        node("a1", labels={ZONE: "a"}),
        node("b1", labels={ZONE: "b"}),
        on={"a1": [pod("leaving", labels=X, deleting=True)]},
    )
    assert reasons(pod(labels=X, topologySpreadConstraints=[spread()]), state, "a1") == []


def test_other_namespaces_do_not_count_for_spreading() -> None:
    state = cluster(
        node("a1", labels={ZONE: "a"}),
        node("b1", labels={ZONE: "b"}),
        on={"a1": [pod("foreign", labels=X, namespace="other")]},
    )
    assert reasons(pod(labels=X, topologySpreadConstraints=[spread()]), state, "a1") == []


def test_w16_figures_of_the_whole_pod_count_whatever_gates_others_have_turned() -> None:
    """The scheduler has no gate for them: what a server has stored is held free, or the node would be overbooked."""
    taken = pod("taken", node_name="n1", resources={"requests": {"cpu": "800m"}})
    state = cluster(node("n1", "cpu=1,memory=1Gi"), on={"n1": [taken]})
    assert reasons(pod("p", "cpu=200m"), state) == []
    assert reasons(pod("p", "cpu=201m"), state) == ["Insufficient cpu"]
    assert reasons(pod("p", resources={"requests": {"cpu": "201m"}}), state) == ["Insufficient cpu"]
