"""The state is kept by small steps; it must always equal one that is built from scratch."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.cluster.scheduler.scenery import ZONE, affinity, anti_affinity, cluster, near, node, pod

from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import LabelSelector
from kohort.rules.scheduling.affinity_terms import Matcher, affinity_matcher, spread_matcher
from kohort.rules.scheduling.cluster_state import ClusterState
from kohort.rules.scheduling.pod_and_node_info import NodeInfo, PodInfo

APPS = ["x", "y"]
NODES = ["n0", "n1", "n2"]


def _rule(kind: str, app: str) -> JsonObject | None:
    if kind == "near":
        return affinity(near({"app": app}))
    if kind == "apart":
        return anti_affinity(near({"app": app}, ZONE))
    return None


def _matchers() -> list[Matcher]:
    terms = [pod(affinity=anti_affinity(near({"app": app}, ZONE))).anti_affinity for app in APPS]
    everywhere = pod(affinity=affinity(near({"app": "x"}, namespaceSelector={"matchLabels": {"team": "a"}}))).affinity
    return [
        *(affinity_matcher(term) for term in terms),
        affinity_matcher(everywhere),
        *(spread_matcher(LabelSelector.parse(text), "default") for text in ("app=x", "app in (x,y)", "!app")),
    ]


class StateMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.placed: dict[str, tuple[PodInfo, str]] = {}
        self.nodes: set[str] = set()
        self.teams: dict[str, str] = {}
        self.matchers = _matchers()

    @rule(name=st.sampled_from(NODES), size=st.sampled_from(["cpu=1", "cpu=2,x.io/a=3"]))
    def add_node(self, name: str, size: str) -> None:
        self.state.add_node(node(name, size, labels={ZONE: name[-1]}, images={"image:latest": 5}))
        self.nodes.add(name)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        self.state.remove_node(name)
        self.nodes.discard(name)

    @rule(
        where=st.sampled_from(NODES),
        app=st.sampled_from([*APPS, ""]),
        kind=st.sampled_from(["", "near", "apart"]),
        requests=st.sampled_from(["", "cpu=100m,memory=1Mi", "x.io/a=1"]),
        deleting=st.booleans(),
        namespace=st.sampled_from(["default", "other"]),
        assumed=st.booleans(),
    )
    def add_pod(
        self, where: str, app: str, kind: str, requests: str, deleting: bool, namespace: str, assumed: bool
    ) -> None:
        info = pod(
            "p",
            requests,
            labels={"app": app} if app else {},
            affinity=_rule(kind, app or "x"),
            deleting=deleting,
            namespace=namespace,
            owner="web",
        )
        (self.state.assume if assumed else self.state.add_pod)(info, where)
        self.placed[info.uid] = (info, where)

    @rule(number=st.integers(0, 100))
    def remove_pod(self, number: int) -> None:
        if self.placed:
            uid = sorted(self.placed)[number % len(self.placed)]
            self.state.remove_pod(uid)
            del self.placed[uid]

    @rule(number=st.integers(0, 100))
    def forget_assumed(self, number: int) -> None:
        if self.placed:
            uid = sorted(self.placed)[number % len(self.placed)]
            if uid in self.state.assumed:
                del self.placed[uid]
            self.state.forget(uid)

    @rule(name=st.sampled_from(["default", "other"]), team=st.sampled_from(["a", "b"]))
    def label_namespace(self, name: str, team: str) -> None:
        self.state.add_namespace(name, {"team": team})
        self.teams[name] = team

    @rule(number=st.integers(0, 100))
    def ask(self, number: int) -> None:
        self.state.counts(self.matchers[number % len(self.matchers)])

    @invariant()
    def equals_a_state_built_from_scratch(self) -> None:
        fresh = ClusterState()
        for name, team in self.teams.items():
            fresh.add_namespace(name, {"team": team})
        for name in self.nodes:
            current = self.state.nodes[name].node
            assert current is not None
            fresh.add_node(current)
        for info, where in self.placed.values():
            fresh.add_pod(info, where)
        assert {name: sums(entry) for name, entry in self.state.nodes.items()} == {
            name: sums(entry) for name, entry in fresh.nodes.items()
        }
        assert self.state.anti_affinity_counts == fresh.anti_affinity_counts
        assert self.state.preference_counts == fresh.preference_counts
        assert self.state.owned == fresh.owned
        assert self.state.image_nodes == fresh.image_nodes
        assert {entry.name for entry in self.state.schedulable} == self.nodes
        for matcher in self.matchers:
            assert self.state.counts(matcher) == fresh.counts(matcher)


def sums(entry: NodeInfo) -> tuple[object, ...]:
    return (
        entry.used_cpu,
        entry.used_memory,
        {name: amount for name, amount in entry.used_scalars.items() if amount},
        entry.scored_cpu,
        entry.ports,
        set(entry.pods),
        entry.milli_cpu,
    )


TestState = StateMachine.TestCase
TestState.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@given(st.sets(st.integers(0, 4)))
def test_what_is_taken_away_to_try_something_comes_back(chosen: set[int]) -> None:
    pods = [pod(f"p{i}", "cpu=100m", labels={"app": "x"}) for i in range(5)]
    state = cluster(node("n1"), on={"n1": pods})
    state.assume(pods[0], "n1")
    before = sums(state.nodes["n1"])
    with state.without([pods[i] for i in chosen]):
        assert state.nodes["n1"].used_cpu == 500 - 100 * len(chosen)
    assert sums(state.nodes["n1"]) == before
    assert set(state.assumed) == {pods[0].uid}
